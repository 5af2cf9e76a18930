"""Compare rankings in Python: one pair, or many users' lists. No daemon, no database."""

from monitor.frames.comparison import compare, compare_many, plot_pair
from monitor.frames.summary import plot_scores, summarize
