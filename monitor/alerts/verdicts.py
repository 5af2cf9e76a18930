"""The verdict of one rule on one segment of one run: its value compared with its limit."""

import math
import re
from collections.abc import Callable, Iterable
from textwrap import shorten
from typing import NamedTuple, TypeAlias

import numpy as np

from monitor.model.alerts import Expectation, Outcome, Verdict
from monitor.model.rankings import ALL, Arm, CoverageRow
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
from monitor.model.runs import RunStatus, Summary
from monitor.model.segments import find_nearest
from monitor.model.statistics import TRAITS, Lack, Statistic
from monitor.texts.wording import count_of

_MOST_NAMED = 3
_LACK_WORDS = {
    Lack.MISSING: "gave no list for",
    Lack.EMPTY: "gave an empty list for",
    Lack.SHORT: "gave a list shorter than k for",
    Lack.DUPLICATED: "gave a list with duplicates for",
    Lack.FAILED: "gave no usable answer for",
    Lack.SHARED: "gave one and the same list to",
    Lack.UNCHANGED: "has not changed since its last run the lists of",
    Lack.REVERSED: "reversed the same first three items for",
    Lack.FIRST_DIFFERS: "put another item first for",
    Lack.IDENTICAL: "answers with the baseline's list for",
}
_QUESTIONS = {Lack.IDENTICAL: ": is the experiment applied?"}

BOTH_FAILED = "both arms failed, look for what they share"
_LOST = re.compile(
    r"the (\w+) (?:gave no list|gave no usable answer) for ([0-9,]+ of [0-9,]+ users)[^:;]*: "
    r"(?!the )([^;]+)"
)
_FURTHER = re.compile(r" \([0-9,]+ of them\).*")

NORMAL_AGAIN = {Learning.DROP: 2.0, Learning.TREND: 1.5}
"""An alert ends if the value is at most this many standard deviations worse than expected.

A trend may be smaller than two, except where the newest level is expected.
"""
MOST_AGAIN = 3.0
"""Half of the fault's distance is enough, up to this many: a healthy level may have moved."""
LEAST_MISSING = 0.5
"""Fewer users are rounding."""


Failures: TypeAlias = Callable[[str], str] | None
"""Adds to the text of a value what failed. None if nothing failed."""


class Reading(NamedTuple):
    """The value of a series in one segment of one run, and the users behind it."""

    value: float
    users: int
    segment: str


def read_similarity(
    rule: SimilarityRule,
    segment: str,
    status: RunStatus,
    summary: Summary | None,
    run_reason: str | None,
    thin_reason: str | None = None,
) -> Reading | Verdict:
    """The value, or a verdict with the reason why there is none.

    ``error``: the run did not end well. ``no_data``: too few users were compared, as a whole or in
    this segment (``thin_reason``), no user has a defined score, or the statistic is not finite.
    ``too_few``: fewer than ``min_users``.
    """
    unjudged = judge_status(status, run_reason)
    if unjudged is not None:
        return unjudged
    if thin_reason is not None:
        return undecided(
            Outcome.NO_DATA, with_cause(f"too little{_of(segment)} could be compared", thin_reason)
        )
    if summary is None or summary.n == 0:
        return undecided(Outcome.NO_DATA, f"no user{_of(segment)} has a value of {rule.metric}")
    if summary.n < rule.min_users:
        reason = (
            f"{count_users(summary.n, segment)} with a value of {rule.metric}, fewer than "
            f"the {rule.min_users:,} needed"
        )
        return undecided(Outcome.TOO_FEW, reason, summary.n)
    value = summary.value(str(rule.statistic))
    if value is None or not math.isfinite(value):
        reason = (
            f"{rule.statistic} of {rule.metric} has no value over {count_users(summary.n, segment)}"
        )
        return undecided(Outcome.NO_DATA, reason, summary.n)
    return Reading(value, summary.n, segment)


def read_coverage(
    rule: CoverageRule,
    segment: str,
    status: RunStatus,
    reading: Reading | None,
    run_reason: str | None,
) -> Reading | Verdict:
    """The share, or a verdict with the reason why there is none.

    Coverage is judged in failed runs too. ``error``: the run ended before any user was requested.
    ``no_data``: no user of the segment was requested, or nothing is known about its lists.
    """
    is_trait = rule.share.lack in TRAITS
    if is_trait and (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    if reading is None and is_trait:
        why = "there are no lists to compare"
        if rule.share.lack is Lack.UNCHANGED:
            why = "too few lists have changed: rules on `frozen` judge how long that is normal"
        return undecided(Outcome.NO_DATA, f"{why}{_of(segment)}", is_learning=True)
    if reading is None:
        if status in (RunStatus.OK, RunStatus.INSUFFICIENT):
            return undecided(Outcome.NO_DATA, f"nobody{_of(segment)} was asked")
        return undecided(
            Outcome.ERROR, with_cause("the run ended before its coverage was known", run_reason)
        )
    # Missing lists are often why a run fails, so failed runs are judged too.
    if reading.users < rule.min_users:
        was = "could be looked at" if is_trait else "were asked"
        reason = (
            f"only {count_users(reading.users, segment)} {was}, fewer than the "
            f"{rule.min_users:,} needed"
        )
        return undecided(Outcome.TOO_FEW, reason, reading.users, is_learning=is_trait)
    return reading


def judge_status(status: RunStatus, run_reason: str | None) -> Verdict | None:
    """``error`` or ``no_data`` for a run that did not end well, None for one that did."""
    if status is RunStatus.OK:
        return None
    if status is RunStatus.INSUFFICIENT:
        return undecided(Outcome.NO_DATA, run_reason or "too little of the panel could be compared")
    if status is RunStatus.FAILED:
        return undecided(Outcome.ERROR, run_reason or "the run failed")
    failure = "the run has not ended"
    if status is RunStatus.ABANDONED:
        failure = "the run was abandoned before its end"
    return undecided(Outcome.ERROR, with_cause(failure, run_reason))


def judge_threshold(
    rule: SeriesRule, limit: FixedLimit, reading: Reading, failures: Failures
) -> Verdict:
    """``breach`` strictly on the rule's side of the threshold, otherwise ``ok``.

    Recovered once the value reaches ``resolve_at``.
    """
    is_breach = is_beyond(limit.direction, reading.value, limit.value)
    # A value between both limits neither fires nor resolves, so that an alert does not flap.
    is_recovered = not is_breach and not is_beyond(limit.direction, reading.value, limit.resolve_at)
    value, fires, resolves = shown_values(rule, reading.value, limit.value, limit.resolve_at)
    shown = describe_value(rule, reading, format_value(value, fires, resolves))
    unit, side = unit_of(rule), limit.direction
    if is_breach:
        finding = f"{side} {fires:.12g}{unit}"
        if isinstance(rule, CoverageRule) and side is Direction.ABOVE:
            finding = f"more than the {fires:.12g}{unit} allowed{_question(rule)}"
        reason = _add_finding(shown, finding, failures)
    elif is_recovered:
        reason = f"{shown}, not {side} {resolves:.12g}{unit}"
    else:
        reason = (
            f"{shown}, not {side} {fires:.12g}{unit} but still {side} {resolves:.12g}{unit}, "
            "where it resolves"
        )
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=reason,
        value=reading.value,
        users=reading.users,
        is_recovered=is_recovered,
    )


def _add_finding(shown: str, finding: str, failures: Failures) -> str:
    """The value with what failed, then the finding."""
    if failures is None:
        return f"{shown}, {finding}"
    return f"{failures(shown)}; {finding}"


def is_beyond(direction: Direction, value: float, limit: float) -> bool:
    """Whether the value is strictly on this side of the limit."""
    return value < limit if direction is Direction.BELOW else value > limit


def shown_values(rule: SeriesRule, *values: float) -> tuple[float, ...]:
    """These values of the rule's series as they are shown: shares of users in per cent."""
    if isinstance(rule, SimilarityRule):
        return values
    # Without the error of the last digits.
    return tuple(round(100 * value, 12) for value in values)


def unit_of(rule: SeriesRule) -> str:
    """The unit after a shown value."""
    return "" if isinstance(rule, SimilarityRule) else " %"


def judge_unknown_segment(segment: str, rows: Iterable[CoverageRow]) -> Verdict:
    """``no_data`` for a segment without users, mistyped or vanished.

    The reason names the largest segments of its dimension.
    """
    dimension = segment.partition("=")[0]
    kin = [row for row in rows if row.segment.startswith(f"{dimension}=")]
    kin.sort(key=lambda row: (-row.asked, row.segment))
    names = [row.segment for row in kin]
    there_is = ", ".join(names[:_MOST_NAMED]) or f"no segment by {dimension}"
    if len(names) > _MOST_NAMED:
        there_is += f" and {len(names) - _MOST_NAMED:,} more"
    nearest = find_nearest(segment, names)
    meant = "" if nearest is None else f" (did you mean {nearest}?)"
    return undecided(
        Outcome.NO_DATA, f"no user of the panel belongs to {segment}{meant}; there is {there_is}"
    )


def undecided(
    outcome: Outcome, reason: str, users: int = 0, *, is_learning: bool = False
) -> Verdict:
    """A verdict without a value: there is none, or none that may be compared."""
    return Verdict(outcome=outcome, reason=reason, value=None, users=users, is_learning=is_learning)


def describe_value(rule: SeriesRule, reading: Reading, shown: str) -> str:
    """``mean of rbo(p=0.9) is 0.512 over 690 users``.

    Of coverage: ``the candidate gave no list for 34 of 690 users (4.93 %)``.
    """
    users = count_users(reading.users, reading.segment)
    if isinstance(rule, SimilarityRule):
        return f"{rule.statistic} of {rule.metric} is {shown} over {users}"
    count, share = round(reading.value * reading.users), rule.share
    percent = "" if reading.value == 1 else f" ({shown} %)"
    if share.arm is None:
        return f"{count:,} of {users} could not be compared{percent}"
    return f"the {share.arm} {_LACK_WORDS[share.lack]} {count:,} of {users}{percent}"


def format_value(value: float, *limits: float) -> str:
    """Shortest form of three or more figures on the same side of every limit as the value."""
    for figures in range(3, 17):
        rounded = f"{value:.{figures}g}"
        if all(_side_of(float(rounded), limit) == _side_of(value, limit) for limit in limits):
            return rounded
    return repr(value)


def _side_of(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def count_users(count: int, segment: str) -> str:
    """``1,874 users of country=UK``."""
    return f"{count_of(count, 'user')}{_of(segment)}"


def _of(segment: str) -> str:
    return "" if segment == ALL else f" of {segment}"


def describe_lost(arm: Arm, count: int, users: int) -> str:
    """``the candidate gave no list for 34 of 690 users``."""
    return f"the {arm} gave no list for {count:,} of {users:,} users"


def shorten_reason(reason: str) -> str:
    """For headlines: ``candidate recs:80 answered 503 Service Unavailable (60 of 60 users)``.

    Else the first clause.
    """
    failures = []
    for arm, users, why in _LOST.findall(reason):
        cause = shorten(_FURTHER.sub(", and other causes", why), 140, placeholder=" …")
        failures.append(f"{arm} {cause} ({users})")
    if not failures:
        return reason.partition("; ")[0]
    if BOTH_FAILED not in reason or len(failures) == 1:
        return failures[0]
    return f"both arms failed: {', '.join(failures)}"


def with_cause(what: str, cause: str | None) -> str:
    """What happened, and its cause if it is known."""
    return f"{what}: {cause}" if cause else what


def judge_reading(
    rule: SeriesRule,
    reading: Reading | Verdict,
    expectation: Expectation | None,
    failures: Failures = None,
) -> Verdict:
    """The verdict on a value by the rule's limit. A verdict without a value stays as it is."""
    if isinstance(reading, Verdict):
        return reading
    if isinstance(rule.limit, FixedLimit):
        return judge_threshold(rule, rule.limit, reading, failures)
    return judge_learned(rule, rule.limit, reading, expectation, failures)


def judge_learned(
    rule: SeriesRule,
    limit: LearnedLimit,
    reading: Reading,
    expectation: Expectation | None,
    failures: Failures,
) -> Verdict:
    """The verdict by a learned limit: ``breach`` for a value or for evidence beyond it.

    Recovered once the value is normal. ``too_few`` while learning (under MIN_HEALTHY_RUNS healthy
    runs) or if no possible value is beyond the limit. ``no_data`` if the value is too uncertain.
    """
    if expectation is None or expectation.expected is None or expectation.limit is None:
        return _judge_unlearned(expectation, reading.users)
    # Without a sampling error any value could be chance.
    if expectation.z is None:
        users = count_users(reading.users, reading.segment)
        uncertain = (
            f"{rule.subject.statistic} of {rule.subject.metric} over {users} is too "
            "uncertain to be judged"
        )
        return undecided(Outcome.NO_DATA, uncertain, reading.users, is_learning=True)
    value, most, expected = shown_values(
        rule, reading.value, expectation.limit, expectation.expected
    )
    unit = unit_of(rule)
    note = f"{expected:.3g}{unit} was expected after {expectation.runs} healthy runs"
    is_judgeable = True
    if limit.learning is Learning.TREND:
        is_breach, finding = _find_trend(limit.direction, expectation)
    else:
        is_breach = is_beyond(limit.direction, value, most)
        # Whether any possible value would be a breach.
        is_judgeable = is_breach or is_beyond(limit.direction, limit.value, expectation.limit)
        finding = _describe_drop(rule, value, most, is_breach=is_breach)
        if isinstance(rule, CoverageRule):
            runs = f"(after {expectation.runs} healthy runs)"
            finding = f"normally {expected:.3g} %, {finding} {runs}"
            note = ""
            if is_breach:
                finding += _question(rule)
        if not is_judgeable:
            finding = f"normally {expected:.3g}{unit}"
            note = _describe_no_limit(limit.direction, expectation)
    shown = describe_value(rule, reading, format_value(value, most))
    judged = _add_finding(shown, finding, failures if is_breach else None)
    reason = "; ".join(filter(None, (judged, note, expectation.note)))
    is_normal = expectation.z <= _normal_again(limit, expectation)
    if not is_judgeable and not is_normal:
        return undecided(Outcome.TOO_FEW, reason, reading.users, is_learning=True)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=reason,
        value=reading.value,
        users=reading.users,
        is_recovered=not is_breach and is_normal,
        is_new_normal=bool(expectation.note),
    )


def _describe_drop(rule: SeriesRule, value: float, most: float, *, is_breach: bool) -> str:
    """The limit of what is normal, and on which side of it the value is."""
    direction = rule.direction
    end = "least" if direction is Direction.BELOW else "most"
    # Neither figure may be rounded to the other side of the other one.
    bound = f"{format_value(most, float(format_value(value, most)))}{unit_of(rule)}"
    if isinstance(rule, CoverageRule):
        return f"at {end} {bound}"
    position = direction if is_breach else f"not {direction}"
    return f"{position} {bound}, the {end} that is normal"


def _judge_unlearned(expectation: Expectation | None, users: int) -> Verdict:
    if expectation is not None and expectation.note:
        reason = expectation.note
    else:
        runs = 0 if expectation is None else expectation.runs
        reason = f"learning what is normal: {runs} of {MIN_HEALTHY_RUNS} healthy runs"
    return undecided(Outcome.TOO_FEW, reason, users, is_learning=True)


def _normal_again(limit: LearnedLimit, expectation: Expectation) -> float:
    """The z up to which a firing alert ends."""
    learning = Learning.DROP if expectation.note else limit.learning
    half_of_fault = (expectation.fault or 0.0) / 2
    return max(NORMAL_AGAIN[learning], min(half_of_fault, MOST_AGAIN))


def _describe_no_limit(direction: Direction, expectation: Expectation) -> str:
    side = "lower" if direction is Direction.BELOW else "higher"
    return (
        f"this rule cannot judge: after {expectation.runs} healthy runs no possible value is "
        f"{side} than normal"
    )


def _question(rule: SeriesRule) -> str:
    """The first question to on-call about lists of this kind."""
    return _QUESTIONS.get(rule.share.lack, "") if isinstance(rule, CoverageRule) else ""


def _find_trend(direction: Direction, expectation: Expectation) -> tuple[bool, str]:
    evidence, limit = expectation.evidence or 0.0, expectation.evidence_limit or math.inf
    is_breach = evidence >= limit
    drift = "fall" if direction is Direction.BELOW else "rise"
    if is_breach:
        times = format_value(evidence / limit, 1.0)
        return True, f"after a {drift} over several runs (evidence is {times} times the limit)"
    return False, f"no lasting {drift} so far (evidence {evidence:,.3g}, limit {limit:,.3g})"


def bound_statistic(
    rule: SimilarityRule, summary: Summary, missing: float
) -> tuple[float, float] | None:
    """Lowest and highest possible value of the statistic if ``missing`` more users had a score.

    Exact for means and shares (Manski 2003, chapter 1). Percentiles come from the stored ones. None
    without a value or a range.
    """
    value = summary.value(str(rule.statistic))
    if value is None or rule.scores is None or not all(map(math.isfinite, (value, *rule.scores))):
        return None
    n, total = summary.n, summary.n + missing
    if rule.statistic.quantile is not None:
        return _bound_quantile(summary, rule.statistic.quantile, missing, rule.scores)
    low, high = (0.0, 1.0) if rule.is_share else rule.scores
    return (n * value + missing * low) / total, (n * value + missing * high) / total


def _bound_quantile(
    summary: Summary, quantile: float, missing: float, scores: tuple[float, float]
) -> tuple[float, float]:
    # Users without a score are below all other users, or above them. So the quantile of all users
    # is another quantile of the users with a score.
    scores_at = {0.0: scores[0], 1.0: scores[1]}
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
    """The verdict, or ``no_data`` if the users without a score could change it.

    For a fixed limit these are all such users, for a learned limit those beyond the usual number.
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
    could = f"{users} without a score could make it anything from {low:.3g} to {high:.3g}"
    reason = f"cannot be decided: {could}; of those who have one, {verdict.reason}"
    return Verdict(outcome=Outcome.NO_DATA, reason=reason, value=verdict.value, users=verdict.users)
