"""From stored runs to a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from monitor import __version__
from monitor.errors import InputError
from monitor.model import ALL, Run
from monitor.ports import Clock, Store, UserSource
from monitor.sequential import Gated, Sample, Scale, judge, tally
from monitor.service.gating.certificate import Certificate, JudgedRun, JudgedSegment, conclude, share_of
from monitor.service.gating.choosing import Chosen, LeftOut, choose
from monitor.service.gating.quantity import Quantity
from monitor.service.gating.question import EACH, Question, choose_quantity
from monitor.service.gating.reading import Reader, RunRead, SegmentOfRun
from monitor.service.gating.wording import explain, explain_nothing

_NOBODY = SegmentOfRun(unit=np.empty(0), missing=0)


@dataclass(slots=True, kw_only=True)
class Answerer:
    """Answers one question as often as wanted; a run is read once for each time that it was measured.

    ``users`` and ``dimensions`` tell segments of runs whose lists were not kept; needed for segments other than ``all``.
    """

    store: Store
    question: Question
    clock: Clock
    users: UserSource | None = None
    dimensions: tuple[str, ...] = ()
    _read: dict[tuple[int, int], RunRead | None] = field(default_factory=dict)

    def answer(self) -> Certificate:
        """Judge what is stored now. InputError for a segment that no run has and for scores out of their range."""
        chosen = choose(self.store, self.question)
        quantity = choose_quantity(self.question)
        margin = quantity.scale.margin(self.question.margin)
        reads, left_out = self._judged(chosen, quantity)
        looks = max(len(chosen.runs), 1) if self.question.is_census else 1
        segments = _judge(self.question, quantity.scale, margin, reads, looks)
        verdict, reason = conclude(segments)
        return Certificate(
            question=self.question,
            quantity=quantity,
            runs=tuple(_run(read) for read in reads),
            left_out=left_out,
            looks=looks,
            segments=segments,
            verdict=verdict,
            reason=reason,
            words=explain(self.question, verdict, segments) if segments else _nothing(self.question, chosen, left_out),
            version=__version__,
            at=self.clock.now(),
        )

    def _judged(self, chosen: Chosen, quantity: Quantity) -> tuple[tuple[RunRead, ...], Mapping[LeftOut, int]]:
        """The runs that are judged, oldest first, and how many are not: of a census only the newest, and no other is read."""
        reads: list[RunRead] = []
        without = 0
        for run in reversed(chosen.runs):
            read = self._read_once(run, quantity)
            if read is None:
                without += 1
                continue
            reads.append(read)
            if self.question.is_census:
                break
        more = {LeftOut.NO_SCORES: without, LeftOut.NOT_THE_NEWEST: len(chosen.runs) - without - len(reads)}
        return tuple(reversed(reads)), {**chosen.left_out, **{reason: count for reason, count in more.items() if count}}

    def _read_once(self, run: Run, quantity: Quantity) -> RunRead | None:
        key = run.id, run.attempt
        if key not in self._read:
            asks_all = self.question.segments == (ALL,)
            reader = Reader(
                store=self.store,
                comparison=self.question.comparison,
                quantity=quantity,
                users=None if asks_all else self.users,
                dimensions=self.dimensions,
            )
            self._read[key] = reader.read(run)
        return self._read[key]


def _judge(question: Question, scale: Scale, margin: float, reads: Sequence[RunRead], looks: int) -> tuple[JudgedSegment, ...]:
    """Each wanted segment over all runs; the t-th look at a census may err with alpha / (t (t + 1))."""
    if not reads:
        return ()
    names = _wanted(question, list(dict.fromkeys(name for read in reads for name in read.segments)))
    samples = [_pool([read.segments.get(name, _NOBODY) for read in reads]) for name in names]
    share = share_of(question, looks)
    found = judge(samples, margin, question.alpha, share=share)
    return tuple(_segment(name, gated, scale, share) for name, gated in zip(names, found, strict=True))


def _wanted(question: Question, known: Sequence[str]) -> list[str]:
    unknown = [name for name in question.segments if name not in (*known, EACH)]
    each = [name for name in known if name != ALL]
    if unknown or (EACH in question.segments and not each):
        there_are = ", ".join(each) or "none: name dimensions under users.segments"
        asked = f"no segment {unknown[0]!r}" if unknown else "no segments"
        msg = f"{asked} in the runs of {question.comparison.name}; beside all there are {there_are}"
        raise InputError(msg)
    listed = [name for wanted in question.segments for name in (each if wanted == EACH else [wanted])]
    return list(dict.fromkeys(listed))


def _pool(parts: Sequence[SegmentOfRun]) -> Sample:
    return Sample(tally(np.concatenate([part.unit for part in parts])), sum(part.missing for part in parts))


def _run(read: RunRead) -> JudgedRun:
    whole = read.segments[ALL]
    users = len(whole.unit) + whole.missing
    return JudgedRun(run_id=read.run.id, slot=read.run.slot, users=users, missing=whole.missing, digest=read.digest)


def _segment(name: str, gated: Gated, scale: Scale, share: float) -> JudgedSegment:
    return JudgedSegment(
        segment=name,
        users=gated.n,
        missing=gated.missing,
        mean_best=_mean(gated.least, scale),
        mean_worst=_mean(gated.most, scale),
        low=scale.from_unit(gated.low),
        high=scale.from_unit(gated.high),
        evidence_safe=(gated.below + math.log(share)) / math.log(10),
        evidence_breach=(gated.above + math.log(share)) / math.log(10),
        verdict=gated.verdict,
        reason=gated.reason,
    )


def _mean(unit: float, scale: Scale) -> float | None:
    return None if math.isnan(unit) else scale.from_unit(unit)


def _nothing(question: Question, chosen: Chosen, left_out: Mapping[LeftOut, int]) -> str:
    return explain_nothing(question, Chosen(runs=(), left_out=left_out, trouble=chosen.trouble))
