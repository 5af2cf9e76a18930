"""Which segment and part lead a drop, narrowed down by a second dimension where it can be, and the drop in ranked pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.attribution.decomposition import WITHIN, MeanDrop, SegmentDrop
from monitor.attribution.parts import Parts
from monitor.model import ALL, Cause, Part, PartMeans
from monitor.model.arrays import Floats, Rows

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

    ``leader`` from `find_leader` or `narrow`. Of a leading segment leads the part by which it fell most beyond its share of all
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

# Share of the leading segment's fall that the narrower one must carry.
CARRIED = 0.8

NARROWER = 0.8
"""Share of the leading segment's users that the narrower one may hold at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """Users that the leading segment shares with another: what they add to the drop, and their rows."""

    drop: SegmentDrop
    rows: Rows


def narrow(leader: SegmentDrop, parts: Parts, segments: Mapping[str, Rows], before: Sequence[PartMeans]) -> Narrowed | None:
    """The users of ``leader`` and of a segment of another dimension that carry its fall; None when none do.

    No means of two dimensions at once are kept, so that what was usual is added up: with ' for before, a user of segments s and
    t was expected at m_s' + m_t' less the mean of m_t' over the users of s, so that the falls of s's users sum to its own.
    Taken is the t that carries most beyond its share of users, if it carries `CARRIED` of the fall with at most `NARROWER` of
    the users, and these fell more than the others of s by `SURE` standard errors. ``share_before`` is NaN, not being known.
    """
    is_known = ~np.isnan(parts.whole)
    own = segments[leader.segment]
    own = own[is_known[own]]
    usual = {row.segment: row for row in before if row.n}
    if leader.segment not in usual or leader.within <= 0 or max(leader.parts, key=leader.parts.__getitem__) not in WITHIN:
        return None
    n = int(is_known[segments[ALL]].sum())
    found = [
        each
        for names in _other_dimensions(leader.segment, segments)
        for each in _share_out(leader, names, _Users(parts=parts, rows=own, of=n, segments=segments, usual=usual))
    ]
    return max(found, key=lambda each: each.drop.excess, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Users:
    """The leading segment's users: their rows, of how many users in all, and what was usual by segment."""

    parts: Parts
    rows: Rows
    of: int
    segments: Mapping[str, Rows]
    usual: Mapping[str, PartMeans]


def _other_dimensions(segment: str, segments: Mapping[str, Rows]) -> list[list[str]]:
    """Names of segments by dimension, the segment's own and ``all`` left out."""
    by_dimension: dict[str, list[str]] = {}
    for name in sorted(segments):
        by_dimension.setdefault(name.partition("=")[0], []).append(name)
    return [names for dimension, names in by_dimension.items() if dimension not in {ALL, segment.partition("=")[0]}]


def _share_out(leader: SegmentDrop, names: Sequence[str], users: _Users) -> Iterator[Narrowed]:
    """Those of the dimension's segments that carry the leader's fall."""
    is_member = {name: np.isin(users.rows, users.segments[name]) for name in names}
    falls = _falls(leader.segment, is_member, users)
    for name, inside in is_member.items():
        share = float(inside.mean())
        carried = float(falls[inside].sum()) / users.of
        if not 0 < share <= NARROWER or carried < CARRIED * leader.within or not _is_deeper(falls.sum(axis=1), inside):
            continue
        added = falls[inside].sum(axis=0) / users.of
        drop = SegmentDrop(
            segment=AND.join(sorted((leader.segment, name))),
            share=share * leader.share,
            share_before=math.nan,
            parts=dict.fromkeys(Part, 0.0) | {part: float(amount) for part, amount in zip(WITHIN, added, strict=True)},
            excess=carried - share * leader.within,
        )
        yield Narrowed(drop=drop, rows=users.rows[inside])


def _falls(segment: str, is_member: Mapping[str, npt.NDArray[np.bool_]], users: _Users) -> Floats:
    """How far each user's parts lie beyond what was usual: (m, 3)."""
    expected = np.tile(_means(users.usual[ALL]), (len(users.rows), 1))
    for name, inside in is_member.items():
        if name in users.usual:
            expected[inside] = _means(users.usual[name])
    expected += _means(users.usual[segment]) - expected.mean(axis=0)
    own = users.parts.take(users.rows)
    return np.column_stack((own.membership, own.order, own.length)) - expected


def _means(row: PartMeans) -> Floats:
    return np.array([row.membership, row.order, row.length])


def _is_deeper(falls: Floats, inside: npt.NDArray[np.bool_]) -> bool:
    """Whether those inside fell more than the others beyond doubt (Welch 1947)."""
    ours, theirs = falls[inside], falls[~inside]
    error = math.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs))
    return bool(ours.mean() - theirs.mean() > SURE * error)
