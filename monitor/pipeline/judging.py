"""One run's findings held against the rules and against the past: what was expected, verdicts, states and transitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts import judge_run, name_incidents
from monitor.model import (
    ALL,
    AlertState,
    ArmScore,
    Comparison,
    Coverage,
    Expectation,
    PastRun,
    RunStatus,
    Summary,
    Transition,
)
from monitor.pipeline.covering import summarize_coverage
from monitor.pipeline.expecting import expect
from monitor.pipeline.freezing import watch_freezing
from monitor.pipeline.weighing import Scales


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a run found, as far as it got: all that it is judged by."""

    slot: datetime
    status: RunStatus
    reason: str | None
    coverage: Coverage | None
    summaries: Sequence[Summary]
    arm_scores: Sequence[ArmScore]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the rules that learn expected, the new state of every alert looked at, and the transitions in order."""

    expectations: tuple[Expectation, ...]
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]


def judge_findings(
    comparison: Comparison, found: Findings, past: Sequence[PastRun], states: Sequence[AlertState], at: datetime
) -> Judgement:
    """Judge a run at the time ``at``; ``past`` are ok runs of its configuration, oldest first, ``states`` those stored.

    The same arguments give the same answer.
    """
    seen = (*found.summaries, *summarize_coverage(found.coverage, comparison.rules))
    expectations = expect(comparison, found.slot, seen, past, states, lost=_count_lost(found.coverage)) if seen else ()
    if found.status is RunStatus.OK:
        expectations += watch_freezing(comparison, found.arm_scores, past)
    moved, transitions = judge_run(
        comparison,
        slot=found.slot,
        at=at,
        status=found.status,
        run_reason=found.reason,
        summaries=found.summaries,
        states=states,
        thin=thin_segments(found.coverage, comparison.min_paired_share),
        coverage=found.coverage,
        expectations=expectations,
        arm_scores=found.arm_scores,
    )
    named, told = name_incidents(moved, transitions, states, group_for=comparison.group_for)
    scales = Scales(comparison=comparison, summaries=found.summaries, expectations=expectations, past=past)
    return Judgement(expectations=expectations, states=named, transitions=scales.weigh(told))


def _count_lost(coverage: Coverage | None) -> dict[str, float]:
    """Share of the asked users that could not be compared, by segment."""
    return {row.segment: 1.0 - row.paired / row.asked for row in (coverage.rows if coverage else ()) if row.asked}


def thin_segments(coverage: Coverage | None, min_paired_share: float) -> dict[str, str]:
    """Segments of which too small a share was compared, with the figures: they are neither shown nor judged as the whole."""
    return {
        row.segment: f"{row.paired:,} of {row.asked:,} users, under min_paired_share {min_paired_share:.0%}"
        for row in (coverage.rows if coverage else ())
        if row.segment != ALL and row.paired < min_paired_share * row.asked
    }
