"""Judges a run, explains its alerts, and makes the result that is stored."""

from dataclasses import replace
from datetime import datetime

from monitor.alerts.rule_evaluation import thin_segments
from monitor.model.immutable import extend
from monitor.model.memory import Memory
from monitor.model.rules import Comparison, MeasuringPlan
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import Claim, Findings, RunResult, RunStatus
from monitor.pipeline.alert_explanations import add_explanations, find_lost, recall_fault
from monitor.pipeline.judgement import judge_findings
from monitor.pipeline.score import relevance_metrics
from monitor.texts.model_versions import write_changes, write_models
from monitor.texts.run_reasons import write_run_reasons


def make_result(
    comparison: Comparison,
    claim: Claim,
    memory: Memory,
    at: datetime,
    findings: Findings,
) -> RunResult:
    """Judge the findings at this time, explain the alerts, and return the run's result."""
    k = comparison.measuring.k
    labels_until = _labels_until(comparison.measuring, findings)
    judgement = judge_findings(comparison, findings, memory, at)
    explanation = findings.explanation
    starts = [change for change in judgement.transitions if change.is_start]
    if starts:
        explanation = recall_fault(explanation, memory.explained, starts)
    reasons = findings.reasons
    models = findings.models
    if memory.last_ok is not None:
        changes = write_changes(memory.last_ok, findings.slot, comparison.config_hash, k, models)
        changed = [RunReason(kind=RunReasonKind.CHANGED, text=change) for change in changes]
        reasons = (*reasons, *changed)
    # The run keeps all items, but messages may not show them.
    for_messages = explanation
    if for_messages is not None and not comparison.judging.shows_items:
        for_messages = for_messages.without_items
    transitions = add_explanations(
        judgement.transitions,
        for_messages,
        write_models(models, findings.slot),
        lost=find_lost(findings),
    )
    return extend(
        RunResult,
        replace(findings, explanation=explanation, reasons=reasons),
        claim=claim,
        reason=write_run_reasons(reasons) or None,
        finished_at=at,
        config_hash=comparison.config_hash,
        k=k,
        states=judgement.states,
        transitions=transitions,
        expectations=judgement.expectations,
        standstills=judgement.standstills,
        labels_until=labels_until,
    )


def _labels_until(measuring: MeasuringPlan, findings: Findings) -> datetime | None:
    """Return until when later runs measure relevance that arrives for this slot.

    None if the run is not ok, if no metric needs relevance, or if relevance does not arrive later.
    """
    within = measuring.relevance_within
    if findings.status is not RunStatus.OK or not within or not relevance_metrics(measuring):
        return None
    return findings.slot + within


def keep_storable(comparison: Comparison, measured: Findings) -> Findings:
    """Return the part of the findings that a run with this status stores.

    Nothing is stored of segments in which too few users were compared (thin segments).
    """
    if measured.status is RunStatus.FAILED:
        # A failed run compared no users, so it has no results.
        measured = replace(measured, summaries=(), arm_scores=())
    if measured.status is not RunStatus.OK:
        # To compare lists, to measure relevance and to explain drops, later runs use only ok runs.
        measured = replace(measured, lists=None, is_labelled=False, split=None, explanation=None)
    thin = thin_segments(measured.coverage, comparison.judging.min_paired_share)
    lists = measured.lists
    if lists is not None:
        # Relevance that arrives later is not measured in thin segments either.
        thick = {name: rows for name, rows in lists.segments.items() if name not in thin}
        lists = replace(lists, segments=thick)
    return replace(
        measured,
        summaries=tuple(row for row in measured.summaries if row.segment not in thin),
        arm_scores=tuple(row for row in measured.arm_scores if row.segment not in thin),
        lists=lists,
    )
