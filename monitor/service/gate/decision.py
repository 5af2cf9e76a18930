"""The gate itself: from stored runs to a certificate of all that the answer rests on, the same for the same data."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from monitor import __version__
from monitor.errors import InputError
from monitor.model.comparison import Comparison
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL
from monitor.model.runs import Watermark
from monitor.ports import Clock, History
from monitor.sequential.gate import (
    GateReason,
    GateResult,
    GateVerdict,
    UserSample,
    gate_samples,
    tally,
)
from monitor.service.gate.judged_runs import (
    LEFT_OUT_TEXTS,
    LeftOut,
    RunSelection,
    SampledRun,
    SampledSegment,
    UsersAt,
    read_run,
    select_runs,
)
from monitor.service.gate.question import EACH, Question, make_question
from monitor.settings.configuration import Settings
from monitor.sources import open_users

_NAMED = 5
_KEPT_S, _MOST_KEPT = 600, 32
_NOBODY = SampledSegment(unit=np.empty(0), missing=0)


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
    course: Mapping[datetime, tuple[GateResult, ...]] = field(
        default_factory=dict
    )  # ``segments`` as of some slots

    @property
    def level(self) -> float:
        """The part of alpha that this look may take on each side."""
        return self.question.alpha * alpha_share(self.question, self.looks)


def alpha_share(question: Question, looks: int) -> float:
    """1 for a sample, whose looks share one alpha.

    1 / (t (t + 1)) for the t-th look at a census, which sum to 1.
    """
    return 1.0 / (looks * (looks + 1)) if question.is_census else 1.0


def overall_verdict(segments: Sequence[GateResult]) -> tuple[GateVerdict, GateReason]:
    """``breach`` where any segment is beyond the margin, ``safe`` where all are below it.

    Without segments nothing is known.
    """
    if not segments:
        return GateVerdict.INCONCLUSIVE, GateReason.NO_DATA
    verdicts = {each.verdict for each in segments}
    if GateVerdict.BREACH in verdicts:
        return GateVerdict.BREACH, GateReason.DECIDED
    if verdicts == {GateVerdict.SAFE}:
        return GateVerdict.SAFE, GateReason.DECIDED
    reasons = {each.reason for each in segments}
    return (
        GateVerdict.INCONCLUSIVE,
        GateReason.NO_DATA if GateReason.NO_DATA in reasons else GateReason.TOO_FEW,
    )


def explain_verdict(
    question: Question, verdict: GateVerdict, segments: Sequence[GateResult]
) -> str:
    """Why this verdict, with the figures of the segments that led to it."""
    if verdict is GateVerdict.INCONCLUSIVE:
        worst = next((each for each in segments if each.reason is GateReason.NO_DATA), None)
        open_one = worst or next(
            each for each in segments if each.verdict is GateVerdict.INCONCLUSIVE
        )
        return _open(question.margin, open_one)
    named = [each for each in segments if each.verdict is verdict]
    panel = (
        f"; {question.census}: this is about them"
        if question.is_census and question.comparison.measuring.sample
        else ""
    )
    texts = "; ".join(_decided(question.margin, each) for each in named[:_NAMED])
    return (
        texts
        + (f"; and {len(named) - _NAMED} more segments" if len(named) > _NAMED else "")
        + panel
    )


def explain_no_runs(
    question: Question, left_out: Mapping[LeftOut, int], trouble: str | None
) -> str:
    """Why there was no run to judge; ``trouble``: why the newest bad run was bad."""
    since = f" since {format_instant(question.since)}" if question.since else ""
    reasons = ", ".join(f"{count:,} {LEFT_OUT_TEXTS[reason]}" for reason, count in left_out.items())
    newest = f" (the newest: {trouble})" if trouble else ""
    return f"no run of {question.comparison.name}{since} can be judged" + (
        f": {reasons}{newest}" if reasons else ": none is stored yet"
    )


def _decided(margin: float, each: GateResult) -> str:
    if each.verdict is GateVerdict.SAFE:
        return (
            f"{_prefix(each)}the mean excess is below {margin:g}: at most {each.high:.4g} "
            f"over {each.users:,} users"
        )
    return (
        f"{_prefix(each)}the mean excess is above {margin:g}: at least {each.low:.4g} over "
        f"{each.users:,} users"
    )


def _open(margin: float, each: GateResult) -> str:
    if each.users == each.missing:
        asked = (
            f"none of {each.users:,} users drawn has a score" if each.users else "no user was drawn"
        )
        return f"{_prefix(each)}{asked}"
    if each.reason is GateReason.NO_DATA:
        return (
            f"{_prefix(each)}{each.missing:,} of {each.users:,} users have no score, and that "
            f"decides: the mean excess is {each.mean_best:.4g} with the best for them and "
            f"{each.mean_worst:.4g} with the worst, against {margin:g}"
        )
    return (
        f"{_prefix(each)}{each.users:,} users leave both open: the mean excess lies between "
        f"{each.low:.4g} and {each.high:.4g}, and {margin:g} between these; more runs will decide"
    )


def _prefix(each: GateResult) -> str:
    return "" if each.segment == "all" else f"{each.segment}: "


def decide(
    history: History, settings: Settings, question: Question, clock: Clock, *, most_looks: int = 0
) -> Certificate:
    """Answer the question by what is stored now, see `judge_stored`.

    The source of users is asked for segments.
    """
    judge = partial(judge_stored, history, question, clock, most_looks=most_looks)
    if not question.needs_panel:
        return judge()
    options = next(each for each in settings.comparisons if each.name == question.comparison.name)
    users = open_users(options.users, options.baseline)
    return judge(lambda slot: users.users(slot, tuple(options.users.segments)))


def judge_stored(
    history: History,
    question: Question,
    clock: Clock,
    users: UsersAt | None = None,
    *,
    most_looks: int = 0,
) -> Certificate:
    """The certificate. InputError for a segment that no run has, and for scores out of their range.

    ``users`` give the segments of runs whose lists were not kept, if it `needs_panel`;
    ``most_looks`` are shown of its course."""
    selected = select_runs(history, question)
    sampled, left_out = _sample(selected, history, question, users)
    # Runs of a census, and those of a fixed sample, ask the same users: each is another look at
    # them.
    looks = max(len(selected.runs), 1) if question.is_census else 1
    names = (
        _wanted(question, list(dict.fromkeys(name for run in sampled for name in run.segments)))
        if sampled
        else []
    )
    segments = _judge(question, sampled, names, looks)
    ends = (
        {-(-len(sampled) * step // most_looks) for step in range(1, most_looks + 1)}
        if sampled
        else ()
    )
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
        course={
            sampled[end - 1].run.slot: _judge(question, sampled[:end], names, looks)
            for end in sorted(ends)
        },
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
    more = {
        LeftOut.NO_SCORES: without,
        LeftOut.NOT_THE_NEWEST: len(selected.runs) - without - len(found),
    }
    return tuple(reversed(found)), {
        **selected.left_out,
        **{reason: count for reason, count in more.items() if count},
    }


def _judge(
    question: Question, runs: Sequence[SampledRun], names: Sequence[str], looks: int
) -> tuple[GateResult, ...]:
    if not runs:
        return ()
    parts = {name: [run.segments.get(name, _NOBODY) for run in runs] for name in names}
    samples = {
        name: UserSample(
            tally(np.concatenate([one.unit for one in part])), sum(one.missing for one in part)
        )
        for name, part in parts.items()
    }
    # The t-th look at a census may err with alpha / (t (t + 1)), so that all looks together err
    # with alpha at most.
    share = alpha_share(question, looks)
    return gate_samples(
        samples, question.excess.scale, question.margin, question.alpha, share=share
    )


def _wanted(question: Question, known: Sequence[str]) -> list[str]:
    unknown = [name for name in question.segments if name not in (*known, EACH)]
    each = [name for name in known if name != ALL]
    if unknown or (EACH in question.segments and not each):
        there_are = ", ".join(each) or "none: name dimensions under users.segments"
        asked = f"no segment {unknown[0]!r}" if unknown else "no segments"
        raise InputError(
            f"{asked} in the runs of {question.comparison.name}; beside all there are {there_are}"
        )
    listed = [
        name for wanted in question.segments for name in (each if wanted == EACH else [wanted])
    ]
    return list(dict.fromkeys(listed))


def _run(sampled: SampledRun) -> JudgedRun:
    whole = sampled.segments[ALL]
    users = len(whole.unit) + whole.missing
    return JudgedRun(
        run_id=sampled.run.id, slot=sampled.run.slot, users=users, missing=whole.missing
    )


def describe_certificate(found: Certificate) -> dict[str, object]:
    """The certificate as JSON has it, for files, the command and the pages."""
    question, excess = found.question, found.question.excess
    return {
        "comparison": question.comparison.name,
        **{
            name: getattr(found, name)
            for name in ("verdict", "reason", "words", "looks", "left_out", "version", "at")
        },
        "metric": str(question.metric),
        **{name: getattr(question, name) for name in ("margin", "alpha", "since")},
        "judged": excess.yardstick,
        **{name: getattr(excess, name) for name in ("series", "reference")},
        "range": [excess.scale.low, excess.scale.high],
        "design": "rotating"
        if not question.is_census
        else "fixed"
        if question.comparison.measuring.sample
        else "census",
        "config_hash": question.comparison.config_hash,
        **{name: sum(getattr(run, name) for run in found.runs) for name in ("users", "missing")},
        "runs": [asdict(run) for run in found.runs],
        "segments": [_segment_dict(each, found.level) for each in found.segments],
    }


def _segment_dict(each: GateResult, level: float) -> dict[str, object]:
    return {
        **{
            name: getattr(each, name)
            for name in ("segment", "verdict", "reason", "users", "missing")
        },
        "mean": {"missing_at_best": each.mean_best, "missing_at_worst": each.mean_worst},
        "confidence_sequence": {"low": each.low, "high": each.high, "alpha_each_side": level},
        "log10_e_value": {"safe": each.evidence_safe, "breach": each.evidence_breach},
    }


class GateAnswers:
    """Certificates by question under the settings in force, until a newer run.

    Older runs' changes are seen in ten minutes.
    """

    def __init__(self, history: History, clock: Clock, settings: Callable[[], Settings]) -> None:
        self._history, self._clock, self._settings = history, clock, settings
        self._judging = Lock()
        self._kept: dict[tuple[object, ...], Mapping[str, object]] = {}

    def __call__(
        self, comparisons: Mapping[str, Comparison], name: str, asked: Mapping[str, Any]
    ) -> Mapping[str, object]:
        """The certificate as JSON has it.

        ConfigError or InputError for a question that can have no answer.
        """
        settings, now = self._settings(), self._clock.now()
        question = make_question(comparisons, name, **asked)
        newest = self._history.changes([name], Watermark(), until=now)[1].runs.get(name)
        key = (
            name,
            question.comparison.config_hash,
            newest,
            now.timestamp() // _KEPT_S,
            *asked.values(),
        )
        if (found := self._kept.get(key)) is None:
            with self._judging:
                found = self._kept.get(key) or describe_certificate(
                    decide(self._history, settings, question, self._clock)
                )
                self._kept = {**dict(list(self._kept.items())[1 - _MOST_KEPT :]), key: found}
        return found
