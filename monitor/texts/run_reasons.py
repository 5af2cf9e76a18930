"""Writes why a run is not ok, or what an ok run lacks. The clauses have no full stop."""

from collections.abc import Iterable, Mapping
from textwrap import shorten

from monitor.model.instants import format_instant
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.run_reasons import (
    FloorDoubt,
    LossCause,
    RunReason,
    RunReasonKind,
    RunReasons,
    find_reason,
)
from monitor.texts.id_mismatches import write_mismatch
from monitor.texts.unmatched_names import write_unmatched
from monitor.texts.wording import count_of, write_percent

_LONGEST_CAUSE = 140
_CLAUSES: Mapping[RunReasonKind, str] = {
    RunReasonKind.TOO_FEW: (
        "only {0.users:,} of {0.asked:,} users ({share}) could be compared, under min_paired_share "
        "{limit}"
    ),
    RunReasonKind.BOTH_FAILED: "both arms failed, so look for a common cause",
    RunReasonKind.LOST_LISTS: (
        "the {0.arm} gave no list for {0.users:,} of {0.asked:,} users: {causes}"
    ),
    RunReasonKind.OTHER_ANSWERED: "the {0.arm} answered {0.asked:,} of {0.asked:,}",
    RunReasonKind.LATE: "the run's deadline is {0.limit:g}s",
    RunReasonKind.EXAMPLES: "for example {examples}",
    RunReasonKind.UNTRUSTED_FLOOR: "noise_floor is untrusted",
    RunReasonKind.NOTHING_COMPARED: "nothing could be compared",
    RunReasonKind.NEW_CONFIGURATION: (
        "the configuration of this comparison changed before the run of {slot}; rules that learn "
        "begin again from there"
    ),
    RunReasonKind.LAST_OK: "last good run: {slot}",
    RunReasonKind.SPLIT_OFF: (
        "the users are not split as planned{first_seen}: {arms}. Until the test begins again, a "
        "fault in the lists is not noticed"
    ),
    RunReasonKind.SWITCHED: (
        "{0.users:,} of {0.asked:,} users switched arms ({exact_share}), more than {limit}"
    ),
    RunReasonKind.SERVED_BY_OTHER: (
        "{0.users:,} of {0.asked:,} users got their list from the other arm than the one in "
        "assignments ({exact_share}), more than {limit}"
    ),
    RunReasonKind.ROWS_LOST: (
        "there are {0.users:,} users since the test began, but an earlier run had {0.asked:,}: "
        "rows were deleted, so outcomes and the check of the split are incomplete. Keep all rows "
        "since the test began, or set a new unpaired.since"
    ),
    RunReasonKind.NOT_SERVED: "no user has a list from the {0.arm}",
    RunReasonKind.FEW_BEFORE: (
        "only {0.users:,} of {0.asked:,} users of the {0.arm} ({share}) have a pre-test list, "
        "under min_paired_share {limit}. The log needs rows from before the test"
    ),
    RunReasonKind.ARMS_DIFFERED: (
        "the users of both arms got different lists before the test began: the chance of such a "
        "difference is {0.limit:.1g}"
    ),
}
"""The clause of each kind of reason. A reason of any other kind has its own text."""
_DOUBTS = {
    FloorDoubt.CACHED: (
        "a cache gave one of the two answers for {0.users:,} of {0.asked:,} users ({0.text})"
    ),
    FloorDoubt.SAME_ID: (
        "both answers have the same id for {0.users:,} of {0.asked:,} users, so the second one "
        "may be a copy"
    ),
    FloorDoubt.EQUAL: (
        "both answers are equal for all {0.asked:,} users, but the last runs say that the chance "
        "of this is 1 in 1e{0.limit:,.0f}"
    ),
}
_FLOOR_ADVICE = (
    "rankwatch asks with Cache-Control: no-cache, no-store. If a cache ignores this header, use "
    "the address behind the cache. Or add a parameter that the cache does not ignore, with "
    "noise_floor: {retrain: ...}"
)
_USUAL_CAUSES = {
    CoverageReason.MISSING: "left them out",
    CoverageReason.EMPTY: "gave empty lists",
}
_INTRODUCTIONS = (RunReasonKind.TOO_FEW, RunReasonKind.BOTH_FAILED)
"""A reason of these kinds ends with a colon, because the next reason explains it."""


def write_run_reasons(reasons: Iterable[RunReason]) -> str:
    """Write all reasons on one line. The line is empty if there are no reasons."""
    text = ""
    for reason in reasons:
        separator = ": " if reason.kind in _INTRODUCTIONS else "; "
        text += write_run_reason(reason) + separator
    return text[:-2]


def write_run_reason(reason: RunReason) -> str:
    """Write one reason: ``the candidate gave no list for 34 of 690 users: left them out``."""
    if reason.mismatch is not None:
        return write_mismatch(reason.mismatch)
    if reason.unmatched is not None:
        return write_unmatched(reason.unmatched)
    slot = "" if reason.slot is None else format_instant(reason.slot)
    share = reason.users / max(1, reason.asked)
    clause = _CLAUSES.get(reason.kind, "{0.text}").format(
        reason,
        share=write_percent(share),
        exact_share=f"{100 * share:.1f} %",
        limit=write_percent(reason.limit or 0.0),
        causes=write_causes(reason.causes),
        examples=", ".join(reason.examples),
        slot=slot,
        first_seen=slot and f" (first seen in the run of {slot})",
        arms=write_off_split(reason.users, reason.asked - reason.users, reason.limit or 0.5),
    )
    if reason.doubt is None:
        return clause
    return f"{clause}: {_DOUBTS[reason.doubt].format(reason)}. {_FLOOR_ADVICE}"


def write_off_split(baseline: int, candidate: int, planned: float) -> str:
    """Write the users of both arms and the plan. ``planned`` is the baseline's share, 0 to 1."""
    users = count_of(baseline, "user")
    shares = f"{100 * planned:.3g} % and {100 * (1 - planned):.3g} %"
    if planned == 1 - planned:
        shares = "50 % each"
    return f"the baseline has {users} and the candidate {candidate:,}, but {shares} were planned"


def write_causes(causes: tuple[LossCause, ...]) -> str:
    """Write the causes: ``recs:80 answered 503 (60 of them), left them out (3 of them)``.

    A single cause is written without a count.
    """
    if len(causes) == 1:
        return _write_cause(causes[0])
    return ", ".join(f"{_write_cause(cause)} ({cause.users:,} of them)" for cause in causes)


def _write_cause(cause: LossCause) -> str:
    return cause.text or _USUAL_CAUSES.get(cause.reason, cause.reason)


def write_failure(loss: RunReason) -> str:
    """Write a failure for a headline: ``candidate recs:80 answered 503 (60 of 60 users)``."""
    cause = _write_cause(loss.causes[0])
    if len(loss.causes) > 1:
        cause += ", and other causes"
    cause = shorten(cause, _LONGEST_CAUSE, placeholder=" …")
    return f"{loss.arm} {cause} ({loss.users:,} of {loss.asked:,} users)"


def write_failures(reasons: RunReasons) -> str | None:
    """Write for a headline which arm lost most lists and why. If both arms failed, write both.

    Return None if no arm lost lists.
    """
    failures = [
        write_failure(reason) for reason in reasons if reason.kind is RunReasonKind.LOST_LISTS
    ]
    if find_reason(reasons, RunReasonKind.BOTH_FAILED) is not None:
        return f"both arms failed: {', '.join(failures)}"
    return failures[0] if failures else None


def write_headline(reasons: RunReasons) -> str | None:
    """Write which arms failed. If no arm failed, write the first reason. None without reasons."""
    if not reasons:
        return None
    return write_failures(reasons) or write_run_reason(reasons[0])


def write_lost_share(
    shown: str, arm: Arm | None, counts: tuple[int, int], reasons: RunReasons
) -> tuple[str, str]:
    """Write a reason and a headline for a share of users who got no list from ``arm``.

    If ``arm`` is None, either arm gave no list. The reason begins with ``shown``, the text of the
    share. The run's reasons follow. ``counts`` are the numbers of users without a list and of all
    users that were asked for.
    """
    all_reasons = write_run_reasons(reasons)
    if find_reason(reasons, RunReasonKind.BOTH_FAILED) is not None:
        return all_reasons, write_failures(reasons) or shown
    if arm is None:
        return f"{shown}: {all_reasons}", write_failures(reasons) or shown
    loss = find_reason(reasons, RunReasonKind.LOST_LISTS, arm)
    if loss is None:
        return f"{shown}: {all_reasons}", shown
    if (loss.users, loss.asked) != counts:  # the run counted other users
        return f"{shown}: {all_reasons}", write_failure(loss)
    place = reasons.index(loss)
    others = write_run_reasons((*reasons[place + 1 :], *reasons[:place]))
    causes = with_cause(shown, write_causes(loss.causes))
    return "; ".join(filter(None, (causes, others))), write_failure(loss)


def with_cause(what: str, cause: str | None) -> str:
    """Write what happened, followed by the cause if the cause is known."""
    return f"{what}: {cause}" if cause else what
