"""Texts about why a run is not ok, or what an ok run lacks. Clauses without a full stop."""

from collections.abc import Iterable
from textwrap import shorten

from monitor.model.instants import format_instant
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

_LONGEST_CAUSE = 140
_INTRODUCTIONS = (RunReasonKind.TOO_FEW, RunReasonKind.BOTH_FAILED)
"""The reason after one of these says why, so a colon is between them."""
_FLOOR_ADVICE = (
    "rankwatch asks with Cache-Control: no-cache, no-store. If a cache ignores that, use the "
    "address behind the cache, or add a parameter that the cache does not ignore, as "
    "noise_floor: {retrain: ...}"
)


def write_run_reasons(reasons: Iterable[RunReason]) -> str | None:
    """All reasons on one line, None without reasons."""
    text = ""
    for reason in reasons:
        separator = ": " if reason.kind in _INTRODUCTIONS else "; "
        text += write_run_reason(reason) + separator
    return text[:-2] or None


def write_run_reason(reason: RunReason) -> str:  # noqa: C901, PLR0911 - one for each kind
    """One reason, such as ``the candidate gave no list for 34 of 690 users: left them out``."""
    match reason.kind:
        case RunReasonKind.TOO_FEW:
            share = reason.users / reason.asked
            return (
                f"only {_count(reason)} users ({share:.0%}) could be compared, "
                f"under min_paired_share {reason.limit:.0%}"
            )
        case RunReasonKind.BOTH_FAILED:
            return "both arms failed, look for what they share"
        case RunReasonKind.LOST_LISTS:
            loss = f"the {reason.arm} gave no list for {_count(reason)} users"
            return f"{loss}: {write_causes(reason.causes)}"
        case RunReasonKind.OTHER_ANSWERED:
            return f"the {reason.arm} answered {reason.asked:,} of {reason.asked:,}"
        case RunReasonKind.LATE:
            return f"the run's deadline is {reason.limit:g}s"
        case RunReasonKind.EXAMPLES:
            return f"for example {', '.join(reason.examples)}"
        case RunReasonKind.UNTRUSTED_FLOOR:
            return _write_floor_doubt(reason)
        case RunReasonKind.NOTHING_COMPARED:
            return "nothing could be compared"
        case RunReasonKind.NEW_CONFIGURATION if reason.slot is not None:
            return (
                "the configuration of this comparison changed before the run of "
                f"{format_instant(reason.slot)}; rules that learn begin again from there"
            )
        case RunReasonKind.LAST_OK if reason.slot is not None:
            return f"last good run: {format_instant(reason.slot)}"
    if reason.mismatch is not None:
        return write_mismatch(reason.mismatch)
    if reason.unmatched is not None:
        return write_unmatched(reason.unmatched)
    return reason.text


def write_causes(causes: Iterable[LossCause]) -> str:
    """``recs:80 answered 503 (60 of them), left them out (3 of them)``. One cause has no count."""
    causes = tuple(causes)
    if len(causes) == 1:
        return causes[0].text
    return ", ".join(f"{cause.text} ({cause.users:,} of them)" for cause in causes)


def write_failure(loss: RunReason) -> str:
    """For headlines: ``candidate recs:80 answered 503 Service Unavailable (60 of 60 users)``."""
    cause = loss.causes[0].text
    if len(loss.causes) > 1:
        cause += ", and other causes"
    return f"{loss.arm} {shorten(cause, _LONGEST_CAUSE, placeholder=' …')} ({_count(loss)} users)"


def write_failures(reasons: RunReasons) -> str | None:
    """For headlines: the arm that lost most lists, or both if both failed. None if none did."""
    failures = [write_failure(each) for each in reasons if each.kind is RunReasonKind.LOST_LISTS]
    if not failures:
        return None
    if find_reason(reasons, RunReasonKind.BOTH_FAILED) is None:
        return failures[0]
    return f"both arms failed: {', '.join(failures)}"


def write_headline(reasons: RunReasons) -> str | None:
    """The failures of the arms, else the first reason. None without reasons."""
    if not reasons:
        return None
    return write_failures(reasons) or write_run_reason(reasons[0])


def write_lost_share(
    shown: str, reasons: RunReasons, run_reason: str | None, loss: RunReason | None
) -> str:
    """The share of users without a list as ``shown``, then what the run says about it.

    ``loss``: the reason that counts the same users. Only its causes are added.
    """
    if find_reason(reasons, RunReasonKind.BOTH_FAILED) is not None and run_reason is not None:
        return run_reason
    if loss is None:
        return with_cause(shown, run_reason)
    place = reasons.index(loss)
    others = write_run_reasons((*reasons[place + 1 :], *reasons[:place]))
    causes = write_causes(loss.causes)
    return with_cause(shown, f"{causes}; {others}" if others else causes)


def with_cause(what: str, cause: str | None) -> str:
    """What happened, and its cause if it is known."""
    return f"{what}: {cause}" if cause else what


def _write_floor_doubt(reason: RunReason) -> str:
    users = f"{_count(reason)} users"
    match reason.doubt:
        case FloorDoubt.CACHED:
            why = f"a cache gave one of both answers for {users} ({reason.text})"
        case FloorDoubt.SAME_ID:
            why = f"both answers have the same id for {users}, as one answer given twice has"
        case FloorDoubt.EQUAL:
            why = (
                f"both answers are equal for all {reason.asked:,} users, which by the last runs "
                f"happens once in 1e{reason.limit:,.0f}"
            )
        case None:  # stored by an earlier version
            return "noise_floor is untrusted"
    return f"noise_floor is untrusted: {why}. {_FLOOR_ADVICE}"


def _count(reason: RunReason) -> str:
    return f"{reason.users:,} of {reason.asked:,}"
