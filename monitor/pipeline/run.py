"""Executes one run: measures and judges a claimed slot, and makes the result to store."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from monitor.alerts.rule_evaluation import thin_segments
from monitor.alerts.unmatched import find_unmatched
from monitor.model.errors import OutputError, SourceError
from monitor.model.immutable import extend
from monitor.model.instants import format_instant
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.ports import Clock, ScoreSink
from monitor.model.rankings import COMPARED_REASONS, Arm, CoverageNote, CoverageReason
from monitor.model.rules import Comparison, Keep, MeasuringPlan, SeriesRule, describe_series
from monitor.model.run_reasons import (
    IdKind,
    LossCause,
    RunReason,
    RunReasonKind,
    RunReasons,
    UnmatchedName,
)
from monitor.model.runs import Claim, Findings, RunResult, RunStatus, Scores
from monitor.pipeline.expectations import REMEMBERED, learning_rules
from monitor.pipeline.judgement import RECENT, judge_findings, needs_recent
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_explanation import HEALTHY_RUNS, add_explanations, find_lost, recall_fault
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot
from monitor.pipeline.run_scores import RunScores, draw_scores, join_scores
from monitor.pipeline.score import relevance_metrics
from monitor.pipeline.unpaired_measurement import measure_unpaired
from monitor.pipeline.unpaired_reasons import find_unpaired_obstacles, note_arms_differed
from monitor.texts.id_mismatches import write_user_spelling
from monitor.texts.model_versions import write_changes, write_models
from monitor.texts.run_reasons import write_run_reasons

_EXPECTED = (CoverageReason.MISSING, CoverageReason.EMPTY)
"""An ok run does not report these reasons, because healthy sources have such users too."""


def memory_request(comparison: Comparison, slot: datetime) -> MemoryRequest:
    """Return what a run of the slot needs from earlier runs, mostly for rules that learn."""
    rules = learning_rules(comparison)
    runs = REMEMBERED
    if needs_recent(comparison):
        # Summaries are large, so only the runs that a message averages are read.
        rules = comparison.judging.similarity_rules
        runs = RECENT
    if not rules:
        runs = 0
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
    status, reasons = assess(measurement, comparison, memory.unmatched)
    if run.unpaired is not None:
        obstacles = find_unpaired_obstacles(comparison, run.unpaired, memory.states)
        if obstacles and status is RunStatus.OK:
            status = RunStatus.INSUFFICIENT
        reasons = (*obstacles, *note_arms_differed(run.unpaired), *reasons)
    if memory.anew_since is not None and learning_rules(comparison):
        changed = RunReason(kind=RunReasonKind.NEW_CONFIGURATION, slot=memory.anew_since)
        reasons = (*reasons, changed)
    if status is not RunStatus.OK:
        reasons = _add_last_ok(reasons, memory)
    if arms.scores_to is not None:
        with watch.stage("write"):
            write_error = _write_scores(comparison, arms.scores_to, claim, status, run.scores)
        if write_error is not None:
            reasons = (*reasons, *_with_texts(RunReasonKind.LEFT_OUT, [write_error]))
    run = replace(run, status=status, reasons=reasons, stage_seconds=watch.seconds)
    return _judge(comparison, claim, memory, clock.now(), _storable(comparison, run))


def _write_scores(
    comparison: Comparison,
    sink: ScoreSink,
    claim: Claim,
    status: RunStatus,
    scores: Iterable[Scores] | None,
) -> str | None:
    """Write all scores to the sink before the run is stored. Returns the error, or None.

    ``scores`` has at least one batch. If an earlier attempt of this run was ok and this attempt is
    not, nothing is written.
    """
    # The scores of the earlier attempt stay in the sink, because its result stays too.
    if scores is None or (claim.has_ok and status is not RunStatus.OK):
        return None
    about = {
        "comparison": comparison.name,
        "slot": format_instant(claim.slot),
        "config_hash": comparison.config_hash,
        "run": str(claim.run_id),
        "attempt": str(claim.attempt),
        "status": status.value,
    }
    try:
        batches = iter(scores)
        head = next(batches)
        with sink.open(claim.slot, list(head.by_metric), about) as write:
            for batch in chain([head], batches):
                write(batch)
    except OutputError as error:
        return str(error)
    return None


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
    reasons = _add_last_ok(_with_texts(RunReasonKind.ERROR, [error_text]), memory)
    findings = Findings(
        slot=claim.slot,
        status=RunStatus.FAILED,
        reasons=reasons,
        stage_seconds=stage_seconds or {},
    )
    return _judge(comparison, claim, memory, clock.now(), findings)


def _add_last_ok(reasons: RunReasons, memory: Memory) -> RunReasons:
    if memory.last_ok is None:
        return reasons
    return (*reasons, RunReason(kind=RunReasonKind.LAST_OK, slot=memory.last_ok.slot))


def _judge(
    comparison: Comparison,
    claim: Claim,
    memory: Memory,
    at: datetime,
    findings: Findings,
) -> RunResult:
    """Judge the findings at this time, explain the alerts, and return the run's result."""
    judgement = judge_findings(comparison, findings, memory, at)
    k = comparison.measuring.k
    explanation = findings.explanation
    starts = [change for change in judgement.transitions if change.is_start]
    if starts:
        explanation = recall_fault(explanation, memory.explained, starts)
    reasons = findings.reasons
    models = findings.models
    if memory.last_ok is not None:
        changes = write_changes(memory.last_ok, findings.slot, comparison.config_hash, k, models)
        reasons = (*reasons, *_with_texts(RunReasonKind.CHANGED, changes))
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
        labels_until=_labels_until(comparison.measuring, findings),
    )


def _labels_until(measuring: MeasuringPlan, findings: Findings) -> datetime | None:
    """Return until when later runs measure relevance that arrives for this slot.

    None if the run is not ok, if no metric needs relevance, or if relevance does not arrive later.
    """
    within = measuring.relevance_within
    if findings.status is not RunStatus.OK or not within or not relevance_metrics(measuring):
        return None
    return findings.slot + within


def _storable(comparison: Comparison, measured: Findings) -> Findings:
    """Return what a run with this status stores.

    Nothing is stored of segments in which too few users were compared (thin segments). Scores are
    stored as `keep_scores` says.
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
        scores=_stored_scores(comparison, measured.scores),
        lists=lists,
    )


def _stored_scores(
    comparison: Comparison, scores: Iterable[Scores] | None
) -> Iterable[Scores] | None:
    """Return the scores that ``keep_scores`` selects, in batches. None if it selects no scores."""
    keep = comparison.measuring.keep_scores
    if scores is None or keep is Keep.NONE:
        return None
    if keep is Keep.ALL:
        return scores
    drawn: list[Scores] = []
    # Drawing again after each batch gives the same scores as drawing once, in less memory.
    for batch in scores:
        drawn = [draw_scores(join_scores([*drawn, batch]), keep, comparison)]
    return drawn


def assess(
    measurement: Measurement, comparison: Comparison, silences: Sequence[UnmatchedName]
) -> tuple[RunStatus, RunReasons]:
    """Return the status of a measured run, and its reasons.

    The reasons say why too few users were compared, or what an ok run left out. ``silences`` are
    names that occur in silences and match nothing.
    """
    coverage = measurement.coverage.all
    min_paired_share = comparison.judging.min_paired_share
    # A run without pairs fails even if `min_paired_share` is 0.
    is_ok = coverage.paired > 0 and coverage.paired >= min_paired_share * coverage.comparable
    deadline_s = comparison.measuring.deadline.total_seconds()
    obstacles = _find_obstacles(measurement, deadline_s, _EXPECTED if is_ok else ())
    segments = [row.segment for row in measurement.coverage.rows if row.asked]
    hints = []
    for mismatch in measurement.run.id_mismatches:
        hints.append(RunReason(kind=RunReasonKind.ID_MISMATCH, mismatch=mismatch))
    for unmatched in (*find_unmatched(comparison, segments), *silences):
        hints.append(RunReason(kind=RunReasonKind.UNMATCHED_NAME, unmatched=unmatched))
    if is_ok:
        left_out = _with_texts(RunReasonKind.LEFT_OUT, measurement.left_out)
        return RunStatus.OK, (*hints, *measurement.doubts, *left_out, *obstacles)
    if coverage.paired == 0:
        nothing = RunReason(kind=RunReasonKind.NOTHING_COMPARED)
        return RunStatus.FAILED, (*obstacles, *hints, nothing)
    too_few = RunReason(
        kind=RunReasonKind.TOO_FEW,
        users=coverage.paired,
        asked=coverage.comparable,
        limit=min_paired_share,
    )
    return RunStatus.INSUFFICIENT, (too_few, *obstacles, *hints)


def _with_texts(kind: RunReasonKind, texts: Iterable[str]) -> RunReasons:
    return tuple(RunReason(kind=kind, text=text) for text in texts)


def _find_obstacles(
    measurement: Measurement, deadline_s: float, ignored: Collection[CoverageReason]
) -> list[RunReason]:
    """Return why arms gave no lists, whether the other arm answered, and example users."""
    everybody = measurement.coverage.all
    notes = _notes_by_reason(measurement)
    causes: dict[Arm, list[LossCause]] = {}
    first_users: dict[Arm, tuple[str, ...]] = {}
    is_late = False
    reasons = everybody.users_by_reason
    for (arm, reason), count in sorted(reasons.items(), key=lambda item: -item[1]):
        if reason not in (*COMPARED_REASONS, *ignored):
            note = notes.get((arm, reason), CoverageNote(text=""))
            cause = LossCause(reason=reason, users=count, text=note.text)
            causes.setdefault(arm, []).append(cause)
            first_users.setdefault(arm, note.users)
            is_late |= reason is CoverageReason.TIMEOUT
    lost = {arm: sum(cause.users for cause in causes[arm]) for arm in Arm if arm in causes}
    obstacles, examples = [], []
    if len(lost) == len(Arm) and 2 * min(lost.values()) >= everybody.asked:
        obstacles.append(RunReason(kind=RunReasonKind.BOTH_FAILED))
    for arm in sorted(lost, key=lambda arm: -lost[arm]):
        asked = everybody.asked_of(arm)
        loss = RunReason(
            kind=RunReasonKind.LOST_LISTS,
            arm=arm,
            users=lost[arm],
            asked=asked,
            causes=tuple(causes[arm]),
        )
        obstacles.append(loss)
        if lost[arm] < asked and first_users[arm]:
            examples.append(RunReason(kind=RunReasonKind.EXAMPLES, examples=first_users[arm]))
    if len(lost) == 1:
        (arm,) = lost
        obstacles.append(
            RunReason(
                kind=RunReasonKind.OTHER_ANSWERED,
                arm=arm.other,
                asked=everybody.asked_of(arm.other),
            )
        )
    if is_late:
        obstacles.append(RunReason(kind=RunReasonKind.LATE, limit=deadline_s))
    return [*obstacles, *dict.fromkeys(examples)]


def _notes_by_reason(
    measurement: Measurement,
) -> dict[tuple[Arm, CoverageReason], CoverageNote]:
    """Return the notes of the sources, and notes on user ids that an arm spells differently.

    If there are both for an arm and reason, the note of the source is returned. An arm finds no
    list for an id that it spells differently, so notes on spelling belong to `MISSING`.
    """
    notes = {}
    for mismatch in measurement.run.id_mismatches:
        if mismatch.ids is IdKind.USER and mismatch.is_spelling and mismatch.arm is not None:
            note = CoverageNote(text=write_user_spelling(mismatch))
            notes[mismatch.arm, CoverageReason.MISSING] = note
    notes.update(measurement.notes)
    return notes
