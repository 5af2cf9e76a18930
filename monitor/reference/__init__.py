"""What is normal for a series, how surprising its next run is, and how often that may page falsely. No I/O.

A series is one statistic of one metric over one segment; m series are the columns of every array, past runs the rows, oldest
first. Which runs count is the caller's choice: it leaves out those in alarm, insufficient or of another configuration (NaN).
"""

from monitor.reference.autocorrelation import correlate, discount
from monitor.reference.budget import SAFETY, SHARE_OF_ALL, Budget
from monitor.reference.errors import estimate_error
from monitor.reference.history import find_median
from monitor.reference.intervals import estimate_interval, share_interval
from monitor.reference.power import Looking
from monitor.reference.prediction import Prediction, predict, surprise, to_normal
from monitor.reference.reference import WINDOW, Reference, refer
from monitor.reference.season import Phases
from monitor.reference.shares import from_angle, to_angle
from monitor.reference.thresholds import Threshold, propose
from monitor.reference.trend import Evidence, count_suspects, follow, start

__all__ = [
    "SAFETY",
    "SHARE_OF_ALL",
    "WINDOW",
    "Budget",
    "Evidence",
    "Looking",
    "Phases",
    "Prediction",
    "Reference",
    "Threshold",
    "correlate",
    "count_suspects",
    "discount",
    "estimate_error",
    "estimate_interval",
    "find_median",
    "follow",
    "from_angle",
    "predict",
    "propose",
    "refer",
    "share_interval",
    "start",
    "surprise",
    "to_angle",
    "to_normal",
]
