"""All machine code: the code for pairs of lists and the code for texts.

Only `monitor.kernels.engines.choice` imports this module.
"""

from monitor.kernels.engines.compiled_pairs import find, weigh_counts
from monitor.kernels.engines.compiled_texts import code_texts

__all__ = ["code_texts", "find", "weigh_counts"]
