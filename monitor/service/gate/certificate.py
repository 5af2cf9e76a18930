"""The certificate: a gate's answer with all that it rests on, and its reason in words. The same data give the same one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor.model import format_instant
from monitor.sequential import GateReason, GateResult, GateVerdict
from monitor.service.gate.judged_runs import LEFT_OUT_TEXTS, LeftOut
from monitor.service.gate.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run that was judged: its users drawn at random over all segments, and those of them without a score."""

    run_id: int
    slot: datetime
    users: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A question, what was judged, and the verdict; ``looks``: runs of a census so far, else 1."""

    question: Question
    runs: tuple[JudgedRun, ...]
    left_out: Mapping[LeftOut, int]
    looks: int
    segments: tuple[GateResult, ...]
    verdict: GateVerdict
    reason: GateReason
    words: str
    version: str
    at: datetime
    course: Mapping[datetime, tuple[GateResult, ...]] = field(default_factory=dict)  # ``segments`` as of some slots

    @property
    def level(self) -> float:
        """The part of alpha that this look may take on each side."""
        return self.question.alpha * alpha_share(self.question, self.looks)


def alpha_share(question: Question, looks: int) -> float:
    """1 for a sample, whose looks share one alpha; 1 / (t (t + 1)) for the t-th look at a census, which sum to 1."""
    return 1.0 / (looks * (looks + 1)) if question.is_census else 1.0


def overall_verdict(segments: Sequence[GateResult]) -> tuple[GateVerdict, GateReason]:
    """``breach`` where any segment is beyond the margin, ``safe`` where all are below it; without segments nothing is known."""
    if not segments:
        return GateVerdict.INCONCLUSIVE, GateReason.NO_DATA
    verdicts = {each.verdict for each in segments}
    if GateVerdict.BREACH in verdicts:
        return GateVerdict.BREACH, GateReason.DECIDED
    if verdicts == {GateVerdict.SAFE}:
        return GateVerdict.SAFE, GateReason.DECIDED
    reasons = {each.reason for each in segments}
    return GateVerdict.INCONCLUSIVE, GateReason.NO_DATA if GateReason.NO_DATA in reasons else GateReason.TOO_FEW


_NAMED = 5


def explain_verdict(question: Question, verdict: GateVerdict, segments: Sequence[GateResult]) -> str:
    """Why this verdict, with the figures of the segments that led to it."""
    if verdict is GateVerdict.INCONCLUSIVE:
        worst = next((each for each in segments if each.reason is GateReason.NO_DATA), None)
        open_one = worst or next(each for each in segments if each.verdict is GateVerdict.INCONCLUSIVE)
        return _open(question.margin, open_one)
    named = [each for each in segments if each.verdict is verdict]
    panel = f"; {question.census}: this is about them" if question.is_census and question.comparison.measuring.sample else ""
    texts = "; ".join(_decided(question.margin, each) for each in named[:_NAMED])
    return texts + (f"; and {len(named) - _NAMED} more segments" if len(named) > _NAMED else "") + panel


def explain_no_runs(question: Question, left_out: Mapping[LeftOut, int], trouble: str | None) -> str:
    """Why there was no run to judge; ``trouble``: why the newest bad run was bad."""
    since = f" since {format_instant(question.since)}" if question.since else ""
    reasons = ", ".join(f"{count:,} {LEFT_OUT_TEXTS[reason]}" for reason, count in left_out.items())
    newest = f" (the newest: {trouble})" if trouble else ""
    return f"no run of {question.comparison.name}{since} can be judged" + (
        f": {reasons}{newest}" if reasons else ": none is stored yet"
    )


def _decided(margin: float, each: GateResult) -> str:
    if each.verdict is GateVerdict.SAFE:
        return f"{_prefix(each)}the mean excess is below {margin:g}: at most {each.high:.4g} over {each.users:,} users"
    return f"{_prefix(each)}the mean excess is above {margin:g}: at least {each.low:.4g} over {each.users:,} users"


def _open(margin: float, each: GateResult) -> str:
    if each.users == each.missing:
        asked = f"none of {each.users:,} users drawn has a score" if each.users else "no user was drawn"
        return f"{_prefix(each)}{asked}"
    if each.reason is GateReason.NO_DATA:
        return (
            f"{_prefix(each)}{each.missing:,} of {each.users:,} users have no score, and that decides: the mean excess is "
            f"{each.mean_best:.4g} with the best for them and {each.mean_worst:.4g} with the worst, against {margin:g}"
        )
    return (
        f"{_prefix(each)}{each.users:,} users leave both open: the mean excess lies between {each.low:.4g} and "
        f"{each.high:.4g}, and {margin:g} between these; more runs will decide"
    )


def _prefix(each: GateResult) -> str:
    return "" if each.segment == "all" else f"{each.segment}: "
