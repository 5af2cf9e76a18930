"""Numpy in, numpy out: how alike two top-k lists are, for all users at once, on arrays laid out (k, users).

`align` finds once where each baseline item stands in the candidate's list; every measure is a small function of that.
"""

from monitor.kernels.alignment import Alignment, align, blocks
from monitor.kernels.ragged import PAD, pad
