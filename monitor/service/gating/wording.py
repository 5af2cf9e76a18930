"""A gate's reason in words."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import spell
from monitor.sequential import Reason, Verdict
from monitor.service.gating.certificate import JudgedSegment
from monitor.service.gating.choosing import WORDS, Chosen
from monitor.service.gating.question import Question

_NAMED = 5


def explain(question: Question, verdict: Verdict, segments: Sequence[JudgedSegment]) -> str:
    """Why this verdict, with the figures of the segments that led to it."""
    if verdict is Verdict.INCONCLUSIVE:
        worst = next((each for each in segments if each.reason is Reason.NO_DATA), None)
        open_one = worst or next(each for each in segments if each.verdict is Verdict.INCONCLUSIVE)
        return _open(question.margin, open_one)
    named = [each for each in segments if each.verdict is verdict]
    told = "; ".join(_decided(question.margin, each) for each in named[:_NAMED])
    return told + (f"; and {len(named) - _NAMED} more segments" if len(named) > _NAMED else "")


def explain_nothing(question: Question, chosen: Chosen) -> str:
    """Why there was no run to judge."""
    since = f" since {spell(question.since)}" if question.since else ""
    told = f"no run of {question.comparison.name}{since} can be judged"
    reasons = ", ".join(f"{count:,} {WORDS[reason]}" for reason, count in chosen.left_out.items())
    trouble = f" (the newest: {chosen.trouble})" if chosen.trouble else ""
    return told + (f": {reasons}{trouble}" if reasons else ": none is stored yet")


def _decided(margin: float, each: JudgedSegment) -> str:
    if each.verdict is Verdict.SAFE:
        return f"{_of(each)}the mean excess is below {margin:g}: at most {each.high:.4g} over {each.users:,} users"
    return f"{_of(each)}the mean excess is above {margin:g}: at least {each.low:.4g} over {each.users:,} users"


def _open(margin: float, each: JudgedSegment) -> str:
    if each.users == each.missing:
        asked = f"none of {each.users:,} users drawn has a score" if each.users else "no user was drawn"
        return f"{_of(each)}{asked}"
    if each.reason is Reason.NO_DATA:
        return (
            f"{_of(each)}{each.missing:,} of {each.users:,} users have no score, and that decides: the mean excess is "
            f"{each.mean_best:.4g} with the best for them and {each.mean_worst:.4g} with the worst, against {margin:g}"
        )
    return (
        f"{_of(each)}{each.users:,} users leave both open: the mean excess lies between {each.low:.4g} and {each.high:.4g}, "
        f"and {margin:g} between these; more runs will tell"
    )


def _of(each: JudgedSegment) -> str:
    return "" if each.segment == "all" else f"{each.segment}: "
