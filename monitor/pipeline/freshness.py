"""When a run's lists came and which of them a cache held: how far arms are apart, and whether a noise floor can be trusted."""

from collections.abc import Mapping, Sequence
from math import log10

import numpy as np

from monitor.model.arrays import Floats, Rows
from monitor.model.rankings import Arm, RankingTable
from monitor.model.runs import UNTRUSTED_FLOOR
from monitor.pairing.ids import find_users
from monitor.pipeline.user_batches import take_table

_FEW = 0.01
"""A smaller share of answers from a cache is not told, and changes no mean by more than itself."""
_RUNS, _ZEROS = 3, 9


def gaps_between(first: RankingTable, second: RankingTable) -> Floats:
    """Seconds between the moments at which both lists of a user came, where both sources tell when."""
    if first.traces is None or second.traces is None:
        return np.empty(0)
    rows, again = _rows_of_both(first, second)
    gaps: Floats = np.abs(first.traces.came_s[rows] - second.traces.came_s[again])
    return gaps[~np.isnan(gaps)]


def summarize_gaps(gaps: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float]]:
    """Median and 99th percentile of the gaps by whose lists they are to.

    Nothing of those where there are none.
    """
    joined = {whose: np.concatenate(parts) for whose, parts in gaps.items()}
    return {
        whose: {str(q): float(np.quantile(each, q)) for q in (0.5, 0.99)}
        for whose, each in joined.items()
        if len(each)
    }


def describe_cached(arm: Arm, table: RankingTable) -> str | None:
    """How many answers of the arm came from a cache, and how old they were.

    None where these are few.
    """
    if table.traces is None or (users := np.isfinite(table.traces.age_s).sum()) <= _FEW * len(
        table
    ):
        return None
    old = f", up to {oldest:,.0f} s old" if (oldest := np.nanmax(table.traces.age_s)) else ""
    return (
        f"the {arm} answered {users:,} of {len(table):,} users from a cache{old} "
        f"({table.traces.sign})"
    )


def doubt_floor(first: RankingTable, second: RankingTable, overlaps: Sequence[float]) -> str | None:
    """Why the baseline's second lists are no second answers.

    None where nothing says so. ``overlaps``: of earlier floors.

    A recommender without chance in it gives equal answers, and is not doubted for that: only where
    lists of at least a share p of the users differed in every one of the last runs do equal answers
    of n users count, if (1 - p)^n is below 1e-9."""
    if first.traces is None or second.traces is None:
        return None
    (rows, again), before, after = _rows_of_both(first, second), first.traces, second.traces
    count, since_s = len(rows), before.came_s[rows] - after.came_s[again]
    # A first answer from a cache may be the second one, which was stored there before.
    is_stored = np.isfinite(after.age_s[again]) | (
        (since_s > 0) & (before.age_s[rows] <= since_s + 1)
    )
    # Ids tell of requests only where each has its own, and not each machine or everybody.
    distinct, requests = (
        len(np.unique(each[np.isfinite(each)])) for each in (before.ids, before.came_s)
    )
    is_same = (before.ids[rows] == after.ids[again]) & (distinct > max(1, 0.9 * requests))
    # Whoever has another list lowers the mean by 1 at most.
    zeros = -count * log10(max(*overlaps, 1e-9)) if len(overlaps) >= _RUNS else 0.0
    if (users := is_stored.sum()) > _FEW * count:
        why = (
            f"a cache gave one of both answers for {users:,} of {count:,} users "
            f"({after.sign or before.sign})"
        )
    elif (users := is_same.sum()) > _FEW * count:
        why = (
            f"both answers have the same id for {users:,} of {count:,} users, as one answer "
            "given twice has"
        )
    elif zeros > _ZEROS and _is_equal(take_table(first, rows), take_table(second, again)):
        why = (
            f"both answers are equal for all {count:,} users, which by the last runs happens "
            f"once in 1e{zeros:,.0f}"
        )
    else:
        return None
    return (
        f"{UNTRUSTED_FLOOR}: {why}. It is asked with Cache-Control: no-cache, no-store: for a "
        "cache that does not heed that give the address behind it, or with a parameter that it "
        "takes for another one, as noise_floor: {retrain: ...}"
    )


def _rows_of_both(first: RankingTable, second: RankingTable) -> tuple[Rows, Rows]:
    """Where in each table the users are who have both lists."""
    rows = find_users(first.users, second.users)
    return np.flatnonzero(rows >= 0), rows[rows >= 0]


def _is_equal(first: RankingTable, second: RankingTable) -> bool:
    return all(
        np.array_equal(getattr(first, each), getattr(second, each))
        for each in ("offsets", "items", "scores")
    )
