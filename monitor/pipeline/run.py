"""Executes one run: measures and judges a claimed slot, and makes the result to store."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from monitor.model.errors import SourceError
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.ports import Clock
from monitor.model.rules import Comparison, Keep, SeriesRule, describe_series
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import Claim, Findings, RunResult, RunStatus
from monitor.pipeline.expectations import REMEMBERED, learning_rules, needs_recent
from monitor.pipeline.judgement import RECENT
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_assessment import add_last_ok, assess
from monitor.pipeline.run_explanation import HEALTHY_RUNS
from monitor.pipeline.run_measurement import Measurement, measure_slot
from monitor.pipeline.run_result import keep_storable, make_result
from monitor.pipeline.run_scores import RunScores, select_stored, write_scores
from monitor.pipeline.stopwatch import Stopwatch
from monitor.pipeline.unpaired_measurement import measure_unpaired


def memory_request(comparison: Comparison, slot: datetime) -> MemoryRequest:
    """Return what a run of the slot needs from earlier runs, mostly for rules that learn."""
    rules = learning_rules(comparison)
    runs = REMEMBERED if rules else 0
    if needs_recent(comparison):
        # Summaries are large, so only the runs that a message averages are read.
        rules = comparison.judging.similarity_rules
        runs = RECENT
    return MemoryRequest(
        comparison=comparison.name,
        config_hash=comparison.config_hash,
        before=slot,
        runs=runs,
        series={
            rule.alert: describe_series(rule) for rule in rules if isinstance(rule, SeriesRule)
        },
        splits=HEALTHY_RUNS,
        wants_last_lists=comparison.measuring.keep_lists is not Keep.NONE,
        wants_planned_share=comparison.measuring.unpaired is not None,
    )


def measure(
    comparison: Comparison,
    arms: Arms,
    slot: datetime,
    memory: Memory,
    watch: Stopwatch,
    scores: RunScores | None = None,
) -> Measurement:
    """Measure one slot of a paired or an unpaired comparison.

    Raises SourceError if the users cannot be read.
    """
    measure_users = measure_slot if comparison.measuring.unpaired is None else measure_unpaired
    return measure_users(comparison, arms, slot, memory, watch, scores=scores)


def execute(
    comparison: Comparison,
    arms: Arms,
    claim: Claim,
    memory: Memory,
    clock: Clock,
    scores: RunScores | None = None,
) -> RunResult:
    """Measure and judge one claimed slot.

    If a source fails, the result says so, and no exception is raised.

    ``scores`` collects the users' scores. They can be read until the result is closed. Without it
    the scores stay in memory. Raises OutputError if ``scores`` cannot store them.

    A second run over the same lists gives the same summaries and no new transition.
    """
    watch = Stopwatch(clock)
    try:
        measurement = measure(comparison, arms, claim.slot, memory, watch, scores)
    except SourceError as error:
        return failed_result(
            comparison,
            claim,
            memory,
            clock,
            error_text=arms.reason(error),
            stage_seconds=watch.seconds,
        )
    run = measurement.run
    status, reasons = assess(comparison, measurement, memory)
    if arms.scores_to is not None:
        with watch.stage("write"):
            write_error = write_scores(comparison, arms.scores_to, claim, status, run.scores)
        if write_error is not None:
            reasons = (*reasons, RunReason(kind=RunReasonKind.LEFT_OUT, text=write_error))
    run = replace(
        run,
        status=status,
        reasons=reasons,
        scores=select_stored(comparison, run.scores),
        stage_seconds=watch.seconds,
    )
    return make_result(comparison, claim, memory, clock.now(), keep_storable(comparison, run))


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
    findings = Findings(
        slot=claim.slot,
        status=RunStatus.FAILED,
        reasons=add_last_ok((error,), memory),
        stage_seconds=stage_seconds or {},
    )
    return make_result(comparison, claim, memory, clock.now(), findings)
