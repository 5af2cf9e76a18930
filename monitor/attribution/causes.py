"""Which segment and part lead a drop, the drop in ranked pieces, and where the users are that something happened to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from monitor.attribution.decomposition import WITHIN, MeanDrop, SegmentDrop
from monitor.model import ALL, Cause, Part
from monitor.model.arrays import Flags, Rows

# Standard errors by which a segment must have fallen more than the others before it is named.
SURE = 4.0

# How much of a drop must be a segment's own before it is named: 0 where all fell alike, 1 where nobody else fell.
CONCENTRATED = 0.2


def find_leader(drop: MeanDrop) -> SegmentDrop | None:
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


def rank_causes(drop: MeanDrop, leader: SegmentDrop | None) -> tuple[Cause, ...]:
    """The drop in pieces whose amounts sum to it: the leading part (of the leading segment) first, then by size.

    ``leader`` from `find_leader`. Of a leading segment leads the part by which it fell most beyond its share of all
    users' fall; of everybody the largest. What is left of it elsewhere is a piece of its own.
    """
    totals = drop.parts
    parts = totals if leader is None else leader.parts
    # By the part beyond its share of all users' fall, so that what moved everybody cancels out.
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


AND = " and "
"""Stands between the names of two segments whose common users are meant."""

# Share of those hit that a segment must hold before it is named, and how much better it must tell them than all users do.
_HELD = 0.8
_BETTER = 1.25
_NARROWER = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where users are that something happened to: a segment, or two joined by `AND`, and the rows of its users."""

    segment: str
    rows: Rows


def find_place(hit: Flags, usual: float, segments: Mapping[str, Rows]) -> Place:
    """The segment that tells best who was hit, ``all`` where none does.

    ``hit`` (n,), of whom a share ``usual`` of all users would be hit anyhow. The best one has the greatest F1 of the share of
    those hit that it holds and the share of its users that were hit, if it holds `_HELD` of them and more than users drawn at
    random would beyond doubt. Two segments of different dimensions are named when their common users tell them better still.
    """
    everybody = Place(segment=ALL, rows=segments[ALL])
    total = _beyond(hit, usual, everybody.rows)
    if total <= 0:
        return everybody
    n = len(everybody.rows)

    def score(place: Place) -> float:
        found = _beyond(hit, usual, place.rows)
        by_chance = total * len(place.rows) / n
        if found < _HELD * total or (place is not everybody and found - by_chance < SURE * math.sqrt(by_chance)):
            return 0.0
        held, of_users = found / total, found / len(place.rows)
        return 2 * held * of_users / (held + of_users)

    places = [Place(segment=name, rows=rows) for name, rows in sorted(segments.items()) if name != ALL and len(rows)]
    ranked = sorted(((score(place), place) for place in places), key=lambda entry: -entry[0])
    best, place = ranked[0] if ranked else (0.0, everybody)
    if best < _BETTER * score(everybody):
        best, place = score(everybody), everybody
    holding = [each for value, each in ranked if value > 0]
    for joined in _join_pairs(holding):
        if (value := score(joined)) > _NARROWER * best:
            best, place = value, joined
    return place


def _beyond(hit: Flags, usual: float, rows: Rows) -> float:
    """How many of these users were hit that would not have been anyhow."""
    return max(0.0, float(hit[rows].sum()) - usual * len(rows)) / max(1e-9, 1 - usual)


def _join_pairs(places: Sequence[Place]) -> Iterator[Place]:
    for first, second in combinations(places, 2):
        if first.segment.partition("=")[0] != second.segment.partition("=")[0]:
            rows = np.intersect1d(first.rows, second.rows, assume_unique=True)
            if len(rows):
                yield Place(segment=AND.join(sorted((first.segment, second.segment))), rows=rows)


def rows_of_place(name: str, segments: Mapping[str, Rows]) -> Rows:
    """Rows of the users of a segment, or of the common ones of two joined by `AND`; none where it is not known."""
    if name in segments:
        return segments[name]
    found = [segments.get(each, _NOBODY) for each in name.split(AND, 1)]
    return np.intersect1d(found[0], found[-1], assume_unique=True)


_NOBODY: Rows = np.empty(0, dtype=np.intp)
