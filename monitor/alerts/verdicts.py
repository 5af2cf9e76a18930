"""What one rule concludes about one segment of one run: similarity, coverage, standstill, and segments that nobody belongs to."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from monitor.model import (
    ALL,
    Arm,
    ArmScore,
    CoverageRow,
    CoverageShare,
    Direction,
    Expectation,
    Lack,
    Outcome,
    Rule,
    RunStatus,
    Summary,
    Verdict,
)


def judge_similarity(
    rule: Rule,
    segment: str,
    status: RunStatus,
    summary: Summary | None,
    run_reason: str | None,
    thin_reason: str | None = None,
) -> Verdict:
    """Judge one segment by one rule.

    ``error`` for a run that did not end well, ``no_data`` when it paired too little as a whole or (``thin_reason`` says so)
    of this segment, when the segment has no user with a defined score, or when the statistic has no finite value; ``too_few``
    under ``min_users``. Only then is the value compared: ``breach`` strictly on the rule's side of the threshold, otherwise
    ``ok``, recovered once it reaches ``resolve_at``.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    if thin_reason is not None:
        return undecided(Outcome.NO_DATA, with_cause(f"too little{_of(segment)} could be compared", thin_reason))
    if summary is None or summary.n == 0:
        return undecided(Outcome.NO_DATA, f"no user{_of(segment)} has a value of {rule.metric}")
    return _measured(rule, segment, summary)


def judge_status(status: RunStatus, run_reason: str | None) -> Verdict | None:
    """``error`` or ``no_data`` for a run that did not end well, None for one that did."""
    if status is RunStatus.OK:
        return None
    if status is RunStatus.INSUFFICIENT:
        return undecided(Outcome.NO_DATA, with_cause("too little of the panel could be compared", run_reason))
    said = {RunStatus.FAILED: "the run failed", RunStatus.ABANDONED: "the run was abandoned before its end"}
    return undecided(Outcome.ERROR, with_cause(said.get(status, "the run has not ended"), run_reason))


def _measured(rule: Rule, segment: str, summary: Summary) -> Verdict:
    if summary.n < rule.min_users:
        reason = f"{count_users(summary.n, segment)} with a value of {rule.metric}, fewer than the {rule.min_users:,} needed"
        return undecided(Outcome.TOO_FEW, reason, summary.n)
    value = summary.value(rule.statistic)
    if value is None or not math.isfinite(value):
        reason = f"{rule.statistic} of {rule.metric} has no value over {count_users(summary.n, segment)}"
        return undecided(Outcome.NO_DATA, reason, summary.n)
    shown = format_value(value, rule.threshold, rule.resolve_at)
    return compare_value(
        rule, f"{rule.statistic} of {rule.metric} is {shown} over {count_users(summary.n, segment)}", value, summary.n
    )


def undecided(outcome: Outcome, reason: str, users: int = 0, *, is_learning: bool = False) -> Verdict:
    """A verdict that says nothing of the value."""
    return Verdict(outcome=outcome, reason=reason, value=None, users=users, is_learning=is_learning)


def compare_value(rule: Rule, measured: str, value: float, users: int) -> Verdict:
    """The value against the rule's threshold; ``measured`` tells the value in words."""
    is_breach = _beyond(rule.direction, value, rule.threshold)
    is_recovered = not is_breach and not _beyond(rule.direction, value, rule.resolve_at)
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{measured}, {_standing(rule, is_breach=is_breach, is_recovered=is_recovered)}",
        value=value,
        users=users,
        is_recovered=is_recovered,
    )


def _beyond(direction: Direction, value: float, limit: float) -> bool:
    return value < limit if direction is Direction.BELOW else value > limit


def _standing(rule: Rule, *, is_breach: bool, is_recovered: bool) -> str:
    threshold, resolve_at = _number(rule.threshold), _number(rule.resolve_at)
    if is_breach:
        return f"{rule.direction} {threshold}"
    if is_recovered:
        return f"not {rule.direction} {resolve_at}"
    return f"not {rule.direction} {threshold} but still {rule.direction} {resolve_at}, where it resolves"


def format_value(value: float, *limits: float) -> str:
    """Shortest form of three or more figures that stands on the same side of every limit as the value itself."""
    for figures in range(3, 17):
        text = f"{value:.{figures}g}"
        if all((float(text) > limit) - (float(text) < limit) == (value > limit) - (value < limit) for limit in limits):
            return text
    return repr(value)


def format_apart(value: float, limit: float) -> tuple[str, str]:
    """Shortest forms of three or more figures of both in which the one that is larger looks larger."""
    for figures in range(3, 17):
        one, other = f"{value:.{figures}g}", f"{limit:.{figures}g}"
        if (float(one) > float(other)) - (float(one) < float(other)) == (value > limit) - (value < limit):
            return one, other
    return repr(value), repr(limit)


def _number(value: float) -> str:
    return f"{value:.12g}"


def count_users(count: int, segment: str) -> str:
    """``1,874 users of country=UK``."""
    return f"{count:,} user{'' if count == 1 else 's'}{_of(segment)}"


def _of(segment: str) -> str:
    return "" if segment == ALL else f" of {segment}"


def with_cause(what: str, why: str | None) -> str:
    """What, and why where that is known."""
    return f"{what}: {why}" if why else what


_LACK_WORDS = {
    Lack.MISSING: "gave no list for",
    Lack.EMPTY: "gave an empty list for",
    Lack.SHORT: "gave a list shorter than k for",
    Lack.DUPLICATED: "gave a list with duplicates for",
    Lack.FAILED: "failed to answer for",
}


def judge_coverage(rule: Rule, segment: str, status: RunStatus, row: CoverageRow | None, run_reason: str | None) -> Verdict:
    """Judge one segment by one rule on coverage, in every run that knows its coverage, also one that failed for lack of lists.

    ``error`` for a run that ended before anybody was asked, ``no_data`` for a segment of which nobody was asked, ``too_few``
    for fewer than ``min_users``.
    """
    if row is None or not row.asked:
        if status in (RunStatus.OK, RunStatus.INSUFFICIENT):
            return undecided(Outcome.NO_DATA, f"nobody{'' if segment == ALL else f' of {segment}'} was asked")
        return undecided(Outcome.ERROR, with_cause("the run ended before its coverage was known", run_reason))
    if row.asked < rule.min_users:
        few = f"only {count_users(row.asked, segment)} were asked, fewer than the {rule.min_users:,} needed"
        return undecided(Outcome.TOO_FEW, few, row.asked)
    share = CoverageShare.parse(rule.statistic)
    count = share.count(row)
    value = count / row.asked
    what = describe_coverage(share, count, count_users(row.asked, segment))
    return compare_value(rule, f"{what} ({format_value(value, rule.threshold, rule.resolve_at)})", value, row.asked)


def describe_coverage(share: CoverageShare, count: int, asked: str) -> str:
    """``the candidate gave no list for 34 of 690 users``; ``asked`` tells the users in words."""
    if share.arm is None:
        return f"{count:,} of {asked} could not be compared"
    return f"the {share.arm} {_LACK_WORDS[share.lack]} {count:,} of {asked}"


_MOST_NAMED = 3
_REST = "other"


def judge_unknown_segment(segment: str, rows: Iterable[CoverageRow]) -> Verdict:
    """``no_data``, with the largest segments of the same dimension, or that there is no such dimension."""
    dimension = segment.partition("=")[0]
    kin = sorted((row for row in rows if row.segment.startswith(f"{dimension}=")), key=lambda row: (-row.asked, row.segment))
    told = f"no user of the panel belongs to {segment}"
    if any(row.segment == f"{dimension}={_REST}" for row in kin):
        told += f", unless as one of the rare ones in {dimension}={_REST}"
    return undecided(Outcome.NO_DATA, f"{told}; {_describe_kin(dimension, [row.segment for row in kin])}")


def _describe_kin(dimension: str, names: list[str]) -> str:
    if not names:
        return f"the panel has no segments by {dimension}"
    rest = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return f"there is {', '.join(names[:_MOST_NAMED])}{rest}"


CHURN = "self_churn"
"""The arm-wide metric that tells how much of each list was replaced since the last run."""
LEAST_CHANGES = 2
"""Changes of the arm's lists that must have been seen before it is known how often they change."""


def judge_standstill(
    rule: Rule, status: RunStatus, scores: Sequence[ArmScore], expectation: Expectation | None, run_reason: str | None
) -> Verdict:
    """Judge whether the arm stands still; the value counts the changes of the other arm since its own last one.

    ``breach`` beyond the limit that was learned, recovered with the arm's next change. ``no_data`` where this run's lists could
    not be held against those of the last one, ``too_few`` while it is being learned how often the arm changes.
    """
    if (unjudged := judge_status(status, run_reason)) is not None:
        return unjudged
    arm = Arm(rule.statistic)
    churn = find_churn(scores)
    if arm not in churn or other_arm(arm) not in churn or expectation is None:
        return undecided(Outcome.NO_DATA, "there are no lists of an earlier run to compare with")
    users = churn[arm].n
    if users < rule.min_users:
        few = f"only {count_users(users, ALL)} had a list in the last run too, fewer than the {rule.min_users:,} needed"
        return undecided(Outcome.TOO_FEW, few, users)
    if expectation.limit is None:
        seen = f"{expectation.runs} of {LEAST_CHANGES} changes seen"
        return undecided(Outcome.TOO_FEW, f"learning how often the lists of the {arm} change: {seen}", users, is_learning=True)
    return _compare_standstill(arm, churn, int(expectation.evidence or 0), int(expectation.limit))


def find_churn(scores: Sequence[ArmScore]) -> dict[Arm, ArmScore]:
    """Churn of each arm over all users, of those that have one."""
    return {each.arm: each for each in scores if each.segment == ALL and each.metric == CHURN and each.value is not None}


def other_arm(arm: Arm) -> Arm:
    """The arm that it is held against."""
    return Arm.CANDIDATE if arm is Arm.BASELINE else Arm.BASELINE


def _compare_standstill(arm: Arm, churn: dict[Arm, ArmScore], missed: int, most: int) -> Verdict:
    is_breach = missed > most
    said = (
        f"lists of the {arm} have not changed while those of the {other_arm(arm)} changed {missed} times"
        if missed
        else f"lists of the {arm} change"
    )
    replaced = (
        f"replaced in this run: {churn[arm].value:.0%} of the {arm}, {churn[other_arm(arm)].value:.0%} of the {other_arm(arm)}"
    )
    return Verdict(
        outcome=Outcome.BREACH if is_breach else Outcome.OK,
        reason=f"{said}, {'more than' if is_breach else 'at most'} {most} is normal; {replaced}",
        value=float(missed),
        users=churn[arm].n,
        is_recovered=missed == 0,
    )
