"""Which segment and which part lead a drop, and what shares of it the rest has."""

from __future__ import annotations

import math
from collections.abc import Mapping

from monitor.explaining.drop import WITHIN, Drop, SegmentDrop
from monitor.model import ALL, Cause, Part

SURE = 4.0
"""Standard errors by which a segment must have fallen more than the others before it is named."""

CONCENTRATED = 0.2
"""How much of a drop must be a segment's own before it is named: 0 where all fell alike, 1 where nobody else fell."""


def find_leader(drop: Drop) -> SegmentDrop | None:
    """The segment that fell, and more than the others, beyond doubt and by enough; None when it was everywhere.

    Runs of one day move all segments together, which cancels out here; what one segment wanders by itself does not, and is
    not in ``noise``: hence `CONCENTRATED` beside `SURE`.
    """
    if drop.dimension == ALL or len(drop.segments) == 1:
        return None
    # Where lists changed, a segment is not to blame for a mix of users that happened to change with them.
    is_of_lists = max(Part, key=drop.parts.__getitem__) in WITHIN
    fall = math.fsum(each.within for each in drop.segments)
    own = {each.segment: each.within - each.share * fall if is_of_lists else each.excess for each in drop.segments}
    first = max(drop.segments, key=lambda each: own[each.segment])
    is_sure = math.isnan(first.noise) or own[first.segment] >= SURE * first.noise
    # Parts that cancel out leave a small whole, of which anything would be a large share.
    moved = max(abs(drop.whole), *(abs(amount) for amount in drop.parts.values()))
    is_own = own[first.segment] >= CONCENTRATED * (1 - first.share) * moved
    # Others may have risen; a segment that merely did not rise with them explains nothing.
    has_fallen = first.whole > 0 and first.whole >= own[first.segment] / 2
    return first if has_fallen and is_sure and is_own else None


def rank_causes(drop: Drop, leader: SegmentDrop | None) -> tuple[Cause, ...]:
    """The drop in pieces whose amounts sum to it: the leading part (of the leading segment) first, then by size.

    ``leader`` from `find_leader` or `narrow`. Of a leading segment leads the part by which it fell most beyond its share of all
    users' fall, so that what moved everybody cancels out; of everybody the largest. What is left of it elsewhere is a piece of
    its own.
    """
    totals = drop.parts
    parts = totals if leader is None else leader.parts
    led = max(Part, key=totals.__getitem__) if leader is None else _leading_part(leader, totals)
    first = Cause(part=led, amount=parts[led], segment=None if leader is None else leader.segment)
    rest = [Cause(part=part, amount=totals[part]) for part in Part if part is not led]
    if leader is not None:
        rest.append(Cause(part=led, amount=totals[led] - parts[led], is_rest=True))
    return (first, *sorted(rest, key=lambda cause: -abs(cause.amount)))


def _leading_part(leader: SegmentDrop, totals: Mapping[Part, float]) -> Part:
    is_of_lists = max(Part, key=totals.__getitem__) in WITHIN

    def own(part: Part) -> float:
        return leader.parts[part] - (leader.share * totals[part] if part in WITHIN else 0.0)

    parts = [part for part in Part if leader.parts[part] > 0 and (part in WITHIN or not is_of_lists)]
    return max(parts or Part, key=own)
