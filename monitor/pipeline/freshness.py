"""Finds out when a run's lists arrived, and which lists came from a cache."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log10

import numpy as np

from monitor.measures.pairing.ids import find_users
from monitor.model.arrays import Floats, Rows
from monitor.model.rankings import Arm, RankingTable
from monitor.model.run_reasons import FloorDoubt, RunReason, RunReasonKind
from monitor.pipeline.user_batches import take_table

_MAX_IGNORED_SHARE = 0.01
"""The largest share of cached answers that is not reported. It hardly changes a mean."""
_MIN_RUNS = 3
_MIN_ZEROS = 9
"""Equal answers are suspicious if their chance has more than this many zeros after the point."""


def gaps_between(first: RankingTable, second: RankingTable) -> Floats:
    """For each user, the seconds between the arrivals of both lists.

    Users without both times are left out.
    """
    if first.traces is None or second.traces is None:
        return np.empty(0)
    rows, again = _rows_of_both(first, second)
    gaps: Floats = np.abs(first.traces.came_s[rows] - second.traces.came_s[again])
    return gaps[~np.isnan(gaps)]


def summarize_gaps(gaps: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float]]:
    """Median and 99th percentile of the gaps, by the lists compared with the baseline's lists.

    Lists without gaps are left out.
    """
    summary = {}
    for what, parts in gaps.items():
        gaps_s = np.concatenate(parts)
        if len(gaps_s):
            summary[what] = {str(q): float(np.quantile(gaps_s, q)) for q in (0.5, 0.99)}
    return summary


def describe_cached(arm: Arm, table: RankingTable) -> str | None:
    """How many answers of the arm came from a cache, and their age.

    None if hardly any did, or if the source does not report it.
    """
    if table.traces is None:
        return None
    cached = np.isfinite(table.traces.age_s).sum()
    if cached <= _MAX_IGNORED_SHARE * len(table):
        return None
    oldest_s = np.nanmax(table.traces.age_s)
    # 0: the cache does not report how old its answers are.
    age = f", up to {oldest_s:,.0f} s old" if oldest_s else ""
    return (
        f"the {arm} answered {cached:,} of {len(table):,} users from a cache{age} "
        f"({table.traces.sign})"
    )


def doubt_floor(
    first: RankingTable, second: RankingTable, overlaps: Sequence[float]
) -> RunReason | None:
    """Why the baseline's second lists may be copies of its first lists. None if nothing is odd.

    ``overlaps`` are the mean overlaps of the first and second lists in the last runs.

    A deterministic recommender always gives equal answers. So equal answers are suspicious only if
    lists differed before. Let p be a share of users whose lists differed in each of the last runs.
    The chance of equal answers is (1 - p)^n for n users, and it must be below 1e-9.
    """
    if first.traces is None or second.traces is None:
        return None
    rows, again = _rows_of_both(first, second)
    before = first.traces
    after = second.traces
    count = len(rows)
    since_s = before.came_s[rows] - after.came_s[again]
    # The second answer may have arrived and been stored first. Then the first answer is its copy.
    is_first_stored = (since_s > 0) & (before.age_s[rows] <= since_s + 1)
    cached = (np.isfinite(after.age_s[again]) | is_first_stored).sum()
    # Equal ids mean something only if nearly every request has a different id.
    ids = len(np.unique(before.ids[np.isfinite(before.ids)]))
    requests = len(np.unique(before.came_s[np.isfinite(before.came_s)]))
    are_unique = ids > max(1, 0.9 * requests)
    same = ((before.ids[rows] == after.ids[again]) & are_unique).sum()
    # A user whose lists differ lowers the mean overlap by at most 1 / n. So at least 1 - overlap of
    # the users have lists that differ.
    zeros = 0.0
    if len(overlaps) >= _MIN_RUNS:
        zeros = -count * log10(max(*overlaps, 1e-9))
    doubt = RunReason(kind=RunReasonKind.UNTRUSTED_FLOOR, asked=count)
    if cached > _MAX_IGNORED_SHARE * count:
        sign = after.sign or before.sign
        return replace(doubt, doubt=FloorDoubt.CACHED, users=int(cached), text=sign)
    if same > _MAX_IGNORED_SHARE * count:
        return replace(doubt, doubt=FloorDoubt.SAME_ID, users=int(same))
    if zeros > _MIN_ZEROS and _is_equal(take_table(first, rows), take_table(second, again)):
        return replace(doubt, doubt=FloorDoubt.EQUAL, limit=zeros)
    return None


def _rows_of_both(first: RankingTable, second: RankingTable) -> tuple[Rows, Rows]:
    """The rows of the users that are in both tables, for each table."""
    rows = find_users(first.users, second.users)
    return np.flatnonzero(rows >= 0), rows[rows >= 0]


def _is_equal(first: RankingTable, second: RankingTable) -> bool:
    return all(
        np.array_equal(getattr(first, column), getattr(second, column))
        for column in ("offsets", "items", "scores")
    )
