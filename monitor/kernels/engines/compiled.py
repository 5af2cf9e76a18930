"""All machine code: over pairs of lists, and over texts.

`monitor.kernels.engines.choice` alone imports this, when it pays.
"""

from monitor.kernels.engines.compiled_pairs import find, weigh_counts
from monitor.kernels.engines.compiled_texts import code_texts

__all__ = ["code_texts", "find", "weigh_counts"]
