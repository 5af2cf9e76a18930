"""Shares of users by their lists, as far as a run can tell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monitor.model import ALL, ArmScore, ListShare, ListTrait

LEAST_MOVED = 0.25
"""Unless so many of the other users' lists changed the arm was not trained, and lists that did not change are no news."""


def find_shares(scores: Sequence[ArmScore]) -> dict[tuple[str, ListShare], ArmScore]:
    """The arm-wide metrics that are shares of users, by segment; those of unchanged lists only where other lists changed."""
    traits = set(ListTrait)
    found = {(each.segment, ListShare(ListTrait(each.metric), each.arm)): each for each in scores if each.metric in traits}
    return {key: each for key, each in found.items() if each.value is not None and _have_others_moved(key, found)}


def _have_others_moved(key: tuple[str, ListShare], found: Mapping[tuple[str, ListShare], ArmScore]) -> bool:
    """Whether the arm changed lists of users outside the segment; of all users, where it has no outside."""
    segment, share = key
    whole = found.get((ALL, share))
    if share.trait is not ListTrait.UNCHANGED or whole is None:
        return share.trait is not ListTrait.UNCHANGED
    part = found[key]
    is_whole = segment == ALL or part.n == whole.n
    others = whole.n - (0 if is_whole else part.n)
    return _moved(whole) - (0.0 if is_whole else _moved(part)) >= LEAST_MOVED * others


def _moved(unchanged: ArmScore) -> float:
    return unchanged.n * (1.0 - (unchanged.value or 0.0))
