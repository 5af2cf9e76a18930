"""Decisions that stay valid however often one looks: bets on bounded means. No I/O.

Scores are bounded and stand on the unit interval (`Scale`). Nothing is assumed of their distribution; what is assumed of how
users were drawn, and what a promise covers, stands in the README beside this file.
"""

from monitor.sequential.bounds import bounds, bounds_of_draws
from monitor.sequential.capital import STAKES, WEIGHTS, follow, log_capital, log_capital_of_draws
from monitor.sequential.detector import Detector, detect
from monitor.sequential.gate import Gated, Reason, Verdict, gate, judge
from monitor.sequential.sample import Draw, Sample, Tally, tally
from monitor.sequential.scale import Scale
from monitor.sequential.segments import reject

__all__ = [
    "STAKES",
    "WEIGHTS",
    "Detector",
    "Draw",
    "Gated",
    "Reason",
    "Sample",
    "Scale",
    "Tally",
    "Verdict",
    "bounds",
    "bounds_of_draws",
    "detect",
    "follow",
    "gate",
    "judge",
    "log_capital",
    "log_capital_of_draws",
    "reject",
    "tally",
]
