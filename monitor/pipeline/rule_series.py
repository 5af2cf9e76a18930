"""Reads series as arrays. A series has one value in each run, for one rule and one segment."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from monitor.alerts.rule_evaluation import Figures
from monitor.alerts.verdicts import Reading
from monitor.measures.metrics import parse
from monitor.model.alerts import State
from monitor.model.arrays import Flags, Floats
from monitor.model.memory import LESSON_NUMBERS, LessonTopic, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import SeriesRule, SimilarityRule, judged_series
from monitor.model.runs import Summary
from monitor.model.statistics import PRE_TEST_SERIES, DerivedMetric, parse_derived
from monitor.statistics.reference.sampling_error import estimate_error, from_angle, to_angle
from monitor.statistics.reference.season import Phases
from monitor.statistics.unpaired.far_lists import find_far_statistic
from monitor.statistics.unpaired.gaps import AffectedUsers, angle_gap, count_far, show_angle_gap

RuleT_co = TypeVar("RuleT_co", bound=SeriesRule, covariant=True)

HALF_A_USER = 0.5


@dataclass(frozen=True, slots=True)
class RuleSeries(Generic[RuleT_co]):
    """The series that one rule judges in one segment.

    Shares of users are converted to angles (`to_angle`) before they are judged, because the
    sampling error of an angle does not depend on the share.
    """

    rule: RuleT_co
    segment: str
    is_firing: bool = False  # whether the alert was firing before the run

    @property
    def least_users(self) -> int:
        """The number of users that a run's value needs.

        A rule needs `min_users` users to alert. Fewer users are enough to see that a firing alert
        has recovered (see `evaluate_rules`).
        """
        return 1 if self.is_firing else self.rule.min_users

    @property
    def key(self) -> tuple[str, str]:
        """The alert and the segment. Each series has another key."""
        return self.rule.alert, self.segment

    def read(self, figures: Figures) -> tuple[float, float]:
        """Return a run's value and its sampling error, on the scale on which they are judged.

        Both are NaN if the run has no value or too few users. A far gap (see `DerivedMetric`) is a
        difference of two shares of users, and is judged as a difference of two angles.
        """
        figure = self._find_figure(figures)
        if isinstance(figure, Summary):
            far_users = self._count_far(figures)
            if far_users is not None and figure.n >= self.least_users:
                gap = angle_gap(*far_users)
                return gap.value, gap.error
            return self.read_summary(figure)
        # Without a summary, the rule judges a share of users.
        if figure is None or figure.users < self.least_users:
            return np.nan, np.nan
        return _angle_and_error(figure.value, figure.users)

    def read_summary(self, summary: Summary) -> tuple[float, float]:
        """Return a summary's value and its sampling error, for a rule on similarity.

        If the value is a share of users, both are converted to the angle. Both are NaN if the
        summary has too few users or no value.
        """
        rule = self.rule
        value = None
        if summary.n >= self.least_users:
            value = summary.value(rule.subject.statistic)
        if value is None or not isinstance(rule, SimilarityRule):
            return np.nan, np.nan
        if rule.is_share:
            return _angle_and_error(value, summary.n)
        error = estimate_error(summary, rule.statistic)
        return value, np.nan if error is None else error

    def count_users(self, figures: Figures) -> int:
        """Return the number of users behind the run's value. 0 if the run has no value."""
        figure = self._find_figure(figures)
        if figure is None:
            return 0
        return figure.n if isinstance(figure, Summary) else figure.users

    def _count_far(self, figures: Figures) -> tuple[AffectedUsers, AffectedUsers] | None:
        """Count the users of each arm whose lists are far from their pre-test lists.

        None if the rule does not judge a far gap, if the metric cannot say which lists are far, or
        if the run did not compare an arm's lists with pre-test lists.
        """
        derived, metric = parse_derived(self.rule.subject.metric)
        if derived is not DerivedMetric.FAR_GAP:
            return None
        far_statistic = find_far_statistic(parse(metric))
        counts = []
        for series in PRE_TEST_SERIES.values():
            summary = figures.summaries.get((self.segment, series.of(metric)))
            if summary is None or far_statistic is None:
                return None
            counts.append(count_far(summary, far_statistic))
        baseline, candidate = counts
        return baseline, candidate

    def _find_figure(self, figures: Figures) -> Summary | Reading | None:
        """Return the figure that the rule judges, if the run has it."""
        if isinstance(self.rule, SimilarityRule):
            return figures.summaries.get((self.segment, self.rule.metric))
        return figures.find_share(self.segment, self.rule.share)

    def show_for_people(self, judged: Iterable[float], figures: Figures) -> list[float | None]:
        """Convert judged values of this run to the scale that people read, see `show`.

        A far gap is judged as a difference of two angles, see `read`. Converting it back needs the
        users of both arms.
        """
        far_users = self._count_far(figures)
        users = self.count_users(figures)
        shown = []
        for value in judged:
            if far_users is None or not math.isfinite(value):
                shown.append(self.show(value, users))
            else:
                shown.append(show_angle_gap(value, *far_users))
        return shown

    def show(self, judged: float, users: int) -> float | None:
        """Convert a judged value to the scale that people read.

        ``judged`` is an angle if the series is a share of users. Other values are limited to the
        range of possible values. Returns None if the value is not finite, or if it is a share of no
        users.
        """
        if not math.isfinite(judged):
            return None
        if not self.rule.is_share:
            if isinstance(self.rule, SimilarityRule) and self.rule.score_range is not None:
                lowest, highest = self.rule.score_range
                judged = min(max(judged, lowest), highest)
            return float(judged)
        if not users:
            return None
        share = float(from_angle(judged, users))
        # Converting an angle back is inexact, so less than half a user is rounded to no user.
        if share * users < HALF_A_USER:
            return 0.0
        if (1.0 - share) * users < HALF_A_USER:
            return 1.0
        return share


def _angle_and_error(share: float, users: int) -> tuple[float, float]:
    """Return the angle of a share, and its sampling error."""
    angle, error = to_angle(share, users)
    return float(angle), float(error)


ManySeries: TypeAlias = Sequence[RuleSeries[SeriesRule]]


def read_values_and_errors(series: ManySeries, figures: Figures) -> tuple[Floats, Floats]:
    """Return the values and the sampling errors of all series in one run. NaN without a value."""
    values_and_errors = [one_series.read(figures) for one_series in series]
    table = np.array(values_and_errors, dtype=float).reshape(len(series), 2)
    return table[:, 0], table[:, 1]


@dataclass(frozen=True, slots=True)
class LessonArrays:
    """The lessons of past runs for each series, (runs, series) each. NaN if a run has no value."""

    values: Floats
    errors: Floats  # sampling errors
    z: Floats  # how far each value was from normal, in standard deviations
    lost: Floats  # the share of users without a score
    trend_z: Floats  # the part of z that was added to the evidence of a trend


def read_lessons(series: ManySeries, past: Sequence[PastRun]) -> LessonArrays:
    """Return the lessons of each series in each past run.

    Each run stored its lessons. If the rule did not exist in that run, or measured something else,
    its value and error are computed from the run's summaries.
    """
    # A lesson has the numbers of `LessonArrays`, in the same order.
    numbers = np.full((LESSON_NUMBERS, len(past), len(series)), np.nan)
    # The topics of a run are its alerts, with their segments. Nearly all runs have the same topics,
    # so consecutive runs with the same topics are copied together.
    for topics, group in groupby(range(len(past)), lambda row: past[row].topics):
        rows = list(group)
        lesson_columns, columns = _match_columns(topics, series)
        lessons = [past[row].lessons for row in rows]
        stored_numbers = [lesson.numbers for lesson in lessons if lesson is not None]
        if stored_numbers:
            # `np.ix_` selects the cells of all these numbers in these rows and columns.
            cells = np.ix_(range(LESSON_NUMBERS), rows, columns)
            # The stacked numbers have the shape (LESSON_NUMBERS, rows, columns of the lessons).
            numbers[cells] = np.stack(stored_numbers, axis=1)[:, :, lesson_columns]
        unstored_columns = _find_columns_without_lesson(topics, series)
        if not unstored_columns:
            continue
        unstored_series = [series[column] for column in unstored_columns]
        for row in rows:
            # Only the first two numbers, value and error, can be computed from summaries.
            figures = Figures.of(past[row].summaries)
            numbers[:2, row, unstored_columns] = read_values_and_errors(unstored_series, figures)
    return LessonArrays(*numbers)


def _match_columns(
    topics: Sequence[LessonTopic], series: ManySeries
) -> tuple[list[int], list[int]]:
    """Match the columns of lessons with the columns of ``series``.

    Returns two lists of the same length. The lesson in a column of the first list belongs to the
    series in the same place of the second list. A run's lessons have one column for each segment of
    each topic, in this order. Lessons without a series are left out.
    """
    column_by_key = {one_series.key: column for column, one_series in enumerate(series)}
    lesson_columns = []
    columns = []
    lesson_column = 0
    for topic in topics:
        for segment in topic.segments:
            column = column_by_key.get((topic.alert, segment))
            if column is not None:
                lesson_columns.append(lesson_column)
                columns.append(column)
            lesson_column += 1
    return lesson_columns, columns


def _find_columns_without_lesson(topics: Sequence[LessonTopic], series: ManySeries) -> list[int]:
    """Return the columns of the series whose rule did not exist, or measured something else."""
    stored_series = {topic.alert: topic.series for topic in topics}
    unstored_columns = []
    for column, one_series in enumerate(series):
        if stored_series.get(one_series.rule.alert) != judged_series(one_series.rule):
            unstored_columns.append(column)
    return unstored_columns


def find_alerting_runs(
    series: ManySeries,
    past: Sequence[PastRun],
    alerts: Collection[str],
) -> Flags:
    """Find past runs after which any of these ``alerts`` was pending or firing.

    Returns flags of the shape (runs, series). ``alerts`` are names of alerts. An alert counts for
    each series of its segment. An alert on all users counts for all series.
    """
    alerting = np.zeros((len(past), len(series)), dtype=bool)
    for row, run in enumerate(past):
        # ``run.states`` has only pending and firing alerts.
        segments = {segment for alert, segment in run.states if alert in alerts}
        if segments:
            alerting[row] = [
                ALL in segments or one_series.segment in segments for one_series in series
            ]
    return alerting


def spread_over_segments(series: ManySeries, flags: Flags) -> Flags:
    """Copy each flag of a run to all series of the same segment. The shapes are (runs, series).

    The flag of a series on all users is copied to all series.
    """
    segments = np.array([one_series.segment for one_series in series])
    is_flagged_for_all = flags[:, segments == ALL].any(axis=1, keepdims=True)
    spread = np.repeat(is_flagged_for_all, len(series), axis=1)
    flagged_segments = set(segments[flags.any(axis=0)])
    for segment in flagged_segments:
        in_segment = segments == segment
        spread[:, in_segment] |= flags[:, in_segment].any(axis=1, keepdims=True)
    return spread


def find_firings(series: ManySeries, past: Sequence[PastRun]) -> Flags:
    """Find past runs after which the alert of the series was firing, (runs, series)."""
    firings = np.zeros((len(past), len(series)), dtype=bool)
    for row, run in enumerate(past):
        if run.states:
            firings[row] = [run.states.get(one_series.key) is State.FIRING for one_series in series]
    return firings


def find_phases(past: Sequence[PastRun], slot: datetime) -> tuple[Phases, ...]:
    """Return the hours, and the weekdays, of the past runs and of the slot, in UTC.

    ``runs_under_way`` is the number of past runs in the hour of the slot, or on its day. No season
    is learned from them, because their hour or day is not over.

    A season of hours is learned only if its hour has recurred, which takes one day. A weekday
    recurs only after a week. So a single weekday is enough to learn a season, if all of its runs
    had an alert (``is_known_at_once``).
    """
    now = slot.astimezone(UTC)
    hours = np.empty(len(past), dtype=np.intp)
    weekdays = np.empty(len(past), dtype=np.intp)
    is_today = np.empty(len(past), dtype=bool)
    for row, run in enumerate(past):
        past_slot = run.slot.astimezone(UTC)
        hours[row] = past_slot.hour
        weekdays[row] = past_slot.weekday()
        is_today[row] = past_slot.date() == now.date()
    runs_today = int(is_today.sum())
    runs_in_this_hour = int((is_today & (hours == now.hour)).sum())
    return (
        Phases(past=hours, now=now.hour, runs_under_way=runs_in_this_hour),
        Phases(past=weekdays, now=now.weekday(), runs_under_way=runs_today, is_known_at_once=True),
    )
