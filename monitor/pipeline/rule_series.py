"""Reads the series that one rule judges in one segment, over many runs, as arrays."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from monitor.alerts.rule_evaluation import Figures
from monitor.alerts.verdicts import Reading
from monitor.model.alerts import State
from monitor.model.arrays import Flags, Floats
from monitor.model.memory import PARTS, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import SeriesRule, SimilarityRule, describe_series
from monitor.model.runs import Summary
from monitor.statistics.reference.sampling_error import estimate_error, from_angle, to_angle
from monitor.statistics.reference.season import Phases

RuleT_co = TypeVar("RuleT_co", bound=SeriesRule, covariant=True)

HALF_A_USER = 0.5


@dataclass(frozen=True, slots=True)
class RuleSeries(Generic[RuleT_co]):
    """One rule on one segment.

    Shares of users are judged as angles, since the error of an angle is constant.
    """

    rule: RuleT_co
    segment: str

    @property
    def key(self) -> tuple[str, str]:
        """The alert and the segment, which together identify the series."""
        return self.rule.alert, self.segment

    def read(self, figures: Figures) -> tuple[float, float]:
        """Value and sampling error of a run, on the judged scale. NaN if the run has no value."""
        figure = self._find(figures)
        if isinstance(figure, Summary):
            return self.measure(figure)
        if figure is None or figure.users < self.rule.min_users:
            return np.nan, np.nan
        return _as_angle(figure.value, figure.users)

    def measure(self, summary: Summary) -> tuple[float, float]:
        """Value and sampling error of a summary, for a rule on similarity.

        NaN if the summary has too few users or no value.
        """
        rule = self.rule
        value = None
        if summary.n >= rule.min_users:
            value = summary.value(rule.subject.statistic)
        if value is None or not isinstance(rule, SimilarityRule):
            return np.nan, np.nan
        if rule.is_share:
            return _as_angle(value, summary.n)
        error = estimate_error(summary, rule.statistic)
        return value, np.nan if error is None else error

    def count_users(self, figures: Figures) -> int:
        """Number of users of the run's value. 0 if the run has no value."""
        figure = self._find(figures)
        if figure is None:
            return 0
        return figure.n if isinstance(figure, Summary) else figure.users

    def _find(self, figures: Figures) -> Summary | Reading | None:
        if isinstance(self.rule, SimilarityRule):
            return figures.summaries.get((self.segment, self.rule.metric))
        return figures.find_share(self.segment, self.rule.share)

    def show(self, judged: float, users: int) -> float | None:
        """Convert a judged value to the scale that people read, within the range of the series.

        ``judged``: the value on the judged scale, which is an angle for shares of users. None if it
        is not finite, or a share of no users.
        """
        if not np.isfinite(judged) or (self.rule.is_share and not users):
            return None
        if not self.rule.is_share:
            if isinstance(self.rule, SimilarityRule) and self.rule.scores is not None:
                judged = np.clip(judged, *self.rule.scores)
            return float(judged)
        share = float(from_angle(judged, users))
        # Converting an angle back is inexact, so less than half a user becomes no user.
        if share * users < HALF_A_USER:
            return 0.0
        return 1.0 if (1.0 - share) * users < HALF_A_USER else share


def _as_angle(share: float, users: int) -> tuple[float, float]:
    angle, error = to_angle(share, users)
    return float(angle), float(error)


ManySeries: TypeAlias = Sequence[RuleSeries[SeriesRule]]


def measure_all(series: ManySeries, figures: Figures) -> tuple[Floats, Floats]:
    """Values and sampling errors of m series in one run, (m,) each. NaN for a missing value."""
    pairs = [watched.read(figures) for watched in series]
    table = np.array(pairs, dtype=np.float64).reshape(len(series), 2)
    return table[:, 0], table[:, 1]


@dataclass(frozen=True, slots=True)
class LessonArrays:
    """Figures of past runs for m series, (runs, m) each. NaN if a run has no value."""

    values: Floats
    errors: Floats  # sampling errors
    z: Floats  # how far each value was from normal, in standard deviations
    lost: Floats  # share of users without a score
    steady: Floats  # the discounted z that was added to the evidence of a trend


def read_lessons(series: ManySeries, past: Sequence[PastRun]) -> LessonArrays:
    """The figures of each series in each past run.

    Each run stored its figures. They are computed from the run's summaries in two cases: the rule
    did not exist in that run, or it measured something else.
    """
    parts = np.full((PARTS, len(past), len(series)), np.nan)
    for rule, columns in _by_rule(series):
        for segments, rows in _rows_by_segments(rule.alert, past).items():
            places = [place for place, name in enumerate(segments) if name in columns]
            lessons = [past[row].lessons[rule.alert] for row in rows]
            numbers = np.stack([lesson.numbers for lesson in lessons], axis=1)
            targets = [columns[segments[place]] for place in places]
            parts[:, np.array(rows)[:, np.newaxis], targets] = numbers[:, :, places]
        of_rule = list(columns.values())
        measured = describe_series(rule)
        for row, run in enumerate(past):
            if not run.teaches(rule.alert, measured):
                figures = Figures.of(run.summaries)
                of_run = measure_all([series[column] for column in of_rule], figures)
                parts[:2, row, of_rule] = of_run
    return LessonArrays(*parts)


def _by_rule(
    series: ManySeries,
) -> Iterator[tuple[SeriesRule, dict[str, int]]]:
    """Yield each rule with the columns of its series, by segment."""
    columns: dict[str, dict[str, int]] = defaultdict(dict)
    rules = {watched.rule.alert: watched.rule for watched in series}
    for column, watched in enumerate(series):
        columns[watched.rule.alert][watched.segment] = column
    return ((rule, columns[alert]) for alert, rule in rules.items())


def _rows_by_segments(alert: str, past: Sequence[PastRun]) -> dict[tuple[str, ...], list[int]]:
    # Runs with the same segments are copied together, which is faster for many series.
    by_segments: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, run in enumerate(past):
        if (lesson := run.lessons.get(alert)) is not None:
            by_segments[lesson.segments].append(row)
    return by_segments


def find_alarms(
    series: ManySeries,
    past: Sequence[PastRun],
    alerts: Collection[str],
) -> Flags:
    """Whether any of these alerts was pending or firing after each past run, (runs, series).

    Alerts on the series' segment and alerts on all users are considered.
    """
    alarms = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        # The states are those of pending and firing alerts, by alert and segment.
        segments = {segment for alert, segment in run.states if alert in alerts}
        if segments:
            alarms[row] = [ALL in segments or watched.segment in segments for watched in series]
    return alarms


def spread_over_segments(series: ManySeries, flags: Flags) -> Flags:
    """Set each run's flags in all series of a segment in which one series has the flag.

    If a series of all users has the flag, all series get it. ``flags`` has one row for each run and
    one column for each of the ``series``.
    """
    segments = np.array([watched.segment for watched in series])
    of_all = flags[:, segments == ALL].any(axis=1, keepdims=True)
    spread = np.repeat(of_all, len(series), axis=1)
    for segment in {*segments[flags.any(axis=0)]}:
        in_segment = segments == segment
        spread[:, in_segment] |= flags[:, in_segment].any(axis=1, keepdims=True)
    return spread


def find_firings(series: ManySeries, past: Sequence[PastRun]) -> Flags:
    """Whether the alert of the series was firing after each past run, (runs, m)."""
    firings = np.zeros((len(past), len(series)), dtype=np.bool_)
    for row, run in enumerate(past):
        if run.states:
            firings[row] = [run.states.get(watched.key) is State.FIRING for watched in series]
    return firings


def find_phases(past: Sequence[PastRun], slot: datetime) -> tuple[Phases, ...]:
    """The hour and the weekday of each run, in UTC.

    Runs in the slot's hour, or on its day, are marked as under way.
    """
    slots = [run.slot.astimezone(UTC) for run in past]
    now = slot.astimezone(UTC)
    same_day = [past_slot for past_slot in slots if past_slot.date() == now.date()]
    in_day = len(same_day)
    in_hour = sum(past_slot.hour == now.hour for past_slot in same_day)
    hours = np.array([past_slot.hour for past_slot in slots], dtype=np.intp)
    weekdays = np.array([past_slot.weekday() for past_slot in slots], dtype=np.intp)
    return (
        Phases(past=hours, now=now.hour, under_way=in_hour),
        Phases(past=weekdays, now=now.weekday(), under_way=in_day, is_known_at_once=True),
    )
