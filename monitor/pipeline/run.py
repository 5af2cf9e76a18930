"""One run, from the claimed slot to the result that is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.errors import SourceError
from monitor.model import (
    UNMEASURED,
    AlertState,
    Arm,
    ArmScore,
    Claim,
    Comparison,
    CoverageReason,
    DerivedMetric,
    KeptLists,
    MemoryScope,
    PastRun,
    RunResult,
    RunStatus,
    Scores,
    Split,
    Summary,
    parse_derived,
)
from monitor.pipeline.expectations import REMEMBERED, learning_rules
from monitor.pipeline.judgement import RECENT, Findings, judge_findings, needs_recent, thin_segments
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_explanation import HEALTHY_RUNS, add_explanations
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot, needs_last
from monitor.pipeline.score import relevance_metrics
from monitor.ports import Clock

_EXPLAINED_ELSEWHERE = (CoverageReason.SHORT, CoverageReason.DUPLICATED, CoverageReason.UNAVAILABLE)
"""Reasons that keep no list from being compared, and the one that the arm's own sentence explains."""


def execute(  # noqa: PLR0913 - what a run is judged by
    comparison: Comparison,
    arms: Arms,
    claim: Claim,
    states: Sequence[AlertState],
    clock: Clock,
    *,
    last: KeptLists | None = None,
    past: Sequence[PastRun] = (),
    splits: Sequence[Split] = (),
) -> RunResult:
    """Measure and judge one claimed slot. What goes wrong with sources is in the result, never an exception.

    ``states`` are the comparison's alert states as stored, ``last`` the lists of its last run, ``past`` its ok runs of this
    configuration, oldest first, ``splits`` what the healthy ones of them left to explain this one by. Running the same slot
    again over the same lists gives the same summaries; states that this slot has moved already stay as they are.
    """
    watch = Stopwatch(clock)
    try:
        measurement = measure_slot(comparison, arms, claim.slot, watch, last=last, splits=splits)
    except SourceError as error:
        return build_result(comparison, claim, states, clock, status=RunStatus.FAILED, reason=str(error), watch=watch)
    status, reason = assess(measurement, comparison.min_paired_share)
    return build_result(
        comparison, claim, states, clock, status=status, reason=reason, watch=watch, measurement=measurement, past=past
    )


def build_result(  # noqa: PLR0913 - the parts of a result
    comparison: Comparison,
    claim: Claim,
    states: Sequence[AlertState],
    clock: Clock,
    *,
    status: RunStatus,
    reason: str | None,
    watch: Stopwatch | None = None,
    measurement: Measurement | None = None,
    past: Sequence[PastRun] = (),
) -> RunResult:
    """Judge what was measured, or that nothing was, and put the result together."""
    at = clock.now()
    coverage = measurement.coverage if measurement else None
    thin = thin_segments(coverage, comparison.min_paired_share)
    is_measured = measurement is not None and status is not RunStatus.FAILED
    summaries = _summaries(measurement, thin) if measurement and is_measured else ()
    arm_scores = _of_arms(measurement, thin) if measurement and is_measured else ()
    found = Findings(
        slot=claim.slot, status=status, reason=reason, coverage=coverage, summaries=summaries, arm_scores=arm_scores
    )
    judgement = judge_findings(comparison, found, past, states, at)
    is_ok = measurement is not None and status is RunStatus.OK
    explained = measurement.explained if measurement and is_ok else None
    explanation = explained.explanation if explained else None
    lists = _without(measurement.lists, thin) if measurement and is_ok else None
    return RunResult(
        claim=claim,
        status=status,
        reason=reason,
        finished_at=at,
        config_hash=comparison.config_hash,
        k=comparison.k,
        coverage=coverage,
        summaries=summaries,
        scores=_kept_scores(comparison, measurement) if measurement else None,
        evidence=measurement.evidence if measurement else (),
        states=judgement.states,
        transitions=add_explanations(judgement.transitions, explanation),
        stage_seconds=watch.seconds if watch else {},
        arm_scores=arm_scores,
        catalogue_size=measurement.catalogue_size if measurement else None,
        lists=lists,
        labels_until=_labels_until(comparison, claim) if is_ok else None,
        expectations=judgement.expectations,
        split=explained.split if explained else None,
        explanation=explanation,
        pull_seconds=measurement.pull_seconds if measurement else {},
        is_labelled=is_ok and measurement.is_labelled if measurement else False,
    )


def _summaries(measurement: Measurement, thin: Mapping[str, str]) -> tuple[Summary, ...]:
    return tuple(summary for summary in measurement.summaries if summary.segment not in thin)


def _kept_scores(comparison: Comparison, measurement: Measurement) -> Scores | None:
    """The scores to be stored: without the floor's own, which is the score and what the candidate lies beyond it."""
    scores = measurement.scores
    if not comparison.keep_scores or not len(scores.users):
        return None
    kept = {name: values for name, values in scores.by_metric.items() if parse_derived(name)[0] is not DerivedMetric.FLOOR}
    return replace(scores, by_metric=kept)


def _of_arms(measurement: Measurement, thin: Mapping[str, str]) -> tuple[ArmScore, ...]:
    return tuple(score for score in measurement.arm_scores if score.segment not in thin)


def _without(lists: KeptLists | None, thin: Mapping[str, str]) -> KeptLists | None:
    """The lists without the segments of which too little was compared: they are not to be measured later either."""
    if lists is None:
        return None
    return replace(lists, segments={name: rows for name, rows in lists.segments.items() if name not in thin})


def _labels_until(comparison: Comparison, claim: Claim) -> datetime | None:
    """Until when relevance is waited for, None where nothing needs it."""
    within = comparison.relevance_within
    return claim.slot + within if within is not None and relevance_metrics(comparison) else None


def assess(measurement: Measurement, min_paired_share: float) -> tuple[RunStatus, str | None]:
    """Whether enough of the panel was compared to speak of similarity; if not, why in words, and if so, what was left out."""
    whole = measurement.coverage.all
    if whole.paired > 0 and whole.paired >= min_paired_share * whole.asked:
        return RunStatus.OK, "; ".join(measurement.left_out) or None
    obstacles = "; ".join([*measurement.troubles, *_obstacles(measurement)])
    if whole.paired == 0:
        return RunStatus.FAILED, f"none of {whole.asked:,} users could be compared ({obstacles})"
    share = whole.paired / whole.asked
    return RunStatus.INSUFFICIENT, (
        f"only {whole.paired:,} of {whole.asked:,} users ({share:.0%}) could be compared, "
        f"under min_paired_share {min_paired_share:.0%} ({obstacles})"
    )


def _obstacles(measurement: Measurement) -> list[str]:
    """``candidate: 188 timeout (no answer within 5 s), 12 empty`` for each arm that had failures, the largest first."""
    by_arm: dict[Arm, Counter[CoverageReason]] = {}
    for (arm, reason), count in measurement.coverage.all.reasons.items():
        if reason not in _EXPLAINED_ELSEWHERE:
            by_arm.setdefault(arm, Counter())[reason] += count
    return [
        f"{arm}: " + ", ".join(f"{count:,} {reason}{_note(measurement, arm, reason)}" for reason, count in counts.most_common())
        for arm, counts in by_arm.items()
    ]


def _note(measurement: Measurement, arm: Arm, reason: CoverageReason) -> str:
    note = measurement.notes.get((arm, reason))
    return f" ({note})" if note else ""


def memory_scope(comparison: Comparison) -> MemoryScope:
    """How much of the past a run of the comparison needs.

    The runs that rules learn from, where any does, else the few that show what was normal.
    """
    rules, limit = learning_rules(comparison), REMEMBERED
    if needs_recent(comparison):
        rules, limit = tuple(rule for rule in comparison.rules if rule.metric not in UNMEASURED), RECENT
    return MemoryScope(
        config_hash=comparison.config_hash,
        rules=tuple(rules),
        past_runs=limit,
        splits=HEALTHY_RUNS,
        last_lists=needs_last(comparison),
    )
