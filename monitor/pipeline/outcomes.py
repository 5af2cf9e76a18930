"""Measures outcomes of users, such as clicks, in a comparison whose arms serve different users."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from math import isfinite

import pandas as pd

from monitor.model.errors import SourceError
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm, UserSums
from monitor.model.runs import Histogram, Summary
from monitor.model.statistics import DerivedMetric
from monitor.model.unpaired import ARM_COLUMN, OutcomeGap, UnpairedPlan
from monitor.pipeline.pull import ComparisonSources, OutcomeSources, ask_in_time
from monitor.statistics.unpaired.outcomes import (
    OutcomeMoments,
    half_width,
    measure_moments_of_arm,
    relative_difference,
)

_DAY = timedelta(days=1)
_LATE_MESSAGE = "the outcomes did not arrive before the run's deadline"


def measure_outcomes(
    plan: UnpairedPlan,
    sources: ComparisonSources,
    switched: "pd.Index[str]",
    slot: datetime,
    seconds_left: Callable[[], float],
) -> tuple[tuple[OutcomeGap, ...], list[str]]:
    """Compare the outcomes of both arms' users that were assigned since the test began.

    Users that ``switched`` arms are left out. A user without a row in the log has the outcome 0.
    Returns the gap of each outcome, and sentences about what could not be read.
    """
    outcome_sources = None if sources.unpaired is None else sources.unpaired.outcomes
    if outcome_sources is None:
        return (), []
    ask_users = partial(outcome_sources.users.users, slot, (ARM_COLUMN,))
    try:
        assigned = ask_in_time(ask_users, seconds_left(), _LATE_MESSAGE)
        answers, failures = _ask_sums(outcome_sources, plan.outcomes, slot, seconds_left)
    except SourceError as error:
        return (), [_describe_failure(sources, error)]
    is_in_one_arm = ~assigned.users.isin(switched)
    users = {}
    for arm in Arm:
        users[arm] = assigned.users[is_in_one_arm & (assigned.segments[ARM_COLUMN] == arm)]
    days = (slot - plan.since) / _DAY
    gaps = []
    unread_inputs = [_describe_failure(sources, error) for error in failures]
    for answer in answers:
        for column in answer.columns:
            gap = _compare_outcome(column, answer.now.sums, answer.before.sums, users, days)
            gaps.append(gap)
        for sums in (answer.now, answer.before):
            unread_inputs += sources.describe_unreadable(sums.unreadable)
    return tuple(gaps), list(dict.fromkeys(unread_inputs))


@immutable
class _Answer:
    """The sums of columns since the test began, and those of the time before the test."""

    columns: tuple[str, ...]
    now: UserSums
    before: UserSums


def _ask_sums(
    outcome_sources: OutcomeSources,
    columns: tuple[str, ...],
    slot: datetime,
    seconds_left: Callable[[], float],
) -> tuple[list[_Answer], list[SourceError]]:
    """Read all columns at once. If a column is wrong, read each column alone.

    Returns the answers, and the errors of the columns that cannot be read. Raises SourceError if
    the reason is not in a column.
    """

    def ask(part: tuple[str, ...]) -> _Answer:
        ask_now = partial(outcome_sources.now.sums, slot, part)
        ask_before = partial(outcome_sources.before.sums, slot, part)
        return _Answer(
            columns=part,
            now=ask_in_time(ask_now, seconds_left(), _LATE_MESSAGE),
            before=ask_in_time(ask_before, seconds_left(), _LATE_MESSAGE),
        )

    try:
        return [ask(columns)], []
    except SourceError as error:
        if len(columns) == 1 or not error.permanent:
            raise
    answers = []
    failures = []
    for column in columns:
        try:
            answers.append(ask((column,)))
        except SourceError as error:
            failures.append(error)
    return answers, failures


def _describe_failure(sources: ComparisonSources, error: SourceError) -> str:
    return f"outcomes: {sources.error_text(error)}"


def _compare_outcome(
    column: str,
    now: pd.DataFrame,
    before: pd.DataFrame,
    users: Mapping[Arm, "pd.Index[str]"],
    days: float,
) -> OutcomeGap:
    """Compare the outcome in this column between the arms.

    ``now`` has each user's sums since the test began, and ``before`` has the sums of the period
    before the test. A user without a row has the sum 0. The interval of the difference depends on
    ``days``, the time since the test began.
    """
    moments_by_arm: dict[Arm, OutcomeMoments] = {}
    for arm, arm_users in users.items():
        sums_now = now[column].reindex(arm_users, fill_value=0.0).to_numpy()
        sums_before = before[column].reindex(arm_users, fill_value=0.0).to_numpy()
        moments_by_arm[arm] = measure_moments_of_arm(sums_now, sums_before)
    baseline, candidate = moments_by_arm[Arm.BASELINE], moments_by_arm[Arm.CANDIDATE]
    count = baseline.n + candidate.n
    interval_half_width = half_width(count, days)
    difference = relative_difference(baseline, candidate, interval_half_width)
    return OutcomeGap(
        column=column,
        means={arm: _finite(moments.mean_now) for arm, moments in moments_by_arm.items()},
        users=count,
        difference=_finite(difference.value),
        low=_finite(difference.low),
        high=_finite(difference.high),
    )


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def summarize_outcomes(outcomes: Iterable[OutcomeGap]) -> Iterator[Summary]:
    """Yield the difference and both ends of its interval as series, which rules can judge.

    A relative difference has no histogram, because it is one number for all users.
    """
    for gap in outcomes:
        values = {
            DerivedMetric.OUTCOME: gap.difference,
            DerivedMetric.OUTCOME_LOW: gap.low,
            DerivedMetric.OUTCOME_HIGH: gap.high,
        }
        for series, value in values.items():
            users = 0 if value is None else gap.users
            yield Summary(
                segment=ALL,
                metric=series.of(gap.column),
                n=users,
                n_undefined=gap.users - users,
                mean=value,
                standard_error=None,
                statistics={},
                histogram=Histogram(low=-1.0, high=1.0, counts=()),
            )
