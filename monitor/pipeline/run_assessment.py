"""Decides the status of a measured run, and finds the reasons for it."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime

from monitor.alerts.unmatched_names import find_unmatched
from monitor.model.alerts import AlertState, State
from monitor.model.memory import Memory
from monitor.model.rankings import (
    COMPARED_REASONS,
    Arm,
    CoverageNote,
    CoverageReason,
    CoverageRow,
    Notes,
)
from monitor.model.rules import Comparison, Condition, ConditionRule
from monitor.model.run_reasons import IdKind, LossCause, RunReason, RunReasonKind, RunReasons
from monitor.model.runs import RunStatus
from monitor.model.unpaired import UnpairedResults
from monitor.pipeline.expectations import learning_rules
from monitor.pipeline.measured_users import Measurement
from monitor.statistics.unpaired import arms_differed, split
from monitor.texts.id_mismatches import write_user_spelling

_USUAL_REASONS = (CoverageReason.MISSING, CoverageReason.EMPTY)
"""An ok run does not report these reasons, because healthy sources have such users too."""
MOST_SWITCHED = 0.01
"""If more than this share of the users switched arms, the run cannot be judged.

The same share limits the users that were served by the other arm than the assigned one.
"""
_MOST_LOST = 0.01
"""An ok run reports that rows were deleted if more than this share of the users is gone.

Persons whose data was erased are fewer.
"""
_SPLIT_OK_AGAIN = split.SPLIT_OFF / 2
"""A split that was off is as planned again if the evidence against it is below this.

The evidence falls if more users come, although the users before them are still wrong. With a new
``since`` it begins at 0, and the chance that it ever exceeds this is 3 %.
"""


def assess_run(
    comparison: Comparison, measurement: Measurement, memory: Memory
) -> tuple[RunStatus, RunReasons]:
    """Return the status of a measured run, and its reasons.

    The reasons say why the run cannot be judged, or what an ok run left out. The most important
    reason comes first. A run that is not ok names the last ok run at the end.
    """
    coverage = measurement.coverage.all
    min_paired_share = comparison.judging.min_paired_share
    has_enough_pairs = coverage.paired >= min_paired_share * coverage.comparable
    # If `min_paired_share` is 0, even a run without pairs has enough pairs.
    is_ok = coverage.paired > 0 and has_enough_pairs
    losses = _find_losses(comparison, measurement, ignored=_USUAL_REASONS if is_ok else ())
    hints = _find_hints(comparison, measurement, memory)
    left_out = []
    for sentence in measurement.left_out:
        left_out.append(RunReason(kind=RunReasonKind.LEFT_OUT, text=sentence))
    reasons: RunReasons
    if is_ok:
        status = RunStatus.OK
        reasons = (*hints, *measurement.doubts, *left_out, *losses)
    elif coverage.paired == 0:
        status = RunStatus.FAILED
        reasons = (*losses, *hints, RunReason(kind=RunReasonKind.NOTHING_COMPARED))
    else:
        status = RunStatus.INSUFFICIENT
        too_few = RunReason(
            kind=RunReasonKind.TOO_FEW,
            users=coverage.paired,
            asked=coverage.comparable,
            limit=min_paired_share,
        )
        reasons = (too_few, *losses, *hints, *left_out)
    # Only runs of unpaired comparisons have these results.
    unpaired = measurement.run.unpaired
    if unpaired is not None:
        obstacles = tuple(find_unpaired_obstacles(comparison, unpaired, memory.states))
        if obstacles and status is RunStatus.OK:
            status = RunStatus.INSUFFICIENT
        hints_on_test = (*_find_difference_before_test(unpaired), *_find_lost_rows(unpaired))
        reasons = (*obstacles, *hints_on_test, *reasons)
    if memory.learning_since is not None and learning_rules(comparison):
        new_configuration = RunReason(
            kind=RunReasonKind.NEW_CONFIGURATION, slot=memory.learning_since
        )
        reasons = (*reasons, new_configuration)
    if status is not RunStatus.OK:
        reasons = add_last_ok(reasons, memory)
    return status, reasons


def add_last_ok(reasons: RunReasons, memory: Memory) -> RunReasons:
    """Return the reasons of a run that is not ok. The last one names the last ok run, if any."""
    if memory.last_ok is None:
        return reasons
    return (*reasons, RunReason(kind=RunReasonKind.LAST_OK, slot=memory.last_ok.slot))


def _find_hints(
    comparison: Comparison, measurement: Measurement, memory: Memory
) -> Iterator[RunReason]:
    """Yield why ids of both arms do not match, and which names in the settings match nothing."""
    for mismatch in measurement.run.id_mismatches:
        yield RunReason(kind=RunReasonKind.ID_MISMATCH, mismatch=mismatch)
    segments = [row.segment for row in measurement.coverage.rows if row.asked]
    for unmatched in (*find_unmatched(comparison, segments), *memory.unmatched):
        yield RunReason(kind=RunReasonKind.UNMATCHED_NAME, unmatched=unmatched)


def _find_losses(
    comparison: Comparison, measurement: Measurement, *, ignored: Collection[CoverageReason]
) -> Iterator[RunReason]:
    """Yield why arms gave no lists, whether the other arm answered, and example users.

    Users that lack a list for one of the ``ignored`` reasons are not counted.
    """
    everybody = measurement.coverage.all
    notes = _notes_by_reason(measurement)
    losses = []
    for arm in Arm:
        causes = _find_causes(everybody, arm, notes, ignored)
        if causes:
            loss = RunReason(
                kind=RunReasonKind.LOST_LISTS,
                arm=arm,
                users=sum(cause.users for cause in causes),
                asked=everybody.asked_of(arm),
                causes=causes,
            )
            losses.append(loss)
    losses.sort(key=lambda loss: -loss.users)
    # The largest loss is first. If even the last one has half of the users, probably something that
    # both arms use is broken.
    if len(losses) == len(Arm) and losses[-1].users >= everybody.asked / 2:
        yield RunReason(kind=RunReasonKind.BOTH_FAILED)
    yield from losses
    if len(losses) == 1 and losses[0].arm is not None:
        other = losses[0].arm.other
        yield RunReason(
            kind=RunReasonKind.OTHER_ANSWERED, arm=other, asked=everybody.asked_of(other)
        )
    if any(cause.reason is CoverageReason.TIMEOUT for loss in losses for cause in loss.causes):
        deadline_s = comparison.measuring.deadline.total_seconds()
        yield RunReason(kind=RunReasonKind.LATE, limit=deadline_s)
    yield from _name_examples(losses, notes)


def _find_causes(
    coverage: CoverageRow, arm: Arm, notes: Notes, ignored: Collection[CoverageReason]
) -> tuple[LossCause, ...]:
    """Return why users of the arm have no list, the most frequent cause first."""
    causes = []
    # Users with one of the `COMPARED_REASONS` have a list, such as a short one.
    not_causes = (*COMPARED_REASONS, *ignored)
    for (reason_arm, reason), users in coverage.users_by_reason.items():
        if reason_arm is arm and reason not in not_causes:
            note = notes.get((arm, reason), CoverageNote(text=""))
            causes.append(LossCause(reason=reason, users=users, text=note.text))
    return tuple(sorted(causes, key=lambda cause: -cause.users))


def _name_examples(losses: Iterable[RunReason], notes: Notes) -> Iterable[RunReason]:
    """Return example users of each loss, if not all users of the arm lost their lists.

    The examples are the users in the note on the most frequent cause. Equal ones are named once.
    """
    examples: dict[RunReason, None] = {}
    for loss in losses:
        note = None if loss.arm is None else notes.get((loss.arm, loss.causes[0].reason))
        if note is not None and note.users and loss.users < loss.asked:
            examples[RunReason(kind=RunReasonKind.EXAMPLES, examples=note.users)] = None
    return examples


def _notes_by_reason(measurement: Measurement) -> Notes:
    """Return the notes of the sources, and notes on user ids that an arm spells differently.

    An arm has no list for an id that it spells differently, so the reason of these notes is
    `MISSING`. If the source also has a note with this reason, its note is returned.
    """
    spelling_notes = {}
    for mismatch in measurement.run.id_mismatches:
        is_user_spelling = mismatch.ids is IdKind.USER and mismatch.is_only_spelling
        if is_user_spelling and mismatch.arm is not None:
            note = CoverageNote(text=write_user_spelling(mismatch))
            spelling_notes[mismatch.arm, CoverageReason.MISSING] = note
    return spelling_notes | dict(measurement.notes)


def find_unpaired_obstacles(
    comparison: Comparison, unpaired: UnpairedResults, states: Sequence[AlertState]
) -> Iterator[RunReason]:
    """Yield why an unpaired run cannot be judged, the most important reason first.

    The split of the users to the arms may be off, users may have switched arms, or too few users of
    an arm were compared.
    """
    split_off_since = _split_off_since(comparison, states)
    evidence_limit = split.SPLIT_OFF
    if split_off_since is not None:
        # The alert on the split fires. It ends only when the evidence has clearly fallen.
        evidence_limit = _SPLIT_OK_AGAIN
    if unpaired.log_e >= evidence_limit:
        yield RunReason(
            kind=RunReasonKind.SPLIT_OFF,
            users=unpaired.users[Arm.BASELINE].assigned,
            asked=unpaired.assigned,
            limit=unpaired.baseline_share,
            slot=split_off_since,
        )
    users = unpaired.all_users
    if unpaired.switched > MOST_SWITCHED * users:
        yield RunReason(
            kind=RunReasonKind.SWITCHED,
            users=unpaired.switched,
            asked=users,
            limit=MOST_SWITCHED,
        )
    if unpaired.served_by_other > MOST_SWITCHED * unpaired.served_by_any:
        yield RunReason(
            kind=RunReasonKind.SERVED_BY_OTHER,
            users=unpaired.served_by_other,
            asked=unpaired.served_by_any,
            limit=MOST_SWITCHED,
        )
    min_compared_share = comparison.judging.min_paired_share
    for arm, counts in unpaired.users.items():
        if not counts.served:
            yield RunReason(kind=RunReasonKind.NOT_SERVED, arm=arm)
        # A user is compared only if there is a pre-test list of this user.
        elif counts.compared < max(1, min_compared_share * counts.served):
            yield RunReason(
                kind=RunReasonKind.FEW_BEFORE,
                arm=arm,
                users=counts.compared,
                asked=counts.served,
                limit=min_compared_share,
            )


def _split_off_since(comparison: Comparison, states: Sequence[AlertState]) -> datetime | None:
    """Return the slot since which the alert on the split is firing, or None."""
    alerts = set()
    for rule in comparison.judging.rules:
        if isinstance(rule, ConditionRule) and rule.condition is Condition.SPLIT_OFF:
            alerts.add(rule.alert)
    for state in states:
        if state.alert in alerts and state.state is State.FIRING:
            return state.since
    return None


def _find_difference_before_test(unpaired: UnpairedResults) -> RunReasons:
    """Return the reason that says that the arms differed before the test, if they did."""
    if unpaired.before_p is None or unpaired.before_p > arms_differed.HIGHEST_P:
        return ()
    return (RunReason(kind=RunReasonKind.ARMS_DIFFERED, limit=unpaired.before_p),)


def _find_lost_rows(unpaired: UnpairedResults) -> RunReasons:
    """Return the reason that says that users since the test began are gone, if many are."""
    users = unpaired.all_users
    if users >= (1 - _MOST_LOST) * unpaired.most_users:
        return ()
    return (RunReason(kind=RunReasonKind.ROWS_LOST, users=users, asked=unpaired.most_users),)
