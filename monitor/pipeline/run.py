"""One run, from the claimed slot to the result that is stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import datetime
from itertools import chain

from monitor.alerts.rule_evaluation import thin_segments
from monitor.alerts.unmatched import find_unmatched
from monitor.alerts.verdicts import BOTH_FAILED, describe_lost
from monitor.errors import OutputError, SourceError
from monitor.model.comparison import Comparison, Keep
from monitor.model.explanation import Explanation, Finding
from monitor.model.id_mismatches import IdKind
from monitor.model.instants import format_instant
from monitor.model.memory import Memory, MemoryRequest
from monitor.model.model_versions import write_models
from monitor.model.pages import tell_changes
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.rules import SeriesRule, describe_series
from monitor.model.runs import Claim, Findings, MeasuredRun, RunResult, RunStatus, Scores
from monitor.model.unmatched_names import UnmatchedName
from monitor.pipeline.accumulator import EXAMPLES
from monitor.pipeline.expectations import REMEMBERED, learning_rules
from monitor.pipeline.judgement import RECENT, judge_findings, needs_recent
from monitor.pipeline.pull import Arms
from monitor.pipeline.run_explanation import HEALTHY_RUNS, add_explanations, find_lost, recall_fault
from monitor.pipeline.run_measurement import Measurement, Stopwatch, measure_slot
from monitor.pipeline.score import RunScores, draw_scores, join_scores, relevance_metrics
from monitor.ports import Clock, ScoreSink
from monitor.texts.id_mismatches import write_mismatch, write_user_spelling
from monitor.texts.unmatched_names import write_unmatched

_COMPARED = (CoverageReason.SHORT, CoverageReason.DUPLICATED)
"""Reasons that keep no list from being compared."""
_WORDS = {CoverageReason.MISSING: "left them out", CoverageReason.EMPTY: "gave empty lists"}
"""What an arm did that says nothing itself."""
_EXPECTED = (CoverageReason.MISSING, CoverageReason.EMPTY)
"""Reasons that say nothing against a source that answers: a run that is ok does not tell of them."""


def memory_request(comparison: Comparison, slot: datetime) -> MemoryRequest:
    """What a run of the slot needs of earlier ones: the runs that rules learn from, or the few that show what was normal."""
    # Summaries are large, so without rules that learn only as many runs are read as a message
    # averages over.
    rules, runs = learning_rules(comparison), REMEMBERED
    if needs_recent(comparison):
        rules, runs = comparison.judging.similarity_rules, RECENT
    return MemoryRequest(
        comparison=comparison.name,
        config_hash=comparison.config_hash,
        before=slot,
        runs=runs if rules else 0,
        series={
            rule.alert: describe_series(rule) for rule in rules if isinstance(rule, SeriesRule)
        },
        splits=HEALTHY_RUNS,
        wants_last_lists=comparison.measuring.keep_lists is not Keep.NONE,
    )


def execute(
    comparison: Comparison,
    arms: Arms,
    claim: Claim,
    memory: Memory,
    clock: Clock,
    scores: RunScores | None = None,
) -> RunResult:
    """Measure and judge one claimed slot.

    What goes wrong with sources is in the result, never an exception.

    ``scores`` gathers those of the users, else memory: readable until the result is closed,
    OutputError when they cannot be taken. Run again over the same lists it gives the same
    summaries, and moves no alert twice.
    """
    watch = Stopwatch(clock)
    try:
        measurement = measure_slot(comparison, arms, claim.slot, memory, watch, scores=scores)
    except SourceError as error:
        return failed_result(
            comparison, claim, memory, clock, reason=arms.reason(error), stage_seconds=watch.seconds
        )
    status, reason = assess(measurement, comparison, memory.unmatched)
    if memory.anew_since is not None and learning_rules(comparison):
        changed = (
            "the configuration of this comparison changed before the run of "
            f"{format_instant(memory.anew_since)}"
        )
        reason = "; ".join(
            filter(None, (reason, changed, "rules that learn begin again from there"))
        )
    if status is not RunStatus.OK:
        reason = _add_last_ok(reason, memory)
    if arms.scores_to is not None:
        with watch.stage("write"):
            unwritten = _write_scores(
                comparison, arms.scores_to, claim, status, measurement.run.scores
            )
        reason = "; ".join(filter(None, (reason, unwritten))) or None
    measured = replace(_storable(comparison, measurement.run, status), stage_seconds=watch.seconds)
    found = Findings(slot=claim.slot, status=status, reason=reason, measured=measured)
    lost = find_lost(status, measurement.coverage, measurement.notes)
    return _judge(comparison, claim, memory, clock.now(), found, lost=lost)


def _write_scores(
    comparison: Comparison,
    sink: ScoreSink,
    claim: Claim,
    status: RunStatus,
    scores: Iterable[Scores] | None,
) -> str | None:
    """Write all scores to where they are wanted beside the database, before the run is stored.

    What stood in the way.
    """
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
    reason: str,
    stage_seconds: Mapping[str, float] | None = None,
) -> RunResult:
    """The result of a run that measured nothing."""
    measured = MeasuredRun(stage_seconds=stage_seconds or {})
    told = _add_last_ok(reason, memory)
    found = Findings(slot=claim.slot, status=RunStatus.FAILED, reason=told, measured=measured)
    return _judge(comparison, claim, memory, clock.now(), found)


def _add_last_ok(reason: str | None, memory: Memory) -> str | None:
    last = memory.last_ok
    return reason if last is None else f"{reason}; last good run: {format_instant(last.slot)}"


def _judge(
    comparison: Comparison,
    claim: Claim,
    memory: Memory,
    at: datetime,
    found: Findings,
    *,
    lost: Finding | None = None,
) -> RunResult:
    judgement = judge_findings(comparison, found, memory, at)
    if any(change.is_start for change in judgement.transitions):
        told = recall_fault(found.measured.explanation, memory.explained)
        found = replace(found, measured=replace(found.measured, explanation=told))
    last, models, k = memory.last_ok, found.measured.models, comparison.measuring.k
    changes = (
        () if last is None else tell_changes(last, found.slot, comparison.config_hash, k, models)
    )
    explanation = _told(comparison, found.measured.explanation)
    return RunResult(
        claim=claim,
        status=found.status,
        reason="; ".join(filter(None, [found.reason, *changes])) or None,
        finished_at=at,
        config_hash=comparison.config_hash,
        k=k,
        states=judgement.states,
        transitions=add_explanations(
            judgement.transitions, explanation, write_models(models, found.slot), lost=lost
        ),
        expectations=judgement.expectations,
        standstills=judgement.standstills,
        labels_until=_labels_until(comparison, claim) if found.status is RunStatus.OK else None,
        **{each.name: getattr(found.measured, each.name) for each in fields(found.measured)},
    )


def _told(comparison: Comparison, explanation: Explanation | None) -> Explanation | None:
    return (
        explanation
        if explanation is None or comparison.judging.shows_items
        else explanation.without_items
    )


def _storable(comparison: Comparison, measured: MeasuredRun, status: RunStatus) -> MeasuredRun:
    # Nothing is stored of segments of which too little was compared.
    thin = thin_segments(measured.coverage, comparison.judging.min_paired_share)
    is_compared, is_ok = status is not RunStatus.FAILED, status is RunStatus.OK
    # Thin segments are not to be measured later either.
    segments = measured.lists.segments if measured.lists is not None else {}
    kept = {name: rows for name, rows in segments.items() if name not in thin}
    return replace(
        measured,
        summaries=tuple(
            each for each in measured.summaries if is_compared and each.segment not in thin
        ),
        arm_scores=tuple(
            each for each in measured.arm_scores if is_compared and each.segment not in thin
        ),
        scores=_kept_scores(comparison, measured.scores),
        lists=replace(measured.lists, segments=kept)
        if is_ok and measured.lists is not None
        else None,
        is_labelled=is_ok and measured.is_labelled,
        split=measured.split if is_ok else None,
        explanation=measured.explanation if is_ok else None,
    )


def _kept_scores(
    comparison: Comparison, scores: Iterable[Scores] | None
) -> Iterable[Scores] | None:
    """Those that the comparison keeps."""
    keep = comparison.measuring.keep_scores
    if scores is None or keep is Keep.NONE or keep is Keep.ALL:
        return None if keep is Keep.NONE else scores
    drawn: list[Scores] = []
    for batch in scores:
        drawn = [draw_scores(join_scores([*drawn, batch]), keep, comparison)]
    return drawn


def _labels_until(comparison: Comparison, claim: Claim) -> datetime | None:
    within = comparison.measuring.relevance_within
    return (
        claim.slot + within
        if within is not None and relevance_metrics(comparison.measuring)
        else None
    )


def assess(
    measurement: Measurement, comparison: Comparison, silences: Sequence[UnmatchedName] = ()
) -> tuple[RunStatus, str | None]:
    """The status of a measured run, and in words why too little was compared, or what an ok run left out.

    ``silences``: those that match nothing.
    """
    whole, least = measurement.coverage.all, comparison.judging.min_paired_share
    # Nobody compared is a failure even where no share is required.
    is_ok = whole.paired > 0 and whole.paired >= least * whole.asked
    # Sources know no more of the deadline than what is left.
    deadline = f"the run's deadline (deadline: {comparison.measuring.deadline.total_seconds():g}s)"
    told = (
        each.replace("the run's deadline", deadline)
        for each in _obstacles(measurement, _EXPECTED if is_ok else ())
    )
    asked = [row.segment for row in measurement.coverage.rows if row.asked]
    unmatched = (*find_unmatched(comparison, asked), *silences)
    hints = [*map(write_mismatch, measurement.run.id_mismatches), *map(write_unmatched, unmatched)]
    if is_ok:
        return RunStatus.OK, "; ".join((*hints, *measurement.left_out, *told)) or None
    obstacles = "; ".join((*told, *hints))
    if whole.paired == 0:
        return RunStatus.FAILED, f"{obstacles}; nothing could be compared"
    share = whole.paired / whole.asked
    return RunStatus.INSUFFICIENT, (
        f"only {whole.paired:,} of {whole.asked:,} users ({share:.0%}) could be compared, "
        f"under min_paired_share {least:.0%}: {obstacles}"
    )


def _obstacles(measurement: Measurement, passed_over: Collection[CoverageReason] = ()) -> list[str]:
    """What kept each arm from giving lists, then that the other arm answered, and for example whose lists are missing."""
    whole, found = measurement.coverage.all, dict[Arm, list[tuple[int, str, str]]]()
    words = {(arm, reason): word for arm in Arm for reason, word in _WORDS.items()}
    for each in measurement.run.id_mismatches:
        if each.ids is IdKind.USER and each.is_spelling and each.arm is not None:
            words[each.arm, CoverageReason.MISSING] = write_user_spelling(each)
    words |= measurement.notes
    for (arm, reason), count in sorted(whole.reasons.items(), key=lambda each: -each[1]):
        if reason not in (*_COMPARED, *passed_over):
            cause, _, users = words.get((arm, reason), reason).partition(EXAMPLES)
            found.setdefault(arm, []).append((count, cause, users))
    told, lost = [], {arm: sum(count for count, *_ in of_it) for arm, of_it in found.items()}
    for arm in sorted(filter(found.__contains__, Arm), key=lambda arm: -lost[arm]):
        causes = (
            cause if len(found[arm]) == 1 else f"{cause} ({count:,} of them)"
            for count, cause, _ in found[arm]
        )
        told.append(f"{describe_lost(arm, lost[arm], whole.asked)}: {', '.join(causes)}")
    if len(lost) == len(Arm) and 2 * min(lost.values()) >= whole.asked:
        told[0] = f"{BOTH_FAILED}: {told[0]}"
    told += [
        f"the {arm} answered {whole.asked:,} of {whole.asked:,}"
        for arm in Arm
        if found and arm not in found
    ]
    named = [of_it[0][2] for arm, of_it in found.items() if lost[arm] < whole.asked and of_it[0][2]]
    return [*told, *(f"for example {users}" for users in dict.fromkeys(named))]
