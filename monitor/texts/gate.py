"""Texts about the verdict of a gate. Clauses without a full stop."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from monitor.model.gate import GateReason, GateResult, GateVerdict, LeftOut
from monitor.model.instants import format_instant
from monitor.model.rankings import ALL
from monitor.texts.run_reasons import with_cause
from monitor.texts.wording import count_of

_NAMED = 5
_LEFT_OUT = {
    LeftOut.OTHER_CONFIGURATION: "measured under another configuration",
    LeftOut.INSUFFICIENT: "insufficient",
    LeftOut.FAILED: "failed",
    LeftOut.ABANDONED: "abandoned",
    LeftOut.ASKED_EVERYBODY: "had fewer users than the sample, so none was drawn at random",
    LeftOut.NO_SCORES: "stored without scores of what is judged",
    LeftOut.NOT_THE_NEWEST: "older, and asked the same users",
}


def write_verdict(verdict: GateVerdict, segments: Sequence[GateResult], margin: float) -> str:
    """The reason for the verdict, with the figures of the segments that decided it."""
    decisive = [each for each in segments if each.verdict is verdict]
    if verdict is GateVerdict.INCONCLUSIVE:
        unknown = [each for each in segments if each.reason is GateReason.NO_DATA]
        return _write_undecided(margin, (unknown or decisive)[0])
    parts = [_write_decided(margin, each) for each in decisive[:_NAMED]]
    if len(decisive) > _NAMED:
        parts.append(f"and {len(decisive) - _NAMED} more segments")
    return "; ".join(parts)


def write_no_runs(
    comparison: str, since: datetime | None, left_out: Mapping[LeftOut, int], trouble: str | None
) -> str:
    """Why there was no run to judge. ``trouble`` says why the newest bad run was bad."""
    period = f" since {format_instant(since)}" if since else ""
    reasons = ", ".join(write_left_out(reason, count) for reason, count in left_out.items())
    newest = f" (the newest: {trouble})" if trouble and left_out else ""
    failure = f"no run of {comparison}{period} can be judged"
    return f"{with_cause(failure, reasons or 'none is stored yet')}{newest}"


def write_left_out(reason: LeftOut, count: int) -> str:
    """``3 runs older, and asked the same users``."""
    return f"{count_of(count, 'run')} {_LEFT_OUT[reason]}"


def write_census(fixed_users: int | None) -> str:
    """Which users every run asks, None for all users."""
    if fixed_users is None:
        return "everybody was asked"
    return f"the same {fixed_users:,} users are asked in each run"


def _write_decided(margin: float, result: GateResult) -> str:
    side, bound = "above", f"at least {result.low:.4g}"
    if result.verdict is GateVerdict.SAFE:
        side, bound = "below", f"at most {result.high:.4g}"
    return (
        f"{_prefix(result)}the mean excess is {side} {margin:g}: {bound} over "
        f"{result.users:,} users"
    )


def _write_undecided(margin: float, result: GateResult) -> str:
    prefix = _prefix(result)
    if not result.users:
        return f"{prefix}no user was drawn"
    if result.users == result.missing:
        return f"{prefix}none of {result.users:,} users drawn has a score"
    if result.reason is GateReason.NO_DATA:
        return (
            f"{prefix}{result.missing:,} of {result.users:,} users have no score, which decides: "
            f"the mean excess is {result.mean_best:.4g} if theirs is the best and "
            f"{result.mean_worst:.4g} if it is the worst, with a margin of {margin:g}"
        )
    return (
        f"{prefix}{result.users:,} users do not decide: the mean excess is between "
        f"{result.low:.4g} and {result.high:.4g}, and so is {margin:g}; more runs will decide"
    )


def _prefix(result: GateResult) -> str:
    return "" if result.segment == ALL else f"{result.segment}: "
