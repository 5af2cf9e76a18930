"""From what a run measured to verdicts, states and transitions, and when to try a delivery again. Pure: no I/O, no clock."""

from monitor.alerts.backoff import asked_pause_s, next_attempt
from monitor.alerts.frozen import CHURN, LEAST_CHANGES, find_churn, other
from monitor.alerts.incidents import GROUP_FOR, name_incidents
from monitor.alerts.judging import judge_run, segments_of
from monitor.alerts.machine import Look, advance
from monitor.alerts.matching import Matcher
from monitor.alerts.policy import Policy, Route, Window
from monitor.alerts.retiring import outdated, retire
from monitor.alerts.staleness import Wait, judge_stale
from monitor.alerts.telling import Addressee, Telling, compose, compose_repetitions
from monitor.alerts.verdicts import judge

__all__ = [
    "CHURN",
    "GROUP_FOR",
    "LEAST_CHANGES",
    "Addressee",
    "Look",
    "Matcher",
    "Policy",
    "Route",
    "Telling",
    "Wait",
    "Window",
    "advance",
    "asked_pause_s",
    "compose",
    "compose_repetitions",
    "find_churn",
    "judge",
    "judge_run",
    "judge_stale",
    "name_incidents",
    "next_attempt",
    "other",
    "outdated",
    "retire",
    "segments_of",
]
