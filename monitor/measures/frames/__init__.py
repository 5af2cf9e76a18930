"""Compares rankings in Python: two lists, or the lists of many users.

This package needs neither the daemon nor a database.
"""

from monitor.measures.frames.comparison import (
    compare as compare,
    compare_many as compare_many,
    plot_pair as plot_pair,
)
from monitor.measures.frames.summary import plot_scores as plot_scores, summarize as summarize
