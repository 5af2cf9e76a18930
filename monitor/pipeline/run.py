"""Executes one run: measures and judges a claimed slot, and makes the result to store."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from monitor.alerts.rule_evaluation import thin_segments
from monitor.model.errors import SourceError
from monitor.model.explanation import Explanation
from monitor.model.immutable import extend
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.ports import Clock
from monitor.model.rules import Comparison, Keep, MeasuringPlan, SeriesRule, judged_series
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import Claim, MeasuredRun, RunResult, RunStatus
from monitor.pipeline.alert_explanations import (
    add_explanations,
    choose_explanation,
    leave_out_weak_cause,
    prefer_similarity_finding,
)
from monitor.pipeline.expectations import (
    REMEMBERED_RUNS,
    learning_rules,
    messages_need_earlier_runs,
)
from monitor.pipeline.judgement import AVERAGED_RUNS, judge_run
from monitor.pipeline.pull import ComparisonSources
from monitor.pipeline.run_assessment import add_last_ok, assess_run
from monitor.pipeline.run_explanation import HEALTHY_RUNS
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.run_scores import RunScores, select_stored, write_scores
from monitor.pipeline.score import relevance_metrics
from monitor.pipeline.stopwatch import Stopwatch
from monitor.texts.model_versions import write_changes
from monitor.texts.run_reasons import write_run_reasons


def memory_request(comparison: Comparison, slot: datetime) -> MemoryRequest:
    """Return what a run of the slot needs from earlier runs, mostly for rules that learn."""
    rules = learning_rules(comparison)
    runs = REMEMBERED_RUNS if rules else 0
    if messages_need_earlier_runs(comparison):
        # There are no `learning_rules`, so only messages need earlier runs. They average the
        # summaries of the last few runs.
        rules = comparison.judging.similarity_rules
        runs = AVERAGED_RUNS
    return MemoryRequest(
        comparison=comparison.name,
        config_hash=comparison.config_hash,
        before=slot,
        runs=runs,
        series={rule.alert: judged_series(rule) for rule in rules if isinstance(rule, SeriesRule)},
        splits=HEALTHY_RUNS,  # the runs with which an explanation compares this run
        wants_last_lists=comparison.measuring.keep_lists is not Keep.NONE,
        k=comparison.measuring.k,
        wants_last_unpaired=comparison.measuring.unpaired is not None,
    )


def execute(
    comparison: Comparison,
    sources: ComparisonSources,
    claim: Claim,
    memory: Memory,
    clock: Clock,
    scores: RunScores | None = None,
) -> RunResult:
    """Measure and judge one claimed slot.

    If a source fails, the result says so, and no exception is raised.

    ``scores`` collects the users' scores. The caller closes it after the result was stored. Without
    it, the users' scores stay in memory. Raises OutputError if ``scores`` cannot store them.

    If a slot is run again with the same lists, the summaries are the same, and there are no further
    transitions.
    """
    stopwatch = Stopwatch(clock)
    try:
        measurement = measure_slot(
            comparison, sources, claim.slot, memory, stopwatch, scores=scores
        )
    except SourceError as error:
        return failed_result(
            comparison,
            claim,
            memory,
            clock,
            error_text=sources.error_text(error),
            stage_seconds=stopwatch.seconds,
        )
    run = measurement.run
    status, reasons = assess_run(comparison, measurement, memory)
    if sources.scores_to is not None:
        with stopwatch.stage("write"):
            write_error = write_scores(comparison, sources.scores_to, claim, status, run.scores)
        if write_error is not None:
            reasons = (*reasons, RunReason(kind=RunReasonKind.LEFT_OUT, text=write_error))
    run = replace(
        run,
        status=status,
        reasons=reasons,
        scores=select_stored(comparison, run.scores),
        stage_seconds=stopwatch.seconds,
    )
    return _make_result(comparison, claim, memory, clock.now(), _keep_storable(comparison, run))


def failed_result(
    comparison: Comparison,
    claim: Claim,
    memory: Memory,
    clock: Clock,
    *,
    error_text: str,
    stage_seconds: Mapping[str, float] | None = None,
) -> RunResult:
    """Make the result of a failed run that measured nothing."""
    error = RunReason(kind=RunReasonKind.ERROR, text=error_text)
    measured = MeasuredRun(
        slot=claim.slot,
        status=RunStatus.FAILED,
        reasons=add_last_ok((error,), memory),
        stage_seconds=stage_seconds or {},
    )
    return _make_result(comparison, claim, memory, clock.now(), measured)


def _make_result(
    comparison: Comparison,
    claim: Claim,
    memory: Memory,
    at: datetime,
    measured: MeasuredRun,
) -> RunResult:
    """Judge the measured run at the time ``at``, explain its alerts, and return its result."""
    k = comparison.measuring.k
    labels_until = _find_labels_until(comparison.measuring, measured)
    judgement = judge_run(comparison, measured, memory, at)
    explanation = measured.explanation
    alert_starts = [change for change in judgement.transitions if change.is_start]
    if alert_starts:
        explanation = choose_explanation(explanation, memory.earlier_explanations, alert_starts)
        explanation = prefer_similarity_finding(explanation, alert_starts)
        explanation = leave_out_weak_cause(explanation, alert_starts)
        explanation = _keep_titles(explanation, measured.explanation)
    reasons = measured.reasons
    if memory.last_ok is not None:
        changes = write_changes(
            memory.last_ok, measured.slot, comparison.config_hash, k, measured.models
        )
        change_reasons = [RunReason(kind=RunReasonKind.CHANGED, text=change) for change in changes]
        reasons = (*reasons, *change_reasons)
    # The run stores the explanation with its items, but messages may not show items.
    shown_explanation = explanation
    if explanation is not None and not comparison.judging.shows_items:
        shown_explanation = explanation.without_items
    return extend(
        RunResult,
        replace(measured, explanation=explanation, reasons=reasons),
        claim=claim,
        reason=write_run_reasons(reasons) or None,
        finished_at=at,
        config_hash=comparison.config_hash,
        k=k,
        states=judgement.states,
        transitions=add_explanations(judgement.transitions, shown_explanation, measured),
        expectations=judgement.expectations,
        standstills=judgement.standstills,
        labels_until=labels_until,
    )


def _keep_titles(
    explanation: Explanation | None, current: Explanation | None
) -> Explanation | None:
    """Return the explanation with titles for its examples.

    Without examples of its own, messages show users of this run, which ``current`` explains.
    """
    if explanation is None or current is None or explanation.examples:
        return explanation
    return replace(explanation, titles={**current.titles, **explanation.titles})


def _find_labels_until(measuring: MeasuringPlan, measured: MeasuredRun) -> datetime | None:
    """Return until when later runs measure relevance that arrives for this slot.

    None if the run is not ok, if no metric needs relevance, or if relevance does not arrive later.
    """
    if measured.status is not RunStatus.OK or not relevance_metrics(measuring):
        return None
    if not measuring.relevance_within:
        return None
    return measured.slot + measuring.relevance_within


def _keep_storable(comparison: Comparison, run: MeasuredRun) -> MeasuredRun:
    """Return the run without results that a run with its status does not store.

    Nothing is stored of thin segments, in which too few users were compared.
    """
    if run.status is RunStatus.FAILED:
        # A failed run compared no users, so it has no results.
        run = replace(run, summaries=(), arm_scores=())
    if run.status is not RunStatus.OK:
        # Later runs use only ok runs to compare lists, measure relevance and explain drops.
        run = replace(run, lists=None, is_labelled=False, split=None, explanation=None)
    thin = thin_segments(run.coverage, comparison.judging.min_paired_share)
    lists = run.lists
    if lists is not None:
        # Relevance that arrives later is not measured in thin segments either.
        segments = {name: rows for name, rows in lists.segments.items() if name not in thin}
        lists = replace(lists, segments=segments)
    return replace(
        run,
        summaries=tuple(summary for summary in run.summaries if summary.segment not in thin),
        arm_scores=tuple(score for score in run.arm_scores if score.segment not in thin),
        lists=lists,
    )
