"""Series: what one rule looks at in one segment, run after run, as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from monitor.model import PastRun, Rule, State, Statistic, Summary
from monitor.reference import Phases, estimate_error, from_angle, to_angle

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Series:
    """One rule on one segment. Shares of users are judged as angles, on which they vary alike wherever they lie."""

    rule: Rule
    segment: str

    @property
    def watch(self) -> tuple[str, str]:
        """Alert and segment."""
        return self.rule.alert, self.segment

    @property
    def _is_share(self) -> bool:
        return Statistic.parse(self.rule.statistic).floor is not None

    def measure(self, summary: Summary | None) -> tuple[float, float]:
        """Value and sampling error on the scale that is judged; NaN where there is none, or too few users stand behind it."""
        value = summary.value(self.rule.statistic) if summary is not None and summary.n >= self.rule.min_users else None
        if summary is None or value is None:
            return np.nan, np.nan
        if self._is_share:
            angle, error = to_angle(value, summary.n)
            return float(angle), float(error)
        found = estimate_error(summary, Statistic.parse(self.rule.statistic))
        return value, np.nan if found is None else found

    def show(self, judged: float, summary: Summary | None) -> float | None:
        """A value on the judged scale as people read it; None for what is not finite."""
        if not np.isfinite(judged):
            return None
        if self._is_share:
            return float(from_angle(judged, summary.n)) if summary is not None and summary.n else None
        return float(judged)


def measure_all(series: Sequence[Series], runs: Sequence[Sequence[Summary]]) -> tuple[Floats, Floats]:
    """Values and sampling errors of every series in every run, (runs, m) each, NaN where a run says nothing."""
    found = np.full((2, len(runs), len(series)), np.nan)
    for row, summaries in enumerate(runs):
        by_name = {(each.segment, each.metric): each for each in summaries}
        for column, each in enumerate(series):
            found[:, row, column] = each.measure(by_name.get((each.segment, each.rule.metric)))
    return found[0], found[1]


def recall_z(series: Sequence[Series], past: Sequence[PastRun]) -> Floats:
    """How far out each series lay in each past run, (runs, m); NaN where nothing was expected."""
    found = np.full((len(past), len(series)), np.nan)
    for row, run in enumerate(past):
        by_watch = {(each.alert, each.segment): each.z for each in run.expectations}
        for column, each in enumerate(series):
            z = by_watch.get(each.watch)
            found[row, column] = np.nan if z is None else z
    return found


def find_alarms(series: Sequence[Series], past: Sequence[PastRun]) -> Flags:
    """Whether an alert of any of these rules was pending or firing in the segment after each past run, (runs, m)."""
    alerts = {each.rule.alert for each in series}
    alarmed = [{segment for alert, segment in run.states if alert in alerts} for run in past]
    return _flags([[each.segment in segments for each in series] for segments in alarmed], len(series))


def find_firings(series: Sequence[Series], past: Sequence[PastRun]) -> Flags:
    """Whether the very alert was firing after each past run, (runs, m)."""
    return _flags([[run.states.get(each.watch) is State.FIRING for each in series] for run in past], len(series))


def _flags(rows: list[list[bool]], columns: int) -> Flags:
    return np.array(rows, dtype=np.bool_).reshape(len(rows), columns)


def find_phases(past: Sequence[PastRun], slot: datetime) -> tuple[Phases, ...]:
    """Where the runs stand in the day and in the week, by UTC."""
    slots = [run.slot for run in past]
    return tuple(Phases(past=np.array([of(each) for each in slots], dtype=np.intp), now=of(slot)) for of in (_hour, _weekday))


def _hour(slot: datetime) -> int:
    return slot.hour


def _weekday(slot: datetime) -> int:
    return slot.weekday()
