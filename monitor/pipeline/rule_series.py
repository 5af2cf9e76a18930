"""The series that one rule judges in one segment, run after run, as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from monitor.model import ALL, COVERAGE, PARTS, PastRun, Rule, State, Statistic, Summary
from monitor.model.arrays import Flags, Floats
from monitor.reference import Phases, estimate_error, from_angle, to_angle

HALF_A_USER = 0.5
"""A user: less than this is nobody."""


@dataclass(frozen=True, slots=True)
class RuleSeries:
    """One rule on one segment. Shares of users are judged as angles, on which they vary alike wherever they lie."""

    rule: Rule
    segment: str

    @property
    def watch(self) -> tuple[str, str]:
        """Alert and segment."""
        return self.rule.alert, self.segment

    @property
    def _is_share(self) -> bool:
        return self.rule.metric == COVERAGE or Statistic.parse(self.rule.statistic).floor is not None

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

    def show_expected(self, judged: float, summary: Summary | None) -> float | None:
        """The same of what is expected: a share of less than half a user, as angles of rare shares come back, is 0."""
        shown = self.show(judged, summary)
        is_trace = self._is_share and shown is not None and summary is not None and shown * summary.n < HALF_A_USER
        return 0.0 if is_trace else shown


def measure_all(series: Sequence[RuleSeries], summaries: Sequence[Summary]) -> tuple[Floats, Floats]:
    """Values and sampling errors of every series in one run, (m,) each, NaN where the run says nothing."""
    by_name = {(each.segment, each.metric): each for each in summaries}
    found = [each.measure(by_name.get((each.segment, each.rule.metric))) for each in series]
    values, errors = np.array(found, dtype=np.float64).reshape(len(series), 2).T
    return values, errors


@dataclass(frozen=True, slots=True)
class LessonArrays:
    """What lessons hold, (runs, m) each, NaN where a run said nothing.

    Values, sampling errors, how far out each series lay (z), the share of users without a score, and what z added to evidence.
    """

    values: Floats
    errors: Floats
    z: Floats
    lost: Floats
    steady: Floats


def read_lessons(series: Sequence[RuleSeries], past: Sequence[PastRun]) -> LessonArrays:
    """What each series was in each past run.

    From the runs' lessons, arrays already; from their summaries for a rule that looks at something else than it did then.
    """
    found = np.full((PARTS, len(past), len(series)), np.nan)
    for rule, columns in _by_rule(series):
        for segments, rows in _alike(rule.alert, past).items():
            known = [place for place, name in enumerate(segments) if name in columns]
            numbers = np.stack([past[row].lessons[rule.alert].numbers for row in rows], axis=1)
            found[:, np.array(rows)[:, np.newaxis], [columns[segments[place]] for place in known]] = numbers[:, :, known]
        mine, looked_at = list(columns.values()), rule.series
        for row in [row for row, run in enumerate(past) if not run.teaches(rule.alert, looked_at)]:
            found[:2, row, mine] = measure_all([series[column] for column in mine], past[row].summaries)
    return LessonArrays(*found)


def _by_rule(series: Sequence[RuleSeries]) -> Iterator[tuple[Rule, dict[str, int]]]:
    """Each rule with the columns of its segments."""
    columns: dict[str, dict[str, int]] = defaultdict(dict)
    rules = {each.rule.alert: each.rule for each in series}
    for column, each in enumerate(series):
        columns[each.rule.alert][each.segment] = column
    return ((rule, columns[alert]) for alert, rule in rules.items())


def _alike(alert: str, past: Sequence[PastRun]) -> dict[tuple[str, ...], list[int]]:
    """Runs with a lesson of the alert by the segments that it speaks of: those of one kind are taken over at once."""
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, run in enumerate(past):
        if (lesson := run.lessons.get(alert)) is not None:
            found[lesson.segments].append(row)
    return found


def find_alarms(series: Sequence[RuleSeries], past: Sequence[PastRun], alerts: Collection[str]) -> Flags:
    """Whether any of these alerts was pending or firing after each past run, in the segment or in all users, (runs, m)."""
    columns: dict[str, list[int]] = defaultdict(list)
    for column, each in enumerate(series):
        columns[each.segment].append(column)
    found = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        for segment in {segment for alert, segment in run.states if alert in alerts}:
            found[row, slice(None) if segment == ALL else columns.get(segment, [])] = True
    return found


def find_firings(series: Sequence[RuleSeries], past: Sequence[PastRun]) -> Flags:
    """Whether the very alert was firing after each past run, (runs, m)."""
    columns = {each.watch: column for column, each in enumerate(series)}
    found = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        firing = (columns.get(watch) for watch, state in run.states.items() if state is State.FIRING)
        found[row, [column for column in firing if column is not None]] = True
    return found


def find_phases(past: Sequence[PastRun], slot: datetime) -> tuple[Phases, ...]:
    """Where the runs stand in the day and in the week, by UTC."""
    slots = [run.slot for run in past]
    return tuple(Phases(past=np.array([of(each) for each in slots], dtype=np.intp), now=of(slot)) for of in (_hour, _weekday))


def _hour(slot: datetime) -> int:
    return slot.hour


def _weekday(slot: datetime) -> int:
    return slot.weekday()
