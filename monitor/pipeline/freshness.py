"""Finds out how far apart a run's lists arrived, and which lists came from a cache."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log10

import numpy as np
import pandas as pd

from monitor.measures.pairing.ids import find_users
from monitor.model.arrays import Floats, Rows
from monitor.model.rankings import Arm, RankingTable, Traces
from monitor.model.run_reasons import FloorDoubt, RunReason, RunReasonKind
from monitor.pipeline.user_batches import take_table

_MAX_IGNORED_SHARE = 0.01
"""Up to this share, cached answers are not reported, because they hardly change a mean."""
_MIN_RUNS = 3
_MIN_EXPONENT = 9
"""Equal lists of all users are suspicious if their chance is below 10 to the power of -9."""
_MIN_UNIQUE_SHARE = 0.9
"""If at most this share of the requests have their own id, equal ids are no sign of copies."""
_AGE_ROUNDING_S = 1
"""Caches report ages in whole seconds, so an age may be too large by this."""
_LEAST_OVERLAP = 1e-9


def gaps_between(first: RankingTable, second: RankingTable) -> Floats:
    """Return for each user how many seconds apart the two lists arrived.

    A user is left out if the time of a list is unknown.
    """
    if first.traces is None or second.traces is None:
        return np.empty(0)
    first_rows, second_rows = _rows_of_common_users(first, second)
    gaps: Floats = np.abs(first.traces.came_s[first_rows] - second.traces.came_s[second_rows])
    return gaps[~np.isnan(gaps)]


def summarize_gaps(gaps: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float]]:
    """Return the median and the 99th percentile of the gaps in seconds, see `gaps_between`.

    The keys name the lists that were compared with the baseline's lists, such as ``candidate``.
    Each key has the gaps of several groups of users. Keys without gaps are left out.
    """
    summary = {}
    for list_name, gaps_of_groups in gaps.items():
        gaps_s = np.concatenate(gaps_of_groups)
        if len(gaps_s):
            summary[list_name] = {str(q): float(np.quantile(gaps_s, q)) for q in (0.5, 0.99)}
    return summary


def describe_cached(arm: Arm, table: RankingTable) -> str | None:
    """Say how many answers of the arm came from a cache, and how old they were.

    Return None if hardly any answers did, or if the source does not report caches.
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
        f"({table.traces.cache_header})"
    )


def doubt_floor(
    first: RankingTable, second: RankingTable, overlaps: Sequence[float]
) -> RunReason | None:
    """Say why the baseline's second lists may be copies of its first lists.

    Return None if nothing is suspicious. There are three reasons, in this order:

    1. Some users were answered from a cache.
    2. Some users got both lists with the same request id.
    3. All users got equal lists, although lists usually differ. ``overlaps`` are the mean overlaps
       of the first and second lists in the last runs.
    """
    if first.traces is None or second.traces is None:
        return None
    first_rows, second_rows = _rows_of_common_users(first, second)
    users = len(first_rows)
    max_ignored = _MAX_IGNORED_SHARE * users
    reason = RunReason(kind=RunReasonKind.UNTRUSTED_FLOOR, asked=users)
    cached = _count_cached(first.traces, first_rows, second.traces, second_rows)
    if cached > max_ignored:
        cache_header = second.traces.cache_header or first.traces.cache_header
        return replace(reason, doubt=FloorDoubt.CACHED, users=cached, text=cache_header)
    same_ids = _count_same_ids(first.traces, first_rows, second.traces, second_rows)
    if same_ids > max_ignored:
        return replace(reason, doubt=FloorDoubt.SAME_ID, users=same_ids)
    exponent = _chance_exponent(overlaps, users)
    if exponent <= _MIN_EXPONENT:
        return None
    if _is_equal(take_table(first, first_rows), take_table(second, second_rows)):
        return replace(reason, doubt=FloorDoubt.EQUAL, limit=exponent)
    return None


def _count_cached(
    first_traces: Traces, first_rows: Rows, second_traces: Traces, second_rows: Rows
) -> int:
    """Count the users whose second answer came from a cache, or was copied to the first answer."""
    earlier_by_s = first_traces.came_s[first_rows] - second_traces.came_s[second_rows]
    max_age_s = earlier_by_s + _AGE_ROUNDING_S
    # If the second answer arrived earlier, a cache may have returned it again as the first answer.
    is_copy = (earlier_by_s > 0) & (first_traces.age_s[first_rows] <= max_age_s)
    is_cached = np.isfinite(second_traces.age_s[second_rows])
    return int((is_cached | is_copy).sum())


def _count_same_ids(
    first_traces: Traces, first_rows: Rows, second_traces: Traces, second_rows: Rows
) -> int:
    """Count the users with the same request id in both answers.

    Return 0 if many requests share ids, because equal ids are then no sign of copies.
    """
    # The users of one request have the same time of arrival, so the times count the requests.
    # `nunique` does not count NaN, which a missing id or time is.
    unique_ids = pd.Series(first_traces.ids).nunique()
    requests = pd.Series(first_traces.came_s).nunique()
    if unique_ids <= max(1, _MIN_UNIQUE_SHARE * requests):
        return 0
    is_same_id = first_traces.ids[first_rows] == second_traces.ids[second_rows]
    return int(is_same_id.sum())


def _chance_exponent(overlaps: Sequence[float], users: int) -> float:
    """Return z: all ``users`` get equal lists by chance with a probability of at most 10^-z.

    ``overlaps`` has the mean overlap of the two lists in each of the last runs. The result is 0 if
    there are too few runs.

    Equal lists have the overlap 1. So the share of users with equal lists is at most the mean
    overlap. The highest of the ``overlaps`` is used as the probability p that one user gets equal
    lists. The probability that all users get equal lists is then p to the power of ``users``.
    """
    if len(overlaps) < _MIN_RUNS:
        return 0.0
    # An overlap of 0 has no logarithm.
    highest_overlap = max(*overlaps, _LEAST_OVERLAP)
    return -users * log10(highest_overlap)


def _rows_of_common_users(first: RankingTable, second: RankingTable) -> tuple[Rows, Rows]:
    """Return the rows of the users that are in both tables, for each table."""
    second_rows = find_users(first.users, second.users)
    is_common = second_rows >= 0
    return np.flatnonzero(is_common), second_rows[is_common]


def _is_equal(first: RankingTable, second: RankingTable) -> bool:
    return all(
        np.array_equal(getattr(first, column), getattr(second, column))
        for column in ("offsets", "items", "scores")
    )
