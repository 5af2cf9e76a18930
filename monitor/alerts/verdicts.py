"""Judges one rule on one segment of one run, by comparing a value with the rule's limit."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from monitor.alerts.unmatched_names import with_known
from monitor.model.alerts import Expectation, Outcome, Verdict
from monitor.model.rankings import CoverageRow
from monitor.model.rules import (
    MIN_HEALTHY_RUNS,
    CoverageRule,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    SeriesRule,
    SimilarityRule,
)
from monitor.model.run_reasons import UnmatchedName
from monitor.model.runs import MeasuredRun, RunStatus, Summary
from monitor.model.statistics import (
    MEASURED_TRAITS,
    TRAITS_OF_LISTS_BEFORE_ALERTS,
    ListTrait,
    Statistic,
)
from monitor.texts.run_reasons import with_cause, write_headline, write_run_reasons
from monitor.texts.unmatched_names import write_absent_segment
from monitor.texts.verdicts import (
    NOT_CLEARLY_NORMAL,
    count_users,
    of_segment,
    show_values,
    write_breach,
    write_normal,
    write_threshold,
    write_value,
)
from monitor.texts.wording import count_of

NORMAL_AGAIN = {Learning.DROP: 2.0, Learning.TREND: 1.5}
"""An alert ends if the value is at most this many standard deviations worse than expected.

A trend can be smaller than two standard deviations, so its limit is lower. A trend has the limit of
a drop if its expected value is that of the newest level.
"""
MOST_AGAIN = 3.0
"""An alert may also end if the value is halfway back from the fault to the expected value.

The reason is that the healthy level may have moved during the fault. But the value must be at most
this many standard deviations worse than expected.
"""
LEAST_MISSING = 0.5
"""A smaller number of users is a rounding error and changes no verdict."""


class Reading(NamedTuple):
    """The value of a series in one segment of one run, and the number of its users."""

    value: float
    users: int
    segment: str

    @property
    def counts(self) -> tuple[int, int]:
        """The number of users with the property, and of all users, if the value is a share."""
        return round(self.value * self.users), self.users


def read_similarity(
    rule: SimilarityRule,
    segment: str,
    measured: MeasuredRun,
    summary: Summary | None,
    thin_reason: str | None = None,
) -> Reading | Verdict:
    """Return the value, or a verdict that says why there is no value.

    - ``error``: the run failed, or it did not end.
    - ``no_data``: too few users were compared in the run, or in this segment (``thin_reason``).
      Or no user has a defined score, or the statistic is not finite.
    - ``too_few``: fewer than ``min_users`` users have a score.
    """
    unjudged = judge_status(measured)
    if unjudged is not None:
        return unjudged
    if thin_reason is not None:
        return verdict_without_value(
            Outcome.NO_DATA,
            with_cause(f"too few users{of_segment(segment)} could be compared", thin_reason),
        )
    if summary is None or summary.n == 0:
        return verdict_without_value(
            Outcome.NO_DATA, f"no user{of_segment(segment)} has a value of {rule.metric}"
        )
    if summary.n < rule.min_users:
        reason = (
            f"{rule.metric} has a value for only {count_users(summary.n, segment)}, fewer than "
            f"the {rule.min_users:,} needed"
        )
        return verdict_without_value(Outcome.TOO_FEW, reason, summary.n)
    value = summary.value(str(rule.statistic))
    if value is None or not math.isfinite(value):
        reason = (
            f"{rule.statistic} of {rule.metric} has no value over {count_users(summary.n, segment)}"
        )
        return verdict_without_value(Outcome.NO_DATA, reason, summary.n)
    return Reading(value, summary.n, segment)


def read_coverage(
    rule: CoverageRule, segment: str, measured: MeasuredRun, reading: Reading | None
) -> Reading | Verdict:
    """Return the share of users, or a verdict that says why there is no share.

    - ``error``: the run ended before it asked for any user.
    - ``no_data``: the run asked for no user of the segment, or there are no lists to compare with.
    - ``too_few``: fewer than ``min_users`` users were asked.
    """
    is_trait = rule.share.trait in MEASURED_TRAITS
    # Runs often fail because lists are missing. So coverage is judged in failed runs too, if it is
    # no trait. Traits compare lists.
    unjudged = judge_status(measured) if is_trait else None
    if unjudged is not None:
        return unjudged
    if reading is None and is_trait:
        why = "there are no comparable lists"
        if rule.share.trait is ListTrait.UNCHANGED:
            why = "rules on `frozen` judge this arm, since it changed too few lists"
        return verdict_without_value(
            Outcome.NO_DATA, f"{why}{of_segment(segment)}", is_learning=True
        )
    if reading is None:
        if measured.status in (RunStatus.OK, RunStatus.INSUFFICIENT):
            return verdict_without_value(Outcome.NO_DATA, f"no user{of_segment(segment)} was asked")
        failure = "the run ended before its coverage was known"
        return _by_run(
            Outcome.ERROR, measured, with_cause(failure, write_run_reasons(measured.reasons))
        )
    if reading.users < rule.min_users:
        was = "could be checked" if is_trait else "were asked"
        reason = (
            f"only {count_users(reading.users, segment)} {was}, fewer than the "
            f"{rule.min_users:,} needed"
        )
        return verdict_without_value(Outcome.TOO_FEW, reason, reading.users, is_learning=is_trait)
    return reading


def judge_status(measured: MeasuredRun) -> Verdict | None:
    """Return None for an ok run, ``error`` or ``no_data`` for all other runs."""
    status = measured.status
    run_reason = write_run_reasons(measured.reasons)
    if status is RunStatus.OK:
        return None
    if status is RunStatus.INSUFFICIENT:
        reason = run_reason or "too few users of the panel could be compared"
        return _by_run(Outcome.NO_DATA, measured, reason)
    if status is RunStatus.FAILED:
        return _by_run(Outcome.ERROR, measured, run_reason or "the run failed")
    failure = "the run has not ended"
    if status is RunStatus.ABANDONED:
        failure = "the run was abandoned before its end"
    return _by_run(Outcome.ERROR, measured, with_cause(failure, run_reason))


def _by_run(outcome: Outcome, measured: MeasuredRun, reason: str) -> Verdict:
    """Return a verdict without a value. The reason concerns the whole run."""
    return Verdict(outcome=outcome, reason=reason, headline=write_headline(measured.reasons))


def judge_threshold(
    rule: SeriesRule, limit: FixedLimit, reading: Reading, measured: MeasuredRun
) -> Verdict:
    """Return ``breach`` if the value is beyond the threshold, otherwise ``ok``.

    A value that is equal to the threshold is ``ok``. The verdict is recovered if the value has
    also come back to ``resolve_at``.
    """
    is_breach = is_beyond(limit.direction, reading.value, limit.value)
    # A value between both limits neither fires nor resolves, so that an alert does not flap.
    is_recovered = not is_breach and not is_beyond(limit.direction, reading.value, limit.resolve_at)
    finding = write_threshold(rule, limit, is_breach=is_breach, is_recovered=is_recovered)
    shown = write_value(rule, *reading, limit.value, limit.resolve_at)
    reason = headline = f"{shown}, {finding}"
    if is_breach:
        reason, headline = write_breach(rule, shown, finding, reading.counts, measured.reasons)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=reason,
        value=reading.value,
        users=reading.users,
        is_recovered=is_recovered,
        headline=headline,
    )


def is_beyond(direction: Direction, value: float, limit: float) -> bool:
    """Whether the value is below or above the limit, by ``direction``. False if both are equal."""
    return value < limit if direction is Direction.BELOW else value > limit


def judge_unknown_segment(segment: str, rows: Iterable[CoverageRow]) -> Verdict:
    """Return ``no_data`` for a segment without users. Its name is wrong, or its users left.

    The reason names the largest segments of the same dimension.
    """
    by_size = sorted(rows, key=lambda row: (-row.asked, row.segment))
    unmatched = UnmatchedName(owner="rule", name=segment)
    unmatched = with_known(unmatched, segment, [row.segment for row in by_size])
    return verdict_without_value(Outcome.NO_DATA, write_absent_segment(unmatched))


def verdict_without_value(
    outcome: Outcome, reason: str, users: int = 0, *, is_learning: bool = False
) -> Verdict:
    """Return a verdict without a value. There is no value, or it must not be compared."""
    return Verdict(outcome=outcome, reason=reason, users=users, is_learning=is_learning)


def judge_reading(
    rule: SeriesRule,
    reading: Reading | Verdict,
    expectation: Expectation | None,
    measured: MeasuredRun,
) -> Verdict:
    """Compare a value with the rule's limit. A reading that is a verdict is returned unchanged.

    Only a learned limit needs the ``expectation``.
    """
    if isinstance(reading, Verdict):
        return reading
    if isinstance(rule.limit, FixedLimit):
        return judge_threshold(rule, rule.limit, reading, measured)
    return judge_learned(rule, rule.limit, reading, expectation, measured)


def judge_learned(
    rule: SeriesRule,
    limit: LearnedLimit,
    reading: Reading,
    expectation: Expectation | None,
    measured: MeasuredRun,
) -> Verdict:
    """Judge a value by a limit that the rule learned from earlier runs.

    - ``breach``: the value is beyond the limit. For a trend, its evidence has reached
      ``evidence_limit``.
    - ``too_few``: fewer than MIN_HEALTHY_RUNS healthy runs were seen, so the rule is learning. Or
      no value that is possible would be beyond the limit.
    - ``no_data``: the value is too uncertain.

    The verdict is recovered if the value is normal.
    """
    if expectation is None or expectation.expected is None or expectation.limit is None:
        return _judge_unlearned(expectation, reading.users, measured)
    # If the sampling error is unknown, any value could be chance.
    if expectation.z is None:
        users = count_users(reading.users, reading.segment)
        uncertain = (
            f"{rule.subject.statistic} of {rule.subject.metric} over {users} is too "
            "uncertain to be judged"
        )
        return verdict_without_value(Outcome.NO_DATA, uncertain, reading.users, is_learning=True)
    value, most = show_values(rule, reading.value, expectation.limit)
    is_judgeable = True
    if limit.learning is Learning.TREND:
        evidence_limit = expectation.evidence_limit or math.inf
        is_breach = (expectation.evidence or 0.0) >= evidence_limit
    else:
        is_breach = is_beyond(limit.direction, value, most)
        # Whether any possible value would be a breach.
        is_judgeable = is_breach or is_beyond(limit.direction, limit.value, expectation.limit)
    finding, note = write_normal(
        rule,
        limit,
        reading.value,
        expectation,
        is_breach=is_breach,
        is_judgeable=is_judgeable,
    )
    shown = write_value(rule, *reading, expectation.limit)
    judged = headline = f"{shown}, {finding}"
    if is_breach:
        judged, headline = write_breach(rule, shown, finding, reading.counts, measured.reasons)
    is_normal = expectation.z <= _largest_normal_z(rule, limit, expectation)
    nearness = ""
    if is_judgeable and not is_breach and not is_normal:
        nearness = NOT_CLEARLY_NORMAL
    reason = "; ".join(filter(None, (judged, nearness, note, expectation.note)))
    if not is_judgeable and not is_normal:
        return verdict_without_value(Outcome.TOO_FEW, reason, reading.users, is_learning=True)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=reason,
        value=reading.value,
        users=reading.users,
        is_recovered=not is_breach and is_normal,
        is_new_normal=bool(expectation.note),
        headline=headline,
    )


def _judge_unlearned(expectation: Expectation | None, users: int, measured: MeasuredRun) -> Verdict:
    """Return ``too_few``, with the reason why there is no learned limit.

    Rules learn nothing from runs that are not ok, so the reason also says why the run is not.
    """
    if expectation is not None and expectation.note:
        reason = expectation.note
    else:
        runs = 0 if expectation is None else expectation.runs
        reason = f"learning what is normal: {runs} of {MIN_HEALTHY_RUNS} healthy runs"
        unhealthy = judge_status(measured)
        if unhealthy is not None:
            reason = f"{reason}; this run is not healthy: {unhealthy.reason}"
    return verdict_without_value(Outcome.TOO_FEW, reason, users, is_learning=True)


def _largest_normal_z(rule: SeriesRule, limit: LearnedLimit, expectation: Expectation) -> float:
    """Return the largest z at which a firing alert ends. See `NORMAL_AGAIN` and `MOST_AGAIN`.

    For example, a rule on drops ends its alert at z = 2 if the median z during the alert was at
    most 4. If the median was 5, the alert ends at 2.5, and if it was 6 or more, at 3.

    Some rules compare lists with the lists before the alert. These lists get older while the alert
    fires, and healthy lists change more over several runs than over one. So for these rules, every
    value within the limit is normal.
    """
    if isinstance(rule, CoverageRule) and rule.share.trait in TRAITS_OF_LISTS_BEFORE_ALERTS:
        return math.inf
    # With a note, the expected value is that of the newest level.
    learning = Learning.DROP if expectation.note else limit.learning
    half_of_fault = (expectation.fault_z or 0.0) / 2
    return max(NORMAL_AGAIN[learning], min(half_of_fault, MOST_AGAIN))


def bound_statistic(
    rule: SimilarityRule, summary: Summary, missing: float
) -> tuple[float, float] | None:
    """Return the lowest and highest possible value if ``missing`` more users had a score.

    The bounds are exact for means and shares (Manski 2003, chapter 1). For percentiles they are
    interpolated from the stored percentiles. None if the statistic has no value, or if the metric
    has no finite range.
    """
    value = summary.value(str(rule.statistic))
    if (
        value is None
        or rule.score_range is None
        or not all(map(math.isfinite, (value, *rule.score_range)))
    ):
        return None
    if rule.statistic.quantile is not None:
        return _bound_quantile(summary, rule.statistic.quantile, missing, rule.score_range)
    low, high = (0.0, 1.0) if rule.is_share else rule.score_range
    total = summary.n + missing
    known_sum = summary.n * value
    return (known_sum + missing * low) / total, (known_sum + missing * high) / total


def _bound_quantile(
    summary: Summary, quantile: float, missing: float, score_range: tuple[float, float]
) -> tuple[float, float]:
    """Return the lowest and the highest possible value of a quantile. See `bound_statistic`."""
    # At worst, users without a score are all below the other users, or all above them. So the
    # quantile of all users is another quantile of the users with a score.
    scores_at = {0.0: score_range[0], 1.0: score_range[1]}
    for name, value in summary.statistics.items():
        level = Statistic.parse(name).quantile
        if level is not None:
            scores_at[level] = value
    # Between stored quantiles we interpolate linearly.
    levels = sorted(scores_at)
    rank = quantile * (summary.n + missing)
    ends = [(rank - missing) / summary.n, rank / summary.n]
    low, high = np.interp(ends, levels, [scores_at[level] for level in levels])
    return float(low), float(high)


def apply_bounds(
    rule: SimilarityRule,
    verdict: Verdict,
    summary: Summary,
    row: CoverageRow | None,
    expectation: Expectation | None,
) -> Verdict:
    """Return the verdict, or ``no_data`` if the users without a score could change it.

    If the limit is fixed, every user without a score may have any possible score. If the limit is
    learned, only the users beyond the usual number of users without a score may. The reason is that
    the limit was learned while the usual number had no score.
    """
    if verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return verdict
    missing = 0.0
    if isinstance(rule.limit, FixedLimit):
        limit = rule.limit.value
        if row is not None:
            missing = float(row.asked - row.paired)
    elif expectation is None or expectation.limit is None:
        return verdict
    else:
        limit = expectation.limit
        total = summary.n if row is None else row.asked
        missing = max(0.0, expectation.lost - expectation.usual_lost) * total
    if missing < LEAST_MISSING:
        return verdict
    bounds = bound_statistic(rule, summary, missing)
    if bounds is None:
        return verdict
    low, high = bounds
    if is_beyond(rule.direction, low, limit) == is_beyond(rule.direction, high, limit):
        return verdict
    users = count_of(round(missing), "user")
    could = (
        f"{users} without a score could change the value to anything from {low:.3g} to {high:.3g}"
    )
    headline = f"cannot be decided: {could}"
    return Verdict(
        outcome=Outcome.NO_DATA,
        reason=f"{headline}; over the users with a score, {verdict.reason}",
        value=verdict.value,
        users=verdict.users,
        headline=headline,
    )
