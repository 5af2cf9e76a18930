"""From what a run measured to verdicts, states and transitions, and when to try a delivery again. Pure: no I/O, no clock."""

from monitor.alerts.backoff import next_attempt
from monitor.alerts.frozen import CHURN, LEAST_CHANGES, find_churn, other
from monitor.alerts.judging import judge_run, segments_of
from monitor.alerts.machine import Look, advance
from monitor.alerts.retiring import outdated, retire
from monitor.alerts.staleness import Wait, judge_stale
from monitor.alerts.verdicts import judge

__all__ = [
    "CHURN",
    "LEAST_CHANGES",
    "Look",
    "Wait",
    "advance",
    "find_churn",
    "judge",
    "judge_run",
    "judge_stale",
    "next_attempt",
    "other",
    "outdated",
    "retire",
    "segments_of",
]
