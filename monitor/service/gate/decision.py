"""Decides on a rollout: judges stored runs, and returns a certificate.

The certificate contains everything that the answer depends on. The same data give the same
certificate.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from monitor import __version__
from monitor.model.errors import InputError
from monitor.model.gate import GateReason, GateResult, GateVerdict, LeftOut
from monitor.model.immutable import immutable
from monitor.model.ports import Clock
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison
from monitor.model.runs import Watermark
from monitor.service.gate.question import (
    EACH,
    DrawnRun,
    DrawnSegment,
    Question,
    RunSelection,
    UsersAt,
    make_question,
    read_run,
    select_runs,
)
from monitor.settings.configuration import Settings
from monitor.sources import open_users
from monitor.statistics.sequential.gate import DrawnUsers, count_scores, judge_gate
from monitor.storage.run_history import SqlHistory
from monitor.texts.gate import write_census, write_no_runs, write_verdict

_CACHED_S = 600
_MOST_CACHED = 32
_NOBODY = DrawnSegment(unit=np.empty(0), missing=0)


@immutable
class JudgedRun:
    """A judged run: its number of randomly drawn users, and how many of them have no score."""

    run_id: int
    slot: datetime
    users: int
    missing: int


@immutable
class Certificate:
    """A question, the runs that were judged, and the verdict.

    ``looks`` is the number of judged runs if each run asks the same users. Otherwise it is 1.
    """

    question: Question
    runs: tuple[JudgedRun, ...]
    left_out: Mapping[LeftOut, int]
    looks: int
    segments: tuple[GateResult, ...]
    verdict: GateVerdict
    reason: GateReason
    sentence: str
    version: str
    at: datetime
    # How the result developed: ``segments`` as they were after some of the slots.
    course: Mapping[datetime, tuple[GateResult, ...]]

    @property
    def level(self) -> float:
        """The accepted probability of a wrong verdict at this look, for each side."""
        return self.question.alpha * alpha_share(self.question, self.looks)


def alpha_share(question: Question, looks: int) -> float:
    """Return the share of alpha that this look uses.

    The share is 1 if each run draws new users. If every run asks the same users, look t uses the
    share 1 / (t (t + 1)), so that all looks together use 1.
    """
    if not question.is_census:
        return 1.0
    return 1.0 / (looks * (looks + 1))


def overall_verdict(segments: Sequence[GateResult]) -> tuple[GateVerdict, GateReason]:
    """Return ``breach`` if any segment is above the margin, and ``safe`` if all are below it.

    In all other cases, and without segments, the verdict is inconclusive.
    """
    if not segments:
        return GateVerdict.INCONCLUSIVE, GateReason.NO_DATA
    verdicts = {result.verdict for result in segments}
    if GateVerdict.BREACH in verdicts:
        return GateVerdict.BREACH, GateReason.DECIDED
    if verdicts == {GateVerdict.SAFE}:
        return GateVerdict.SAFE, GateReason.DECIDED
    if any(result.reason is GateReason.NO_DATA for result in segments):
        return GateVerdict.INCONCLUSIVE, GateReason.NO_DATA
    return GateVerdict.INCONCLUSIVE, GateReason.TOO_FEW


def decide_gate(
    history: SqlHistory,
    settings: Settings,
    question: Question,
    clock: Clock,
    *,
    most_looks: int = 0,
) -> Certificate:
    """Answer the question from the stored runs, see `judge_stored`.

    If the question needs segments, they are read from the source of users.
    """
    users_at = None
    if question.needs_panel:
        options = settings.comparisons_by_name[question.comparison.name]
        source = open_users(options.users, options.baseline)
        users_at = partial(source.users, dimensions=tuple(options.users.segments))
    return judge_stored(history, question, clock, users_at, most_looks=most_looks)


def judge_stored(
    history: SqlHistory,
    question: Question,
    clock: Clock,
    users_at: UsersAt | None,
    *,
    most_looks: int = 0,
) -> Certificate:
    """Judge the stored runs, and return the certificate.

    ``users_at`` returns all users at a slot with their segments. It is needed for runs without
    stored lists if the question `needs_panel`. The ``course`` of the certificate has at most
    ``most_looks`` entries.

    Raises InputError for a segment that no run has, and for scores out of range.
    """
    selected = select_runs(history, question)
    sampled, left_out = _read_runs(selected, history, question, users_at)
    looks = 1
    if question.is_census:
        # Every run asks the same users, so each run is one more look at these users.
        looks = max(len(selected.runs), 1)
    segments: tuple[GateResult, ...] = ()
    course = {}
    if sampled:
        names = _segment_names(question, sampled)
        segments = _judge_runs(question, sampled, names, looks)
        # Judge again as if only the runs up to some slot were stored, at ``most_looks`` slots.
        ends = {math.ceil(len(sampled) * step / most_looks) for step in range(1, most_looks + 1)}
        for end in sorted(ends):
            course[sampled[end - 1].run.slot] = _judge_runs(question, sampled[:end], names, looks)
    verdict, reason = overall_verdict(segments)
    if segments:
        sentence = write_verdict(verdict, segments, question.margin, is_census=question.is_census)
        if verdict is not GateVerdict.INCONCLUSIVE and question.fixed_users is not None:
            census = write_census(question.fixed_users)
            sentence += f"; {census}: the verdict is about these users"
    else:
        name = question.comparison.name
        sentence = write_no_runs(name, question.since, left_out, selected.failure)
    return Certificate(
        question=question,
        runs=tuple(map(_judged_run, sampled)),
        left_out=left_out,
        looks=looks,
        segments=segments,
        verdict=verdict,
        reason=reason,
        sentence=sentence,
        version=__version__,
        at=clock.now(),
        course=course,
    )


def _read_runs(
    selected: RunSelection, history: SqlHistory, question: Question, users_at: UsersAt | None
) -> tuple[tuple[DrawnRun, ...], Mapping[LeftOut, int]]:
    """Read the drawn users of the selected runs, oldest run first.

    Also return how many runs are left out for which reason.
    """
    sampled: list[DrawnRun] = []
    unscored = 0
    for run in reversed(selected.runs):
        sample = read_run(run, history, question, users_at)
        if sample is None:
            unscored += 1
            continue
        sampled.append(sample)
        if question.is_census:  # all runs ask the same users, so the newest run is enough
            break
    left_out = dict(selected.left_out)
    if unscored:
        left_out[LeftOut.NO_SCORES] = unscored
    older = len(selected.runs) - unscored - len(sampled)
    if older:
        left_out[LeftOut.NOT_THE_NEWEST] = older
    return tuple(reversed(sampled)), left_out


def _judge_runs(
    question: Question, runs: Sequence[DrawnRun], names: Sequence[str], looks: int
) -> tuple[GateResult, ...]:
    """Judge the users of all these runs together, in each of the named segments."""
    drawn = {}
    for name in names:
        parts = [run.segments.get(name, _NOBODY) for run in runs]
        excesses = np.concatenate([part.unit for part in parts])
        drawn[name] = DrawnUsers(count_scores(excesses), sum(part.missing for part in parts))
    share = alpha_share(question, looks)
    return judge_gate(drawn, question.excess.scale, question.margin, question.alpha, share=share)


def _segment_names(question: Question, sampled: Sequence[DrawnRun]) -> list[str]:
    """Return the segments to judge. Raises InputError for a segment that no run has."""
    stored: dict[str, None] = {}
    for run in sampled:
        stored |= dict.fromkeys(run.segments)
    named = [name for name in stored if name != ALL]
    unknown = [name for name in question.segments if name not in (*stored, EACH)]
    missing = None
    if unknown:
        missing = f"no segment {unknown[0]!r}"
    elif EACH in question.segments and not named:
        missing = "no segments"
    if missing is not None:
        names = ", ".join(named) or "none: set dimensions under users.segments"
        raise InputError(
            f"{missing} in the runs of {question.comparison.name}. Segments other than all: {names}"
        )
    chosen: list[str] = []
    for name in question.segments:
        chosen += named if name == EACH else [name]
    return list(dict.fromkeys(chosen))


def _judged_run(sampled: DrawnRun) -> JudgedRun:
    all_users = sampled.segments[ALL]
    return JudgedRun(
        run_id=sampled.run.id,
        slot=sampled.run.slot,
        users=len(all_users.unit) + all_users.missing,
        missing=all_users.missing,
    )


def describe_certificate(certificate: Certificate) -> dict[str, object]:
    """Return the certificate as JSON, for files, the command and the pages."""
    question = certificate.question
    excess = question.excess
    design = "rotating"
    if question.is_census:
        design = "fixed" if question.comparison.measuring.sample else "census"
    return {
        "comparison": question.comparison.name,
        "verdict": certificate.verdict,
        "reason": certificate.reason,
        "sentence": certificate.sentence,
        "looks": certificate.looks,
        "left_out": certificate.left_out,
        "version": certificate.version,
        "at": certificate.at,
        "metric": str(question.metric),
        "margin": question.margin,
        "alpha": question.alpha,
        "since": question.since,
        "yardstick": excess.yardstick,
        "series": excess.series,
        "reference": excess.reference,
        "low": excess.scale.low,
        "high": excess.scale.high,
        "design": design,
        "config_hash": question.comparison.config_hash,
        "users": sum(run.users for run in certificate.runs),
        "missing": sum(run.missing for run in certificate.runs),
        "judged_runs": [asdict(run) for run in certificate.runs],
        "by_segment": [_segment_dict(result, certificate.level) for result in certificate.segments],
    }


def _segment_dict(result: GateResult, level: float) -> dict[str, object]:
    """Return the JSON of one segment. ``level`` is the accepted probability for each side."""
    return {
        "segment": result.segment,
        "verdict": result.verdict,
        "reason": result.reason,
        "users": result.users,
        "missing": result.missing,
        "mean_best": result.mean_best,
        "mean_worst": result.mean_worst,
        "confidence_sequence": {"low": result.low, "high": result.high, "alpha_each_side": level},
        "log10_e_value": {"safe": result.evidence_safe, "breach": result.evidence_breach},
    }


@dataclass(slots=True)
class GateAnswers:
    """Answers questions, and caches the certificates.

    A newer run leads to a new certificate at once. If an older run changes, the cached certificate
    may be used for ten more minutes.
    """

    history: SqlHistory
    clock: Clock
    _judging: Lock = field(default_factory=Lock)
    _answers: dict[tuple[object, ...], Mapping[str, object]] = field(default_factory=dict)

    def answer(
        self,
        settings: Settings,
        comparisons: Mapping[str, Comparison],
        name: str,
        options: Mapping[str, Any],
    ) -> Mapping[str, object]:
        """Return the certificate as JSON.

        Raises ConfigError or InputError if the question has no answer.
        """
        now = self.clock.now()
        question = make_question(comparisons, name, **options)
        _, watermark = self.history.changes([name], Watermark(), until=now)
        key = (
            name,
            question.comparison.config_hash,
            watermark.runs.get(name),
            now.timestamp() // _CACHED_S,
            *options.values(),
        )
        answer = self._answers.get(key)
        if answer is None:
            with self._judging:
                answer = self._answers.get(key)  # another thread may have stored it
                if answer is None:
                    certificate = decide_gate(self.history, settings, question, self.clock)
                    answer = describe_certificate(certificate)
                answers = [*self._answers.items(), (key, answer)]
                self._answers = dict(answers[-_MOST_CACHED:])
        return answer
