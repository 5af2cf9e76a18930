"""All machine code: over pairs of lists, and over texts.

Only `monitor.kernels.engines.choice` imports this module.
"""

from monitor.kernels.engines.compiled_pairs import find, weigh_counts
from monitor.kernels.engines.compiled_texts import code_texts

__all__ = ["code_texts", "find", "weigh_counts"]
