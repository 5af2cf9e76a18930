"""Writes clauses (without a full stop) about the verdict of a gate."""

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
    LeftOut.INSUFFICIENT: "with status insufficient",
    LeftOut.FAILED: "with status failed",
    LeftOut.ABANDONED: "with status abandoned",
    LeftOut.ASKED_EVERYBODY: "with all users in the sample, so no user was drawn at random",
    LeftOut.NO_SCORES: "without stored scores of the judged metric",
    LeftOut.NOT_THE_NEWEST: "with the same users as the newest run",
}


def write_verdict(
    verdict: GateVerdict, segments: Sequence[GateResult], margin: float, *, is_census: bool
) -> str:
    """Say why the gate gives this verdict, with figures of the segments that decided it.

    ``is_census``: every run asks the same users, so more runs do not help.
    """
    decisive = [result for result in segments if result.verdict is verdict]
    if verdict is GateVerdict.INCONCLUSIVE:
        unknown = [result for result in segments if result.reason is GateReason.NO_DATA]
        return _write_undecided(margin, (unknown or decisive)[0], is_census=is_census)
    parts = [_write_decided(margin, result) for result in decisive[:_NAMED]]
    if len(decisive) > _NAMED:
        parts.append(f"and {len(decisive) - _NAMED} more segments")
    return "; ".join(parts)


def write_no_runs(
    comparison: str, since: datetime | None, left_out: Mapping[LeftOut, int], failure: str | None
) -> str:
    """Say why the gate can judge no run.

    ``failure`` says why the newest run that is not ok failed or compared too few users.
    """
    period = f" since {format_instant(since)}" if since else ""
    reasons = ", ".join(write_left_out(reason, count) for reason, count in left_out.items())
    newest = f" (the newest of these: {failure})" if failure and left_out else ""
    verdict = f"no run of {comparison}{period} can be judged"
    return f"{with_cause(verdict, reasons or 'none is stored yet')}{newest}"


def write_left_out(reason: LeftOut, count: int) -> str:
    """Say how many runs were left out and why, such as ``3 runs with status failed``."""
    return f"{count_of(count, 'run')} {_LEFT_OUT[reason]}"


def write_census(fixed_users: int | None) -> str:
    """Say which users every run asks for. If ``fixed_users`` is None, it asks for all users."""
    if fixed_users is None:
        return "all users were asked for"
    return f"each run asks for the same {fixed_users:,} users"


def _write_decided(margin: float, result: GateResult) -> str:
    side = "above"
    bound = f"at least {result.low:.4g}"
    if result.verdict is GateVerdict.SAFE:
        side = "below"
        bound = f"at most {result.high:.4g}"
    return (
        f"{_prefix(result)}the mean excess is {side} {margin:g}: {bound} over "
        f"{result.users:,} users"
    )


def _write_undecided(margin: float, result: GateResult, *, is_census: bool) -> str:
    """Say why a segment has no verdict: too few users, or users without a score that decide it."""
    prefix = _prefix(result)
    if not result.users:
        return f"{prefix}no user was drawn"
    if result.users == result.missing:
        return f"{prefix}none of the {result.users:,} users drawn has a score"
    if result.reason is GateReason.NO_DATA:
        return (
            f"{prefix}{result.missing:,} of {result.users:,} users have no score, and their scores "
            f"would decide: the mean excess would be {result.mean_best:.4g} with the best scores "
            f"and {result.mean_worst:.4g} with the worst, and the margin is {margin:g}"
        )
    advice = "more runs will decide"
    if is_census:
        advice = "each run asks the same users, so only more users can decide"
    return (
        f"{prefix}{result.users:,} users are too few to decide: the mean excess is between "
        f"{result.low:.4g} and {result.high:.4g}, and the margin {margin:g} is in this range; "
        f"{advice}"
    )


def _prefix(result: GateResult) -> str:
    return "" if result.segment == ALL else f"{result.segment}: "
