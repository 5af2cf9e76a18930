"""The series that one rule judges in one segment, run after run, as arrays."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

import numpy as np

from monitor.alerts.rule_evaluation import Figures
from monitor.alerts.verdicts import Reading
from monitor.model.alerts import State
from monitor.model.arrays import Flags, Floats
from monitor.model.memory import PARTS, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import SeriesRule, SimilarityRule, describe_series
from monitor.model.runs import Summary
from monitor.reference.sampling_error import estimate_error, from_angle, to_angle
from monitor.reference.season import Phases

RuleT_co = TypeVar("RuleT_co", bound=SeriesRule, covariant=True)

HALF_A_USER = 0.5


@dataclass(frozen=True, slots=True)
class RuleSeries(Generic[RuleT_co]):
    """One rule on one segment.

    Shares of users are judged as angles, on which they vary alike wherever they lie.
    """

    rule: RuleT_co
    segment: str

    @property
    def key(self) -> tuple[str, str]:
        """Alert and segment."""
        return self.rule.alert, self.segment

    def read(self, figures: Figures) -> tuple[float, float]:
        """Value and sampling error of a run on the scale that is judged, NaN where the run has none."""
        found = self._find(figures)
        if isinstance(found, Summary):
            return self.measure(found)
        if found is None or found.users < self.rule.min_users:
            return np.nan, np.nan
        return _as_angle(found.value, found.users)

    def measure(self, summary: Summary) -> tuple[float, float]:
        """The same of a rule on similarity; NaN too where too few users stand behind the value."""
        rule = self.rule
        value = summary.value(rule.subject.statistic) if summary.n >= rule.min_users else None
        if value is None or not isinstance(rule, SimilarityRule):
            return np.nan, np.nan
        # The error of a share depends on the share itself; that of its angle does not.
        if rule.is_share:
            return _as_angle(value, summary.n)
        error = estimate_error(summary, rule.statistic)
        return value, np.nan if error is None else error

    def count_users(self, figures: Figures) -> int:
        """Users behind the run's value; 0 where it has none."""
        found = self._find(figures)
        return 0 if found is None else found.n if isinstance(found, Summary) else found.users

    def _find(self, figures: Figures) -> Summary | Reading | None:
        if isinstance(self.rule, SimilarityRule):
            return figures.summaries.get((self.segment, self.rule.metric))
        return figures.find_share(self.segment, self.rule.share)

    def show(self, judged: float, users: int) -> float | None:
        """A value on the judged scale as people read it, within the range of the series.

        None for what is not finite, and for a share of nobody.
        """
        if not np.isfinite(judged) or (self.rule.is_share and not users):
            return None
        if not self.rule.is_share:
            low, high = (isinstance(self.rule, SimilarityRule) and self.rule.scores) or (
                -np.inf,
                np.inf,
            )
            return float(np.clip(judged, low, high))
        shown = float(from_angle(judged, users))
        # As angles of rare shares come back: less than half a user is nobody.
        if shown * users < HALF_A_USER:
            return 0.0
        return 1.0 if (1.0 - shown) * users < HALF_A_USER else shown


def _as_angle(share: float, users: int) -> tuple[float, float]:
    angle, error = to_angle(share, users)
    return float(angle), float(error)


def measure_all(
    series: Sequence[RuleSeries[SeriesRule]], figures: Figures
) -> tuple[Floats, Floats]:
    """Values and sampling errors of every series in one run, (m,) each, NaN where the run has none."""
    found = [each.read(figures) for each in series]
    values, errors = np.array(found, dtype=np.float64).reshape(len(series), 2).T
    return values, errors


@dataclass(frozen=True, slots=True)
class LessonArrays:
    """What lessons hold, (runs, m) each, NaN where a run has no value."""

    values: Floats
    errors: Floats  # sampling errors
    z: Floats  # how far out each series lay
    lost: Floats  # share of users without a score
    steady: Floats  # what z added to evidence


def read_lessons(series: Sequence[RuleSeries[SeriesRule]], past: Sequence[PastRun]) -> LessonArrays:
    """Each series in each past run: from its lessons, or its summaries for a rule that looks at something else now."""
    found = np.full((PARTS, len(past), len(series)), np.nan)
    for rule, columns in _by_rule(series):
        for segments, rows in _alike(rule.alert, past).items():
            known = [place for place, name in enumerate(segments) if name in columns]
            numbers = np.stack([past[row].lessons[rule.alert].numbers for row in rows], axis=1)
            found[
                :, np.array(rows)[:, np.newaxis], [columns[segments[place]] for place in known]
            ] = numbers[:, :, known]
        mine, judged = list(columns.values()), describe_series(rule)
        # Runs from before the rule, or from before it watched this, have summaries in place of a
        # lesson.
        for row in [row for row, run in enumerate(past) if not run.teaches(rule.alert, judged)]:
            figures = Figures.of(past[row].summaries)
            found[:2, row, mine] = measure_all([series[column] for column in mine], figures)
    return LessonArrays(*found)


def _by_rule(
    series: Sequence[RuleSeries[SeriesRule]],
) -> Iterator[tuple[SeriesRule, dict[str, int]]]:
    columns: dict[str, dict[str, int]] = defaultdict(dict)
    rules = {each.rule.alert: each.rule for each in series}
    for column, each in enumerate(series):
        columns[each.rule.alert][each.segment] = column
    return ((rule, columns[alert]) for alert, rule in rules.items())


def _alike(alert: str, past: Sequence[PastRun]) -> dict[tuple[str, ...], list[int]]:
    # Runs with the same segments are copied at once: judging 1,000 series looks back at 120 runs.
    found: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, run in enumerate(past):
        if (lesson := run.lessons.get(alert)) is not None:
            found[lesson.segments].append(row)
    return found


def find_alarms(
    series: Sequence[RuleSeries[SeriesRule]], past: Sequence[PastRun], alerts: Collection[str]
) -> Flags:
    """Whether any of these alerts was pending or firing after each past run, in the segment or in all users, (runs, m)."""
    found = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        if alarmed := {segment for alert, segment in run.states if alert in alerts}:
            found[row] = [ALL in alarmed or each.segment in alarmed for each in series]
    return found


def spread_over_segments(series: Sequence[RuleSeries[SeriesRule]], flags: Flags) -> Flags:
    """Each run's flag, (runs, m), in all series of the segment, and one of all users in all segments."""
    segments = np.array([each.segment for each in series])
    found = np.repeat(flags[:, segments == ALL].any(axis=1, keepdims=True), len(series), axis=1)
    for segment in {*segments[flags.any(axis=0)]}:
        mine = segments == segment
        found[:, mine] |= flags[:, mine].any(axis=1, keepdims=True)
    return found


def find_firings(series: Sequence[RuleSeries[SeriesRule]], past: Sequence[PastRun]) -> Flags:
    """Whether the very alert was firing after each past run, (runs, m)."""
    found = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        if run.states:
            found[row] = [run.states.get(each.key) is State.FIRING for each in series]
    return found


def find_phases(past: Sequence[PastRun], slot: datetime) -> tuple[Phases, ...]:
    """Where the runs stand in the day and in the week, by UTC.

    Those of the slot's own hour and day are under way.
    """
    slots, now = [run.slot.astimezone(UTC) for run in past], slot.astimezone(UTC)
    in_hour = sum(each.date() == now.date() and each.hour == now.hour for each in slots)
    in_day = sum(each.date() == now.date() for each in slots)
    hours = np.array([each.hour for each in slots], dtype=np.intp)
    weekdays = np.array([each.weekday() for each in slots], dtype=np.intp)
    return (
        Phases(past=hours, now=now.hour, under_way=in_hour),
        Phases(past=weekdays, now=now.weekday(), under_way=in_day, is_known_at_once=True),
    )
