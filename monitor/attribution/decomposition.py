"""A drop of the mean: what each user adds to it, by part and segment, and changes of exposure."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

import numpy as np

from monitor.attribution.changes import PairChanges
from monitor.immutable import immutable
from monitor.kernels.exposure import compact_codes
from monitor.kernels.relevance import rank_discounts
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import Cause, ExposedItem, Part, SegmentFall
from monitor.model.rankings import ALL

OTHERS = "(others)"
"""Users without a segment in the dimension."""

# Standard errors over users from which on a drop is clear: other users would show it too.
_CLEAR = 2.0

# A segment is named if it fell more than random users would, by this many standard errors.
_SURE = 4.0

# And if this share of the drop is its own: 0 if all fell alike, 1 if only this segment fell.
_CONCENTRATED = 0.2

AND = " and "
"""Joins the names of two segments whose common users are meant."""
# The place of a fault contains this share of the users who were hit, and describes them better
# than all users do, by this factor of F1.
_IN_SEGMENT = 0.8
_BETTER = 1.25
_NARROWER = 1.1
# It contains more of them than random users would, by this many standard deviations.
_SURE_OF_A_SEGMENT = 4.0


@immutable
class MeanDrop:
    """A drop of the mean score: the growth of the mean distance, which is the sum of ``parts``."""

    before: float  # mean distance
    now: float
    noise: float  # standard error over users of their changes, without the variation between runs
    parts: Mapping[Part, float]
    # Each dimension's falls sum to the drop. First the dimension that explains most, and in it the
    # segment that fell most.
    falls: tuple[SegmentFall, ...]
    leader: SegmentFall | None  # the segment that fell clearly more than the others

    @property
    def amount(self) -> float:
        """The drop of the mean score, negative for a rise."""
        return self.now - self.before

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Its parts, the largest first."""
        causes = [Cause(part=part, amount=amount) for part, amount in self.parts.items()]
        return tuple(sorted(causes, key=attrgetter("amount"), reverse=True))

    @property
    def is_clear(self) -> bool:
        """Whether the mean fell by more than chance among users can explain."""
        return self.amount > 0 and self.amount >= _CLEAR * self.noise

    @property
    def is_rise(self) -> bool:
        """Whether the mean rose by more than chance among users can explain."""
        return self.amount < 0 and -self.amount >= _CLEAR * self.noise


def decompose_drop(
    distance: Floats,
    changes: PairChanges,
    segments: Mapping[str, Rows],
) -> MeanDrop | None:
    """The drop as the sum of what each user adds, by part and segment.

    None if no user's change is known.

    The ``distance`` of N users is known, and for P of them also the change by part. m is the mean
    distance of the P. Each of the P adds its change divided by P. By composition, a user at
    distance d adds (d - m) / N, and each of the P subtracts (d - m) / P.
    """
    is_scored = ~np.isnan(distance)
    change = changes.parts.total
    is_paired = is_scored & ~np.isnan(change)
    if not is_paired.any():
        return None
    added = _add_by_part(distance, changes, is_scored, is_paired)
    parts = {part: float(values.sum()) for part, values in added.items()}
    noise = float(change[is_paired].std()) / math.sqrt(is_paired.sum())
    # Dimensions overlap: each of them decomposes the drop, and they do not add up.
    dimensions = []
    for rows_by_segment in _group_by_dimension(segments):
        dimensions.append(_list_falls(rows_by_segment, added, is_scored, is_paired))
    dimensions.sort(key=partial(_explained, noise=noise), reverse=True)
    now = float(distance[is_scored].mean())
    return MeanDrop(
        before=now - math.fsum(parts.values()),
        now=now,
        noise=noise,
        parts=parts,
        falls=tuple(itertools.chain.from_iterable(dimensions)),
        leader=_find_leader(dimensions[0], parts, noise),
    )


def _add_by_part(
    distance: Floats,
    changes: PairChanges,
    is_scored: Flags,
    is_paired: Flags,
) -> dict[Part, Floats]:
    """What each user adds to the drop: float64 (n,) by part."""
    scored = int(is_scored.sum())
    paired = int(is_paired.sum())
    beyond = distance - distance[is_paired].mean()
    composition = np.where(is_scored, beyond / scored, 0.0)
    composition -= np.where(is_paired, beyond / paired, 0.0)
    parts = changes.parts
    return {
        Part.MEMBERSHIP: np.where(is_paired, parts.membership / paired, 0.0),
        Part.ORDER: np.where(is_paired, parts.order / paired, 0.0),
        Part.LENGTH: np.where(is_paired, parts.length / paired, 0.0),
        Part.COMPOSITION: composition,
    }


def _group_by_dimension(segments: Mapping[str, Rows]) -> list[dict[str, Rows]]:
    """Rows by segment for each dimension, with `OTHERS`. Without a dimension: of ``all``."""
    dimensions: dict[str, dict[str, Rows]] = {}
    for segment, rows in sorted(segments.items()):
        if segment != ALL:
            dimensions.setdefault(_dimension(segment), {})[segment] = rows
    for dimension, members in dimensions.items():
        others = np.delete(segments[ALL], np.concatenate([*members.values()]))
        if len(others):
            # A real segment may have this name. Then its users are counted with the others.
            name = f"{dimension}={OTHERS}"
            members[name] = np.append(members.get(name, others[:0]), others)
    return [*dimensions.values()] or [{ALL: segments[ALL]}]


def _dimension(segment: str) -> str:
    return segment.partition("=")[0]


def _list_falls(
    segments: Mapping[str, Rows],
    added: Mapping[Part, Floats],
    is_scored: Flags,
    is_paired: Flags,
) -> list[SegmentFall]:
    """What each segment adds. First the one that fell most beyond its share of the users."""
    sums = []
    for part, values in added.items():
        if part is not Part.COMPOSITION:
            sums.append(float(values.sum()))
    change = math.fsum(sums)
    falls = []
    for segment, rows in segments.items():
        fall = SegmentFall(
            segment=segment,
            share=float(is_scored[rows].sum() / is_scored.sum()),
            share_before=float(is_paired[rows].sum() / is_paired.sum()),
            parts={part: float(values[rows].sum()) for part, values in added.items()},
            excess=0.0,
        )
        falls.append(replace(fall, excess=fall.within - fall.share_before * change))
    falls.sort(key=attrgetter("segment"))
    falls.sort(key=attrgetter("excess"), reverse=True)
    return falls


def _explained(falls: Sequence[SegmentFall], noise: float) -> float:
    """Squared drop that a dimension explains by differences of its segments, minus chance."""
    squares = [fall.excess**2 / fall.share_before for fall in falls if fall.share_before]
    return math.fsum(squares) - (len(squares) - 1) * noise**2


def _find_leader(
    falls: Sequence[SegmentFall],
    parts: Mapping[Part, float],
    noise: float,
) -> SegmentFall | None:
    """The segment that fell clearly more than the others. None if all fell.

    ``noise`` ignores how a segment varies between runs, so `_SURE` alone would not be enough.
    """
    first = falls[0]
    others = 1 - falls[0].share_before
    is_sure = first.excess > _SURE * noise * math.sqrt(first.share_before * others)
    # Parts that cancel out leave a small total, and anything would be a large share of it.
    total = math.fsum(parts.values())
    moved = max(abs(total), *map(abs, parts.values()))
    is_own = first.excess >= _CONCENTRATED * others * moved
    # The others may have risen. A segment that did not rise with them explains nothing.
    has_fallen = first.within > 0 and first.within >= first.excess / 2
    return first if len(falls) > 1 and is_sure and is_own and has_fallen else None


def find_place(hit: Flags, usual: float, segments: Mapping[str, Rows]) -> str:
    """The segment that describes best who was hit, or ``all``.

    ``usual``: share of healthy users that look as if they were hit.

    The best segment has the greatest F1 of two shares: the share of the hit users that it contains,
    and the share of its users that were hit. It must contain `_IN_SEGMENT` of the hit users, and
    clearly more than random users would. Two segments of different dimensions are named if their
    common users have a still greater F1.
    """
    n = len(segments[ALL])
    total = _beyond(hit, usual, segments[ALL])
    if total <= 0:
        return ALL

    def score(rows: Rows) -> float:
        inside = _beyond(hit, usual, rows)
        by_chance = total * len(rows) / n
        is_sure = inside - by_chance >= _SURE_OF_A_SEGMENT * math.sqrt(by_chance)
        if inside < _IN_SEGMENT * total or not (len(rows) == n or is_sure):
            return 0.0
        return 2 * inside / (total + len(rows))

    scores = {name: score(rows) for name, rows in sorted(segments.items())}
    names = [name for name in scores if name != ALL and scores[name] > 0]
    names.sort(key=scores.__getitem__, reverse=True)
    best = ALL
    if names and scores[names[0]] >= _BETTER * scores[ALL]:
        best = names[0]
    for first, second in itertools.combinations(names, 2):
        if _dimension(first) == _dimension(second):
            continue
        both = AND.join(sorted((first, second)))
        scores[both] = score(rows_of_place(both, segments))
        if scores[both] > _NARROWER * scores[best]:
            best = both
    return best


def _beyond(hit: Flags, usual: float, rows: Rows) -> float:
    """How many of these users were hit, without healthy users that look alike."""
    beyond = float(hit[rows].sum()) - usual * len(rows)
    return max(0.0, beyond) / max(1e-9, 1 - usual)


def rows_of_place(name: str, segments: Mapping[str, Rows]) -> Rows:
    """Rows of a segment's users, or of the common users of two segments joined by `AND`.

    Empty if there is no such segment.
    """
    if name in segments:
        return segments[name]
    # The name of a segment may contain the word too.
    words = name.split(AND)
    for cut in range(1, len(words)):
        first = AND.join(words[:cut])
        second = AND.join(words[cut:])
        if first in segments and second in segments:
            return np.intersect1d(segments[first], segments[second], assume_unique=True)
    return np.empty(0, dtype=np.intp)


# Sums over ranks differ by at most this where nothing changed.
_DUST = 1e-12


@immutable
class ExposureShift:
    """Items by change of exposure, most changed first, and how many items entered or left."""

    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int


def compare_exposure(
    before: Codes,
    after: Codes,
    top: int,
    name: Callable[[int], str] = str,
) -> ExposureShift:
    """The ``top`` items that gained most exposure and that lost most. Equals go by code.

    Items in fewer lists, in whole per cent, gained nothing. Items in more lists lost nothing.

    ``before`` (n, k) and ``after`` (m, j) are codes >= 0 of one meaning, distinct within a row,
    with padding -1 at the end. ``name`` returns a code's id. An item at rank r (from 1) is exposed
    by 1 / log2(r + 1), the discount of DCG (Järvelin and Kekäläinen 2002). Without lists nothing is
    exposed. O(places + items).
    """
    codes_before, codes_after, items = compact_codes(before, after)
    # Per list, so that sets of different size can be compared.
    exposure_before = _expose(codes_before, len(items))
    exposure_after = _expose(codes_after, len(items))
    share_before = _share_of_lists(codes_before, len(items))
    share_after = _share_of_lists(codes_after, len(items))
    change = exposure_after - exposure_before
    # An item that moved up in fewer lists, or down in more, would contradict the shares shown.
    change_of_share = np.rint(100 * share_after) - np.rint(100 * share_before)
    change[change_of_share * change < 0] = 0.0

    def describe(place: int) -> ExposedItem:
        return ExposedItem(
            item=name(int(items[place])),
            title=None,
            before=float(exposure_before[place]),
            after=float(exposure_after[place]),
            share_before=float(share_before[place]),
            share_after=float(share_after[place]),
        )

    return ExposureShift(
        gained=tuple(map(describe, _highest(change, top))),
        lost=tuple(map(describe, _highest(-change, top))),
        entered=int(((share_before == 0) & (share_after > 0)).sum()),
        left=int(((share_before > 0) & (share_after == 0)).sum()),
    )


def _expose(codes: Codes, items: int) -> Floats:
    """Mean exposure of each item over the lists."""
    total = np.zeros(items)
    # Added rank by rank, so that the order of lists changes no bit.
    for weight, places in zip(rank_discounts(codes.shape[1]), codes.T, strict=True):
        total += weight * np.bincount(places[places >= 0], minlength=items)
    return total / max(1, len(codes))


def _share_of_lists(codes: Codes, items: int) -> Floats:
    return np.bincount(codes[codes >= 0], minlength=items) / max(1, len(codes))


def _highest(change: Floats, top: int) -> list[int]:
    """Places of the highest positive changes, highest first, equals in their order."""
    order = np.argsort(-change, kind="stable")[: max(0, top)]
    return [int(place) for place in order if change[place] > _DUST]
