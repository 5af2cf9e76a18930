"""A drop of the mean as what each user adds to it, by part and by segment, and what gained and lost exposure beside it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from monitor.attribution.changes import PairChanges
from monitor.kernels.exposure import compact_codes
from monitor.kernels.relevance import rank_discounts
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import Cause, ExposedItem, Part, SegmentFall
from monitor.model.rankings import ALL

OTHERS = "(others)"
"""Users of no segment of the dimension."""

# Standard errors over users below which a drop is not clear: it would not be there for other users.
_CLEAR = 2.0

# Standard errors by which a segment must have fallen more than so many users drawn at random before
# it is named.
_SURE = 4.0

# How much of a drop must be a segment's own before it is named: 0 where all fell alike, 1 where
# nobody else fell.
_CONCENTRATED = 0.2

AND = " and "
"""Stands between the names of two segments whose common users are meant."""
# Share of those hit that a segment must hold before it is named, and how much better it must tell
# them than all users do.
_HELD = 0.8
_BETTER = 1.25
_NARROWER = 1.1
# Standard deviations by which it must hold more of them than as many users drawn at random.
_SURE_OF_A_SEGMENT = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanDrop:
    """A drop of the mean score: the mean distance ``now`` less the one ``before``, which is the sum of ``parts``."""

    before: float
    now: float
    noise: float  # standard error over users of the change of their lists; runs wander beyond it
    parts: Mapping[Part, float]
    falls: tuple[
        SegmentFall, ...
    ]  # sum to it over each dimension, the one that explains most and who fell most first
    leader: SegmentFall | None  # what fell more than the others beyond doubt and by enough, if any

    @property
    def whole(self) -> float:
        """The drop: how much farther from identical lists than before, negative for a rise."""
        return self.now - self.before

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Its parts, the largest first."""
        found = (Cause(part=part, amount=amount) for part, amount in self.parts.items())
        return tuple(sorted(found, key=lambda cause: -cause.amount))

    @property
    def is_clear(self) -> bool:
        """Whether the mean fell by more than chance among users alone could do."""
        return self.whole > 0 and self.whole >= _CLEAR * self.noise

    @property
    def is_rise(self) -> bool:
        """Whether the mean rose by more than chance among users alone could do."""
        return self.whole < 0 and -self.whole >= _CLEAR * self.noise


def decompose_drop(
    distance: Floats, changes: PairChanges, segments: Mapping[str, Rows]
) -> MeanDrop | None:
    """The drop in what each user adds, summed by part and segment.

    None where no user's change is known.

    Of n users the ``distance`` of N is known, and of P of these the change by part; m is the mean
    distance of the P. Each of the P adds a P-th of its change, and by composition a user of
    distance d adds (d - m) / N, one of the P less (d - m) / P.
    """
    is_scored, change = ~np.isnan(distance), changes.parts.whole
    is_paired = is_scored & ~np.isnan(change)
    if not is_paired.any():
        return None
    added = _add_by_part(distance, changes, is_scored, is_paired)
    parts = {part: float(values.sum()) for part, values in added.items()}
    noise = float(change[is_paired].std()) / math.sqrt(is_paired.sum())
    # Dimensions overlap: each is a decomposition by itself, and none adds to another's.
    dimensions = [
        _list_falls(rows, added, is_scored, is_paired) for rows in _group_by_dimension(segments)
    ]
    dimensions.sort(key=lambda falls: -_explained(falls, noise))
    now = float(distance[is_scored].mean())
    return MeanDrop(
        before=now - math.fsum(parts.values()),
        now=now,
        noise=noise,
        parts=parts,
        falls=tuple(fall for falls in dimensions for fall in falls),
        leader=_find_leader(dimensions[0], parts, noise),
    )


def _add_by_part(
    distance: Floats, changes: PairChanges, is_scored: Flags, is_paired: Flags
) -> dict[Part, Floats]:
    """What each user adds to the drop: float64 (n,) by part."""
    scored, paired = int(is_scored.sum()), int(is_paired.sum())
    beyond = distance - distance[is_paired].mean()
    return {
        Part.MEMBERSHIP: np.where(is_paired, changes.parts.membership / paired, 0.0),
        Part.ORDER: np.where(is_paired, changes.parts.order / paired, 0.0),
        Part.LENGTH: np.where(is_paired, changes.parts.length / paired, 0.0),
        Part.COMPOSITION: np.where(is_scored, beyond / scored, 0.0)
        - np.where(is_paired, beyond / paired, 0.0),
    }


def _group_by_dimension(segments: Mapping[str, Rows]) -> list[dict[str, Rows]]:
    """Rows by segment, dimension by dimension, with `OTHERS` where a dimension leaves users out; of ``all`` without any."""
    found: dict[str, dict[str, Rows]] = {}
    for segment, rows in sorted(segments.items()):
        if segment != ALL:
            found.setdefault(segment.partition("=")[0], {})[segment] = rows
    for dimension, of_dimension in found.items():
        left = np.delete(segments[ALL], np.concatenate([*of_dimension.values()]))
        if len(left):
            # A value from outside may bear that name itself: its users are then counted with the
            # others.
            name = f"{dimension}={OTHERS}"
            of_dimension[name] = np.append(of_dimension.get(name, left[:0]), left)
    return [*found.values()] or [{ALL: segments[ALL]}]


def _list_falls(
    segments: Mapping[str, Rows], added: Mapping[Part, Floats], is_scored: Flags, is_paired: Flags
) -> list[SegmentFall]:
    """What each segment adds; first who fell most beyond its share."""
    change = math.fsum(
        float(values.sum()) for part, values in added.items() if part is not Part.COMPOSITION
    )
    falls = []
    for segment, rows in segments.items():
        parts = {part: float(values[rows].sum()) for part, values in added.items()}
        share, share_before = (
            float(is_known[rows].sum() / is_known.sum()) for is_known in (is_scored, is_paired)
        )
        fall = SegmentFall(
            segment=segment, share=share, share_before=share_before, parts=parts, excess=0.0
        )
        falls.append(replace(fall, excess=fall.within - share_before * change))
    return sorted(falls, key=lambda fall: (-fall.excess, fall.segment))


def _explained(falls: Sequence[SegmentFall], noise: float) -> float:
    """Squared drop that a dimension explains: how differently its segments fell, less what chance alone would show."""
    fell = [fall for fall in falls if fall.share_before]
    return (
        math.fsum(fall.excess**2 / fall.share_before for fall in fell) - (len(fell) - 1) * noise**2
    )


def _find_leader(
    falls: Sequence[SegmentFall], parts: Mapping[Part, float], noise: float
) -> SegmentFall | None:
    """The segment that fell more than the others beyond doubt and by enough.

    None when it was everywhere.

    What one segment wanders by itself is not in ``noise``: hence `_CONCENTRATED` beside `_SURE`.
    """
    first, others = falls[0], 1 - falls[0].share_before
    is_sure = first.excess > _SURE * noise * math.sqrt(first.share_before * others)
    # Parts that cancel out leave a small whole, of which anything would be a large share.
    moved = max(abs(math.fsum(parts.values())), *map(abs, parts.values()))
    is_own = first.excess >= _CONCENTRATED * others * moved
    # Others may have risen; a segment that merely did not rise with them explains nothing.
    has_fallen = first.within > 0 and first.within >= first.excess / 2
    return first if len(falls) > 1 and is_sure and is_own and has_fallen else None


def find_place(hit: Flags, usual: float, segments: Mapping[str, Rows]) -> str:
    """The segment that tells best who was hit, ``all`` where none does.

    ``usual``: share of all that would be hit anyhow.

    It has the greatest F1 of the share of those hit that it holds and the share of its users that
    were hit, if it holds `_HELD` of them and more than chance beyond doubt. Two of different
    dimensions are named when their common users tell better still.
    """
    n, total = len(segments[ALL]), _beyond(hit, usual, segments[ALL])
    if total <= 0:
        return ALL

    def score(rows: Rows) -> float:
        found, by_chance = _beyond(hit, usual, rows), total * len(rows) / n
        is_sure = len(rows) == n or found - by_chance >= _SURE_OF_A_SEGMENT * math.sqrt(by_chance)
        return 2 * found / (total + len(rows)) if is_sure and found >= _HELD * total else 0.0

    scores = {name: score(rows) for name, rows in sorted(segments.items())}
    holding = [
        name
        for name in sorted(scores, key=lambda name: -scores[name])
        if name != ALL and scores[name] > 0
    ]
    best = holding[0] if holding and scores[holding[0]] >= _BETTER * scores[ALL] else ALL
    for first, second in combinations(holding, 2):
        if first.partition("=")[0] != second.partition("=")[0]:
            both = AND.join(sorted((first, second)))
            scores[both] = score(rows_of_place(both, segments))
            best = both if scores[both] > _NARROWER * scores[best] else best
    return best


def _beyond(hit: Flags, usual: float, rows: Rows) -> float:
    """How many of these users were hit that would not have been anyhow."""
    return max(0.0, float(hit[rows].sum()) - usual * len(rows)) / max(1e-9, 1 - usual)


def rows_of_place(name: str, segments: Mapping[str, Rows]) -> Rows:
    """Rows of the users of a segment, or of the common ones of two joined by `AND`.

    None where it is not known.
    """
    if name in segments:
        return segments[name]
    # A name from outside may hold the word itself.
    words = name.split(AND)
    for cut in range(1, len(words)):
        first, second = AND.join(words[:cut]), AND.join(words[cut:])
        if first in segments and second in segments:
            return np.intersect1d(segments[first], segments[second], assume_unique=True)
    return np.empty(0, dtype=np.intp)


# Sums over ranks leave up to this where nothing changed.
_DUST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureShift:
    """Items by change of exposure, most changed first, and how many items came into the lists and left them altogether."""

    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int


def compare_exposure(
    before: Codes, after: Codes, top: int, name: Callable[[int], str] = str
) -> ExposureShift:
    """The ``top`` items that gained and that lost most exposure from one set of lists to another; equals go by code.

    Items that are in fewer lists by whole per cents gained nothing, and items in more lists lost nothing.

    ``before`` (n, k), ``after`` (m, j): codes >= 0, padding -1 at the end, distinct within a row, of one meaning; ``name``: a
    code's id. An item at rank r (from 1) is exposed by 1 / log2(r + 1), the discount of DCG (Järvelin and Kekäläinen 2002). A
    side without lists exposes nothing. O(places + items).
    """
    ours, theirs, items = compact_codes(before, after)
    # Per list, so that sets of different size can be compared.
    exposures = [_expose(codes, len(items)) for codes in (ours, theirs)]
    shares = [
        np.bincount(codes[codes >= 0], minlength=len(items)) / max(1, len(codes))
        for codes in (ours, theirs)
    ]
    change = exposures[1] - exposures[0]
    # An item that moved up in fewer lists, or down in more, would contradict the shares that are
    # shown of it.
    percents = np.rint(100 * shares[0]), np.rint(100 * shares[1])
    change[(percents[1] - percents[0]) * change < 0] = 0.0

    def describe(places: Rows) -> tuple[ExposedItem, ...]:
        columns = zip(
            items[places].tolist(),
            *(values[places].tolist() for values in (*exposures, *shares)),
            strict=True,
        )
        return tuple(
            ExposedItem(
                item=name(code),
                title=None,
                before=then,
                after=now,
                share_before=share_then,
                share_after=share_now,
            )
            for code, then, now, share_then, share_now in columns
        )

    return ExposureShift(
        gained=describe(_highest(change, top)),
        lost=describe(_highest(-change, top)),
        entered=int(((shares[0] == 0) & (shares[1] > 0)).sum()),
        left=int(((shares[0] > 0) & (shares[1] == 0)).sum()),
    )


def _expose(codes: Codes, items: int) -> Floats:
    """Mean exposure of each item over the lists."""
    total = np.zeros(items)
    # Added up rank by rank, so that the order of lists changes no bit.
    for weight, places in zip(rank_discounts(codes.shape[1]), codes.T, strict=True):
        total += weight * np.bincount(places[places >= 0], minlength=items)
    return total / max(1, len(codes))


def _highest(change: Floats, top: int) -> Rows:
    """Places of the highest positive changes, highest first, equals in their order."""
    order = np.argsort(-change, kind="stable")[: max(0, top)]
    return order[change[order] > _DUST]
