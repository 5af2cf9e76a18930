"""What one rule says of one segment in one run, in words that a person reads at night."""

from __future__ import annotations

import math

from monitor.model import ALL, Direction, Outcome, Rule, RunStatus, Summary, Verdict


def judge(
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
        return silent(Outcome.NO_DATA, because(f"too little{_of(segment)} could be compared", thin_reason))
    if summary is None or summary.n == 0:
        return silent(Outcome.NO_DATA, f"no user{_of(segment)} has a value of {rule.metric}")
    return _measured(rule, segment, summary)


def judge_status(status: RunStatus, run_reason: str | None) -> Verdict | None:
    """``error`` or ``no_data`` for a run that did not end well, None for one that did."""
    if status is RunStatus.OK:
        return None
    if status is RunStatus.INSUFFICIENT:
        return silent(Outcome.NO_DATA, because("too little of the panel could be compared", run_reason))
    said = {RunStatus.FAILED: "the run failed", RunStatus.ABANDONED: "the run was abandoned before its end"}
    return silent(Outcome.ERROR, because(said.get(status, "the run has not ended"), run_reason))


def _measured(rule: Rule, segment: str, summary: Summary) -> Verdict:
    if summary.n < rule.min_users:
        reason = f"{count_users(summary.n, segment)} with a value of {rule.metric}, fewer than the {rule.min_users:,} needed"
        return silent(Outcome.TOO_FEW, reason, summary.n)
    value = summary.value(rule.statistic)
    if value is None or not math.isfinite(value):
        reason = f"{rule.statistic} of {rule.metric} has no value over {count_users(summary.n, segment)}"
        return silent(Outcome.NO_DATA, reason, summary.n)
    shown = figure(value, rule.threshold, rule.resolve_at)
    return compare(
        rule, f"{rule.statistic} of {rule.metric} is {shown} over {count_users(summary.n, segment)}", value, summary.n
    )


def silent(outcome: Outcome, reason: str, users: int = 0, *, is_learning: bool = False) -> Verdict:
    """A verdict that says nothing of the value."""
    return Verdict(outcome=outcome, reason=reason, value=None, users=users, is_learning=is_learning)


def compare(rule: Rule, measured: str, value: float, users: int) -> Verdict:
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


def figure(value: float, *limits: float) -> str:
    """Shortest form of three or more figures that stands on the same side of every limit as the value itself."""
    for figures in range(3, 17):
        text = f"{value:.{figures}g}"
        if all((float(text) > limit) - (float(text) < limit) == (value > limit) - (value < limit) for limit in limits):
            return text
    return repr(value)


def tell_apart(value: float, limit: float) -> tuple[str, str]:
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


def because(what: str, why: str | None) -> str:
    """What, and why where that is known."""
    return f"{what}: {why}" if why else what
