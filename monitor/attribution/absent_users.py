"""Users without a list: more than before, owed by which arm, and in which segment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from monitor.model import ALL, Arm, CoverageReason, CoverageRow, FaultKind, Finding

# Share of users without a list beyond what is usual, and of them that a segment must hold to be named.
_LEAST_LOST = 0.005
_SURE = 4.0
_HELD = 0.8


def find_missing(coverage: Sequence[CoverageRow], usual: float) -> Finding | None:
    """Users who got no list, by the arm that owes it to most of them; None where no more do than a ``usual`` share of them.

    A segment is named when it holds most of them and more of its users than of all got none.
    """
    rows = {row.segment: row for row in coverage}
    if ALL not in rows or not rows[ALL].asked:
        return None
    counts = {arm: {name: _count_lost(row, arm) for name, row in rows.items()} for arm in Arm}
    arm = max(Arm, key=lambda each: counts[each][ALL])
    lost, asked = counts[arm][ALL], rows[ALL].asked
    if lost - usual * asked < max(5, _LEAST_LOST * asked, _SURE * math.sqrt(usual * asked)):
        return None
    held = {name: lost_there / lost for name, lost_there in counts[arm].items() if name != ALL and rows[name].asked}
    shares = {name: counts[arm][name] / rows[name].asked for name in held}
    likeliest = max(held, key=lambda name: (held[name] * shares[name], name), default=ALL)
    is_there = likeliest != ALL and held[likeliest] >= _HELD and shares[likeliest] >= 1.5 * lost / asked
    segment = likeliest if is_there else ALL
    return Finding(
        kind=FaultKind.MISSING,
        arms=tuple(each for each in Arm if counts[each][ALL] >= lost / 2),
        segment=segment,
        segment_share=counts[arm][segment] / rows[segment].asked,
        users=lost,
        compared=asked,
        detail={"before": usual},
    )


def _count_lost(row: CoverageRow, arm: Arm) -> int:
    harmless = (CoverageReason.SHORT, CoverageReason.DUPLICATED)
    return sum(count for (of, reason), count in row.reasons.items() if of is arm and reason not in harmless)
