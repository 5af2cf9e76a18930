"""What one rule concludes about one segment of one run: how its value is held against its limit, with what uncertainty."""

import math
import re
from collections.abc import Iterable
from textwrap import shorten
from typing import NamedTuple

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

_MOST_NAMED = 3
_LACK_WORDS = {
    Lack.MISSING: "gave no list for",
    Lack.EMPTY: "gave an empty list for",
    Lack.SHORT: "gave a list shorter than k for",
    Lack.DUPLICATED: "gave a list with duplicates for",
    Lack.FAILED: "gave no usable answer for",
    Lack.SHARED: "gave one and the same list to",
    Lack.UNCHANGED: "has not changed since its last run the lists of",
    Lack.REVERSED: "turned round the same first three items for",
    Lack.FIRST_DIFFERS: "put another item first for",
    Lack.IDENTICAL: "answers with the baseline's list for",
}
_QUESTIONS = {Lack.IDENTICAL: ": is the experiment applied?"}

BOTH_FAILED = "both arms failed, look for what they share"
_LOST = re.compile(
    r"the (\w+) (?:gave no list|gave no usable answer) for ([0-9,]+ of [0-9,]+ users)[^:;]*: (?!the )([^;]+)"
)
_FURTHER = re.compile(r" \([0-9,]+ of them\).*")

NORMAL_AGAIN = {Learning.DROP: 2.0, Learning.TREND: 1.5}
"""An alert ends once the value is worse than expected by so many standard deviations at most; a trend may be of less than two,
but not where the level that is expected is the newest one."""
MOST_AGAIN = 3.0
"""Where the fault lay farther out half of its distance is enough, up to so many: a healthy level may have moved meanwhile."""
LEAST_MISSING = 0.5
"""Users: what is less is rounding."""


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
    """The value, or a verdict with the reason why there is none to compare.

    ``error``: the run did not end well. ``no_data``: it paired too little as a whole or
    (``thin_reason``) of this segment, no user has a defined score, or the statistic no finite
    value. ``too_few``: under ``min_users``.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
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
    found: Reading | None,
    run_reason: str | None,
) -> Reading | Verdict:
    """The share, in every run that knows its coverage, also one that failed for lack of lists.

    Or why there is none.

    ``error``: it ended before anybody was asked. ``no_data``: nobody of the segment was, or nothing
    can be told of its lists.
    """
    is_trait = rule.share.lack in TRAITS
    if is_trait and (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    if found is None and is_trait:
        untold = (
            "too few lists of other users have changed since the last run to tell which "
            "ones should have"
        )
        why = untold if rule.share.lack is Lack.UNCHANGED else "there are no lists to compare"
        return undecided(Outcome.NO_DATA, f"{why}{_of(segment)}", is_learning=True)
    if found is None:
        if status in (RunStatus.OK, RunStatus.INSUFFICIENT):
            return undecided(Outcome.NO_DATA, f"nobody{_of(segment)} was asked")
        return undecided(
            Outcome.ERROR, with_cause("the run ended before its coverage was known", run_reason)
        )
    # Coverage is judged in failed runs too: missing lists are often why they fail.
    if found.users < rule.min_users:
        was = "could be looked at" if is_trait else "were asked"
        few = (
            f"only {count_users(found.users, segment)} {was}, fewer than the "
            f"{rule.min_users:,} needed"
        )
        return undecided(Outcome.TOO_FEW, few, found.users, is_learning=is_trait)
    return found


def judge_status(status: RunStatus, run_reason: str | None) -> Verdict | None:
    """``error`` or ``no_data`` for a run that did not end well, None for one that did."""
    if status is RunStatus.OK:
        return None
    if status is RunStatus.INSUFFICIENT:
        return undecided(Outcome.NO_DATA, run_reason or "too little of the panel could be compared")
    if status is RunStatus.FAILED:
        return undecided(Outcome.ERROR, run_reason or "the run failed")
    failure = (
        "the run was abandoned before its end"
        if status is RunStatus.ABANDONED
        else "the run has not ended"
    )
    return undecided(Outcome.ERROR, with_cause(failure, run_reason))


def judge_threshold(rule: SeriesRule, limit: FixedLimit, reading: Reading) -> Verdict:
    """``breach`` strictly on the rule's side of the threshold, otherwise ``ok``, recovered once it reaches ``resolve_at``."""
    is_breach = is_beyond(limit.direction, reading.value, limit.value)
    # A value between both limits neither fires nor resolves, so that an alert does not flap.
    is_recovered = not is_breach and not is_beyond(limit.direction, reading.value, limit.resolve_at)
    shown = describe_value(
        rule,
        reading,
        format_value(*shown_values(rule, reading.value, limit.value, limit.resolve_at)),
    )
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{shown}, {_standing(rule, limit, is_breach=is_breach, is_recovered=is_recovered)}",
        value=reading.value,
        users=reading.users,
        is_recovered=is_recovered,
    )


def is_beyond(direction: Direction, value: float, limit: float) -> bool:
    """Whether the value lies strictly on this side of the limit."""
    return value < limit if direction is Direction.BELOW else value > limit


def _standing(rule: SeriesRule, limit: FixedLimit, *, is_breach: bool, is_recovered: bool) -> str:
    unit, side = unit_of(rule), rule.direction
    fires, resolves = (
        f"{value:.12g}{unit}" for value in shown_values(rule, limit.value, limit.resolve_at)
    )
    if is_breach:
        is_share = isinstance(rule, CoverageRule) and side is Direction.ABOVE
        return f"more than the {fires} allowed{_question(rule)}" if is_share else f"{side} {fires}"
    return (
        f"not {side} {resolves}"
        if is_recovered
        else f"not {side} {fires} but still {side} {resolves}, where it resolves"
    )


def shown_values(rule: SeriesRule, *values: float) -> tuple[float, ...]:
    """These values of the rule's series as they are shown: shares of users in per cent, without the last digits' error."""
    return (
        values
        if isinstance(rule, SimilarityRule)
        else tuple(round(100 * value, 12) for value in values)
    )


def unit_of(rule: SeriesRule) -> str:
    """What stands behind a value that is shown."""
    return "" if isinstance(rule, SimilarityRule) else " %"


def judge_unknown_segment(segment: str, rows: Iterable[CoverageRow]) -> Verdict:
    """``no_data`` for a segment that no user asked belongs to, mistyped or vanished.

    The reason names its largest siblings.
    """
    dimension = segment.partition("=")[0]
    kin = sorted(
        (row for row in rows if row.segment.startswith(f"{dimension}=")),
        key=lambda row: (-row.asked, row.segment),
    )
    named = ", ".join(row.segment for row in kin[:_MOST_NAMED]) or f"no segment by {dimension}"
    rest = f" and {len(kin) - _MOST_NAMED:,} more" if len(kin) > _MOST_NAMED else ""
    nearest = find_nearest(segment, [row.segment for row in kin])
    meant = "" if nearest is None else f" (did you mean {nearest}?)"
    return undecided(
        Outcome.NO_DATA, f"no user of the panel belongs to {segment}{meant}; there is {named}{rest}"
    )


def undecided(
    outcome: Outcome, reason: str, users: int = 0, *, is_learning: bool = False
) -> Verdict:
    """A verdict without a value: there is none, or none that may be compared."""
    return Verdict(outcome=outcome, reason=reason, value=None, users=users, is_learning=is_learning)


def describe_value(rule: SeriesRule, reading: Reading, shown: str) -> str:
    """In words: ``mean of rbo(p=0.9) is 0.512 over 690 users``, ``the candidate gave no list for 34 of 690 users (4.93 %)``."""
    users = count_users(reading.users, reading.segment)
    if isinstance(rule, SimilarityRule):
        return f"{rule.statistic} of {rule.metric} is {shown} over {users}"
    count, share = round(reading.value * reading.users), rule.share
    percent = "" if reading.value == 1 else f" ({shown} %)"
    if share.arm is None:
        return f"{count:,} of {users} could not be compared{percent}"
    return f"the {share.arm} {_LACK_WORDS[share.lack]} {count:,} of {users}{percent}"


def format_value(value: float, *limits: float) -> str:
    """Shortest form of three or more figures that stands on the same side of every limit as the value itself."""
    # Rounding must never show a value on the wrong side of its limit.
    for figures in range(3, 17):
        text = f"{value:.{figures}g}"
        if all(
            (float(text) > limit) - (float(text) < limit) == (value > limit) - (value < limit)
            for limit in limits
        ):
            return text
    return repr(value)


def count_users(count: int, segment: str) -> str:
    """``1,874 users of country=UK``."""
    return f"{count:,} user{'' if count == 1 else 's'}{_of(segment)}"


def _of(segment: str) -> str:
    return "" if segment == ALL else f" of {segment}"


def describe_lost(arm: Arm, count: int, asked: int) -> str:
    """``the candidate gave no list for 34 of 690 users``."""
    return f"the {arm} gave no list for {count:,} of {asked:,} users"


def shorten_reason(reason: str) -> str:
    """For headlines: ``candidate recs:80 answered 503 Service Unavailable (60 of 60 users)``.

    Else the first clause.
    """
    failed = _LOST.findall(reason)[: None if BOTH_FAILED in reason else 1]
    lost = [
        f"{arm} {shorten(_FURTHER.sub(', and more', why), 140, placeholder=' …')} ({users})"
        for arm, users, why in failed
    ]
    return "both arms failed: " * (len(lost) > 1) + ", ".join(lost) or reason.partition("; ")[0]


def with_cause(what: str, cause: str | None) -> str:
    """What happened, and its cause where that is known."""
    return f"{what}: {cause}" if cause else what


def judge_reading(
    rule: SeriesRule, reading: Reading | Verdict, expectation: Expectation | None
) -> Verdict:
    """The verdict on a value, by whichever limit the rule has.

    A verdict that there is none stays as it is.
    """
    if isinstance(reading, Verdict):
        return reading
    if isinstance(rule.limit, FixedLimit):
        return judge_threshold(rule, rule.limit, reading)
    return judge_learned(rule, rule.limit, reading, expectation)


def judge_learned(
    rule: SeriesRule, limit: LearnedLimit, reading: Reading, expectation: Expectation | None
) -> Verdict:
    """The verdict by a learned limit: a value beyond it, or evidence that has reached it.

    Recovered once the value is normal.

    ``too_few`` while learning (under MIN_HEALTHY_RUNS healthy runs), ``no_data`` for a value too
    uncertain to be judged.
    """
    if expectation is None or expectation.expected is None or expectation.limit is None:
        runs = 0 if expectation is None else expectation.runs
        learning = f"learning what is normal: {runs} of {MIN_HEALTHY_RUNS} healthy runs"
        why = (expectation and expectation.note) or learning
        return undecided(Outcome.TOO_FEW, why, reading.users, is_learning=True)
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
    shown, unit = format_value(value, most), unit_of(rule)
    after = f"{expected:.3g}{unit} was expected after {expectation.runs} healthy runs"
    is_judgeable = True
    if limit.learning is Learning.DROP:
        is_breach, end = (
            is_beyond(limit.direction, value, most),
            "least" if limit.direction is Direction.BELOW else "most",
        )
        is_judgeable = is_breach or is_beyond(limit.direction, limit.value, expectation.limit)
        # Neither figure may be rounded to the other side of the other one.
        bound = f"{format_value(most, float(shown))}{unit}"
        finding = (
            f"{'' if is_breach else 'not '}{limit.direction} {bound}, the {end} that is normal"
        )
        if isinstance(rule, CoverageRule):  # what is counted speaks for itself
            finding, after = (
                (
                    f"normally {expected:.3g} %, at {end} {bound} (after {expectation.runs} "
                    "healthy runs)"
                ),
                "",
            )
            finding += _question(rule) if is_breach else ""
        if not is_judgeable:
            finding, after = (
                f"normally {expected:.3g}{unit}",
                _describe_no_limit(limit.direction, expectation),
            )
    else:
        is_breach, finding = _find_trend(limit.direction, expectation)
    learning = Learning.DROP if expectation.note else limit.learning
    normal_again = max(NORMAL_AGAIN[learning], min((expectation.fault or 0.0) / 2, MOST_AGAIN))
    is_normal = expectation.z <= normal_again
    reason = "; ".join(
        filter(
            None, (f"{describe_value(rule, reading, shown)}, {finding}", after, expectation.note)
        )
    )
    if not is_judgeable and not is_normal:
        return undecided(Outcome.TOO_FEW, reason, reading.users, is_learning=True)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=reason,
        value=reading.value,
        users=reading.users,
        is_recovered=not is_breach and is_normal,
    )


def _describe_no_limit(direction: Direction, expectation: Expectation) -> str:
    side = "lower" if direction is Direction.BELOW else "higher"
    return (
        f"this rule cannot judge: after {expectation.runs} healthy runs no possible value is "
        f"{side} than normal"
    )


def _question(rule: SeriesRule) -> str:
    """What to ask on-call at once about lists of this kind."""
    return _QUESTIONS.get(rule.share.lack, "") if isinstance(rule, CoverageRule) else ""


def _find_trend(direction: Direction, expectation: Expectation) -> tuple[bool, str]:
    evidence, needed = expectation.evidence or 0.0, expectation.evidence_limit or math.inf
    drift = "fall" if direction is Direction.BELOW else "rise"
    is_breach = evidence >= needed
    finding = (
        f"with the runs before it a lasting {drift}" if is_breach else f"no lasting {drift} so far"
    )
    return is_breach, f"{finding} (evidence {evidence:,.3g}, limit {needed:,.3g})"


def bound_statistic(
    rule: SimilarityRule, summary: Summary, missing: float
) -> tuple[float, float] | None:
    """Lowest and highest value of the rule's statistic had ``missing`` more users had a score, each the worst or the best.

    Exact for means and shares (Manski 2003, chapter 1), percentiles from the stored ones. None without a value or a range.
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
    # The users without a score stand below all others, or above: the wanted quantile of all is then
    # another one of the known scores.
    known = {0.0: scores[0], 1.0: scores[1]}
    for name, value in summary.statistics.items():
        if (level := Statistic.parse(name).quantile) is not None:
            known[level] = value
    # The scores in between are taken to lie on straight lines between the stored quantiles.
    levels = sorted(known)
    rank = quantile * (summary.n + missing)
    found = np.interp(
        [(rank - missing) / summary.n, rank / summary.n], levels, [known[level] for level in levels]
    )
    return float(found[0]), float(found[1])


def apply_bounds(
    rule: SimilarityRule,
    verdict: Verdict,
    summary: Summary,
    row: CoverageRow | None,
    expectation: Expectation | None,
) -> Verdict:
    """The verdict, or ``no_data`` where those without a score could turn it: all of them, or beyond the usual if it learns."""
    asked = row.asked if row is not None else summary.n
    if isinstance(rule.limit, FixedLimit):
        limit, missing = rule.limit.value, float(asked - row.paired) if row is not None else 0.0
    elif expectation is None or expectation.limit is None:
        return verdict
    else:
        limit, missing = (
            expectation.limit,
            max(0.0, expectation.lost - expectation.usual_lost) * asked,
        )
    bounds = bound_statistic(rule, summary, missing) if missing >= LEAST_MISSING else None
    if bounds is None or verdict.outcome not in (Outcome.OK, Outcome.BREACH):
        return verdict
    low, high = bounds
    if is_beyond(rule.direction, low, limit) == is_beyond(rule.direction, high, limit):
        return verdict
    users = f"{missing:,.0f} user{'' if round(missing) == 1 else 's'}"
    could = f"{users} without a score could make it anything from {low:.3g} to {high:.3g}"
    reason = f"cannot be decided: {could}; of those who have one, {verdict.reason}"
    return Verdict(outcome=Outcome.NO_DATA, reason=reason, value=verdict.value, users=verdict.users)
