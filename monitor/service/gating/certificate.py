"""The answer of a gate with all that it rests on: the same stored data give the same certificate, but for its time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.sequential import Reason, Verdict
from monitor.service.gating.choosing import LeftOut
from monitor.service.gating.quantity import Quantity
from monitor.service.gating.question import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run that was judged: its users drawn at random over all segments, and those of them without a score."""

    run_id: int
    slot: datetime
    users: int
    missing: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSegment:
    """One segment's figures in the metric's own units, None where there are none.

    ``mean_best`` and ``mean_worst``: mean excess with every missing user at the least and at the greatest excess there is.
    ``low`` and ``high``: confidence bounds, missing users included. Evidence: log10 of the e-values against "not below" and
    "not above" the margin; alpha 0.01 asks for 2.
    """

    segment: str
    users: int
    missing: int
    mean_best: float | None
    mean_worst: float | None
    low: float
    high: float
    evidence_safe: float
    evidence_breach: float
    verdict: Verdict
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was asked, what was judged, and what may be said; ``looks``: runs of a census so far, else 1."""

    question: Question
    quantity: Quantity
    runs: tuple[JudgedRun, ...]
    left_out: Mapping[LeftOut, int]
    looks: int
    segments: tuple[JudgedSegment, ...]
    verdict: Verdict
    reason: Reason
    words: str
    version: str
    at: datetime

    @property
    def data_hash(self) -> str:
        """SHA-256 over the judged runs' ids, slots, users and scores."""
        return hashlib.sha256("".join(run.digest for run in self.runs).encode()).hexdigest()

    @property
    def level(self) -> float:
        """The part of alpha that this look may take on each side."""
        return self.question.alpha * share_of(self.question, self.looks)


def share_of(question: Question, looks: int) -> float:
    """1 for a sample, whose looks share one alpha; 1 / (t (t + 1)) for the t-th look at a census, which sum to 1."""
    return 1.0 / (looks * (looks + 1)) if question.is_census else 1.0


def conclude(segments: Sequence[JudgedSegment]) -> tuple[Verdict, Reason]:
    """``breach`` where any segment is beyond the margin, ``safe`` where all are below it; without segments nothing is known."""
    if not segments:
        return Verdict.INCONCLUSIVE, Reason.NO_DATA
    verdicts = {each.verdict for each in segments}
    if Verdict.BREACH in verdicts:
        return Verdict.BREACH, Reason.DECIDED
    if verdicts == {Verdict.SAFE}:
        return Verdict.SAFE, Reason.DECIDED
    reasons = {each.reason for each in segments}
    return Verdict.INCONCLUSIVE, Reason.NO_DATA if Reason.NO_DATA in reasons else Reason.TOO_FEW
