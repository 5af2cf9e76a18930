"""Computes the similarity of two top-k lists for all users at once.

All inputs and results are numpy arrays. Arrays have the layout (k, users). `align` finds the
position of each baseline item in the candidate's list. It does this once for all metrics. Every
metric is a small function of this alignment. A docstring often gives the type, shape and range of
the result after a colon.
"""

from monitor.measures.kernels.alignment import (
    Alignment as Alignment,
    align as align,
    blocks as blocks,
)
from monitor.measures.kernels.ragged import PAD as PAD, pad as pad
