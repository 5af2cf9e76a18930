"""From what a run measured to verdicts, states and transitions, and when to try a delivery again. Pure: no I/O, no clock."""

from monitor.alerts.backoff import next_attempt
from monitor.alerts.judging import judge_run, segments_of
from monitor.alerts.machine import Look, advance
from monitor.alerts.retiring import outdated, retire
from monitor.alerts.verdicts import judge

__all__ = ["Look", "advance", "judge", "judge_run", "next_attempt", "outdated", "retire", "segments_of"]
