"""Finds out how far apart a run's lists arrived, and which lists came from a cache."""

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
"""Up to this share, cached answers are not reported, because they hardly change a mean."""
_MIN_RUNS = 3
_MIN_ZEROS = 9
"""Equal answers are suspicious if their chance is below 10 to the power of minus this."""
_MIN_UNIQUE = 0.9
"""If fewer than this share of the requests have their own id, equal ids are no sign of copies."""
_LEAST_OVERLAP = 1e-9


def gaps_between(first: RankingTable, second: RankingTable) -> Floats:
    """Return for each user how many seconds apart the two lists arrived.

    A user is left out if the time of a list is unknown.
    """
    if first.traces is None or second.traces is None:
        return np.empty(0)
    first_rows, second_rows = _rows_of_both(first, second)
    gaps: Floats = np.abs(first.traces.came_s[first_rows] - second.traces.came_s[second_rows])
    return gaps[~np.isnan(gaps)]


def summarize_gaps(gaps: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile of the gaps.

    The keys name the lists that were compared with the baseline's lists, such as ``candidate``.
    Keys without gaps are left out.
    """
    summary = {}
    for what, parts in gaps.items():
        gaps_s = np.concatenate(parts)
        if len(gaps_s):
            summary[what] = {str(q): float(np.quantile(gaps_s, q)) for q in (0.5, 0.99)}
    return summary


def describe_cached(arm: Arm, table: RankingTable) -> str | None:
    """Say how many answers of the arm came from a cache, and how old they were.

    Return None if hardly any did, or if the source does not report caches.
    """
    if table.traces is None:
        return None
    cached = np.isfinite(table.traces.age_s).sum()
    if cached <= _MAX_IGNORED_SHARE * len(table):
        return None
    oldest_s = np.nanmax(table.traces.age_s)
    # An age of 0 means that the cache does not report how old its answers are.
    age = f", up to {oldest_s:,.0f} s old" if oldest_s else ""
    return (
        f"the {arm} answered {cached:,} of {len(table):,} users from a cache{age} "
        f"({table.traces.sign})"
    )


def doubt_floor(
    first: RankingTable, second: RankingTable, overlaps: Sequence[float]
) -> RunReason | None:
    """Say why the baseline's second lists may be copies of its first lists.

    Return None if nothing is suspicious. ``overlaps`` are the mean overlaps of the first and second
    lists in the last runs.

    A deterministic recommender always gives equal answers. So equal answers are suspicious only if
    lists differed before. Suppose that in each of the last runs at least a share p of the users had
    lists that differed. Then the chance that all answers are equal is (1 - p)^n for n users. Equal
    answers are reported if this chance is below 1e-9.
    """
    if first.traces is None or second.traces is None:
        return None
    first_rows, second_rows = _rows_of_both(first, second)
    traces = first.traces
    again = second.traces
    count = len(first_rows)
    # The traces have the arrival, the age in a cache and the id of the request of each answer.
    earlier_by_s = traces.came_s[first_rows] - again.came_s[second_rows]
    # If the second answer arrived earlier and was stored, the first answer may be its copy.
    is_first_stored = (earlier_by_s > 0) & (traces.age_s[first_rows] <= earlier_by_s + 1)
    cached = (np.isfinite(again.age_s[second_rows]) | is_first_stored).sum()
    # Equal ids are a sign of copies only if nearly every request has its own id.
    ids = len(np.unique(traces.ids[np.isfinite(traces.ids)]))
    requests = len(np.unique(traces.came_s[np.isfinite(traces.came_s)]))
    are_unique = ids > max(1, _MIN_UNIQUE * requests)
    same = ((traces.ids[first_rows] == again.ids[second_rows]) & are_unique).sum()
    # The chance that all answers are equal is 10 to the power of -zeros. A user whose lists differ
    # lowers the mean overlap by at most 1 / n. So the share of these users is at least 1 - overlap.
    zeros = 0.0
    if len(overlaps) >= _MIN_RUNS:
        # An overlap of 0 has no logarithm.
        zeros = -count * log10(max(*overlaps, _LEAST_OVERLAP))
    doubt = RunReason(kind=RunReasonKind.UNTRUSTED_FLOOR, asked=count)
    if cached > _MAX_IGNORED_SHARE * count:
        sign = again.sign or traces.sign
        return replace(doubt, doubt=FloorDoubt.CACHED, users=int(cached), text=sign)
    if same > _MAX_IGNORED_SHARE * count:
        return replace(doubt, doubt=FloorDoubt.SAME_ID, users=int(same))
    if zeros <= _MIN_ZEROS:
        return None
    if _is_equal(take_table(first, first_rows), take_table(second, second_rows)):
        return replace(doubt, doubt=FloorDoubt.EQUAL, limit=zeros)
    return None


def _rows_of_both(first: RankingTable, second: RankingTable) -> tuple[Rows, Rows]:
    """Return the rows of the users that are in both tables, for each table."""
    rows = find_users(first.users, second.users)
    return np.flatnonzero(rows >= 0), rows[rows >= 0]


def _is_equal(first: RankingTable, second: RankingTable) -> bool:
    return all(
        np.array_equal(getattr(first, column), getattr(second, column))
        for column in ("offsets", "items", "scores")
    )
