"""Narrow the leading segment down by a second dimension: not just new users, but new users of one country."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.explaining.causes import SURE
from monitor.explaining.drop import WITHIN, SegmentDrop
from monitor.explaining.split import Floats, Parts, Rows
from monitor.model import ALL, Part, PartMeans

AND = " and "
"""Stands between the names of two segments whose common users are meant."""

CARRIED = 0.8
"""Share of the leading segment's fall that the narrower one must carry."""

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
