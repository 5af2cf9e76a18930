"""Numpy in, numpy out: the similarity of two top-k lists, for all users at once.

Arrays have the layout (k, users). `align` finds the position of each baseline item in the
candidate's list once. Every metric is a small function of that alignment.
"""

from monitor.kernels.alignment import Alignment, align, blocks
from monitor.kernels.ragged import PAD, pad
