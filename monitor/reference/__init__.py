"""What is normal for a series, how surprising its next run is, and how often that may page falsely. No I/O.

A series is one statistic of one metric over one segment; m series are the columns of every array, past runs the rows, oldest
first. Which runs count is the caller's choice: it leaves out those in alarm, insufficient or of another configuration (NaN).
"""

from monitor.reference.counts import (
    CountReference,
    estimate_error,
    estimate_interval,
    from_angle,
    judge_rare,
    share_interval,
    to_angle,
)
from monitor.reference.history import find_median
from monitor.reference.prediction import WINDOW, Prediction, Reference, predict, refer, surprise, to_normal
from monitor.reference.season import Phases, TrendEvidence, correlate, count_suspects, discount, no_evidence, update_evidence
from monitor.reference.spread import SETTLED_RUNS, PastAlarms
from monitor.reference.thresholds import SAFETY, SHARE_OF_ALL, Budget, DropSearch, Threshold, propose
