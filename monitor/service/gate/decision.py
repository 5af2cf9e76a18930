"""The gate itself: from stored runs to a certificate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np

from monitor import __version__
from monitor.errors import InputError
from monitor.model import ALL
from monitor.ports import Clock, History
from monitor.sequential import GateResult, UserSample, gate_samples, tally
from monitor.service.clock import SystemClock
from monitor.service.gate.certificate import (
    Certificate,
    JudgedRun,
    alpha_share,
    explain_no_runs,
    explain_verdict,
    overall_verdict,
)
from monitor.service.gate.judged_runs import LeftOut, RunSelection, SampledRun, SampledSegment, UsersAt, read_run, select_runs
from monitor.service.gate.question import EACH, Question
from monitor.settings.configuration import Settings
from monitor.sources import open_users
from monitor.storage import opened_store

_NOBODY = SampledSegment(unit=np.empty(0), missing=0)


def decide(settings: Settings, question: Question, *, most_looks: int = 0) -> Certificate:
    """Answer the question by what is stored now, see `judge_stored`."""
    options = next(each for each in settings.comparisons if each.name == question.comparison.name)
    with opened_store(settings.database) as store:
        judge = partial(judge_stored, store.history, question, SystemClock(), most_looks=most_looks)
        if question.segments == (ALL,):
            return judge()
        with closing(open_users(options.users, options.baseline)) as users:
            return judge(lambda slot: users.users(slot, tuple(options.users.segments)))


def judge_stored(
    history: History, question: Question, clock: Clock, users: UsersAt | None = None, *, most_looks: int = 0
) -> Certificate:
    """The certificate. InputError for a segment that no run has, and for scores out of their range.

    ``users`` give the segments of runs whose lists were not kept: None where only ``all`` is asked for. ``most_looks``: how
    many looks, evenly among the runs, the certificate's course has at most.
    """
    selected = select_runs(history, question)
    sampled, left_out = _sample(selected, history, question, users)
    # Runs of a census, and those of a fixed sample, ask the same users: each is another look at them.
    looks = max(len(selected.runs), 1) if question.is_census else 1
    names = _wanted(question, list(dict.fromkeys(name for run in sampled for name in run.segments))) if sampled else []
    segments = _judge(question, sampled, names, looks)
    ends = {-(-len(sampled) * step // most_looks) for step in range(1, most_looks + 1)} if sampled else ()
    verdict, reason = overall_verdict(segments)
    return Certificate(
        question=question,
        runs=tuple(map(_run, sampled)),
        left_out=left_out,
        looks=looks,
        segments=segments,
        verdict=verdict,
        reason=reason,
        words=explain_verdict(question, verdict, segments)
        if segments
        else explain_no_runs(question, left_out, selected.trouble),
        version=__version__,
        at=clock.now(),
        course={sampled[end - 1].run.slot: _judge(question, sampled[:end], names, looks) for end in sorted(ends)},
    )


def _sample(
    selected: RunSelection, history: History, question: Question, users: UsersAt | None
) -> tuple[tuple[SampledRun, ...], Mapping[LeftOut, int]]:
    found: list[SampledRun] = []
    without = 0
    for run in reversed(selected.runs):
        if (sampled := read_run(run, history, question, users)) is None:
            without += 1
            continue
        found.append(sampled)
        if question.is_census:  # the older ones asked the same users: they add nothing
            break
    more = {LeftOut.NO_SCORES: without, LeftOut.NOT_THE_NEWEST: len(selected.runs) - without - len(found)}
    return tuple(reversed(found)), {**selected.left_out, **{reason: count for reason, count in more.items() if count}}


def _judge(question: Question, runs: Sequence[SampledRun], names: Sequence[str], looks: int) -> tuple[GateResult, ...]:
    if not runs:
        return ()
    parts = {name: [run.segments.get(name, _NOBODY) for run in runs] for name in names}
    samples = {
        name: UserSample(tally(np.concatenate([one.unit for one in part])), sum(one.missing for one in part))
        for name, part in parts.items()
    }
    # The t-th look at a census may err with alpha / (t (t + 1)), so that all looks together err with alpha at most.
    share = alpha_share(question, looks)
    return gate_samples(samples, question.excess.scale, question.margin, question.alpha, share=share)


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


def _run(sampled: SampledRun) -> JudgedRun:
    whole = sampled.segments[ALL]
    users = len(whole.unit) + whole.missing
    return JudgedRun(run_id=sampled.run.id, slot=sampled.run.slot, users=users, missing=whole.missing)
