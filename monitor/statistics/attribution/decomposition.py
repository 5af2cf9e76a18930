"""Decomposes a drop of the mean by user, part and segment. Compares the exposure of items."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from monitor.measures.kernels.item_codes import count_codes, index_codes
from monitor.measures.kernels.relevance import rank_discounts
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import DropPart, ExposedItem, MeanDrop, SegmentFall
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.segments import AND
from monitor.statistics.attribution.changes import PairChanges

OTHER_SEGMENTS = "(others)"
"""Name of the group of users that have no segment in a dimension."""

# A segment is named only if it fell more than random users would, by this many standard errors.
_SURE = 4.0

# Its excess must also be at least this share of the excess that it would have as the only segment
# that fell. The excess is 0 if all segments fell alike.
_CONCENTRATED = 0.2

# A segment is named as the place of a fault only if it contains at least this share of the affected
# users.
_IN_SEGMENT = 0.8
# The F1 of the segment must be at least this many times the F1 of ``all``.
_BETTER = 1.25
# Two joined segments are named only if their F1 is more than this many times the best other F1.
_NARROWER = 1.1
# The segment must contain more affected users than a random group of its size would, by this many
# standard deviations.
_SURE_OF_A_SEGMENT = 4.0
_LEAST_UNUSUAL = 1e-9


def decompose_drop(
    distance: Floats,
    changes: PairChanges,
    segments: Mapping[str, Rows],
) -> MeanDrop | None:
    """Return what each part and each segment adds to the drop. None if no user's change is known.

    A drop of the mean score is a rise of the mean ``distance``. The parts add up to this rise. The
    ``distance`` (n,) is NaN for users without a score. ``changes`` are the changes of the users'
    distances since the earlier run.
    """
    is_scored = ~np.isnan(distance)
    change = changes.parts.total
    is_in_both = is_scored & ~np.isnan(change)
    if not is_in_both.any():
        return None
    added_by_part = _add_by_part(distance, changes, is_scored, is_in_both)
    parts = {part: float(values.sum()) for part, values in added_by_part.items()}
    drop_error = float(change[is_in_both].std()) / math.sqrt(is_in_both.sum())
    falls_of_dimensions = []
    for rows_by_segment in _group_by_dimension(segments):
        falls = _list_falls(rows_by_segment, added_by_part, is_scored, is_in_both)
        falls_of_dimensions.append(falls)
    # The dimension whose segments fell most differently comes first. The main segment can only be a
    # segment of this dimension.
    falls_of_dimensions.sort(key=lambda falls: _variance_between(falls, drop_error), reverse=True)
    mean_distance = float(distance[is_scored].mean())
    return MeanDrop(
        before=mean_distance - math.fsum(parts.values()),
        now=mean_distance,
        noise=drop_error,
        parts=parts,
        falls=tuple(itertools.chain.from_iterable(falls_of_dimensions)),
        main_segment=_find_main_segment(falls_of_dimensions[0], parts, drop_error),
    )


def _add_by_part(
    distance: Floats,
    changes: PairChanges,
    is_scored: Flags,
    is_in_both: Flags,
) -> dict[DropPart, Floats]:
    """Return for each part what each user adds to the drop, float64 (n,).

    ``is_scored`` marks the N users whose distance is defined. ``is_in_both`` marks the P of these
    users whose change since the earlier run is known too. Each of the P users adds this change,
    divided by P.

    The part ``composition`` exists because the mean is now taken over other users than before. Let
    d be a user's distance, and let m be the mean distance of the P users. Each of the N users adds
    (d - m) / N to this part, because it is in the mean now. Each of the P users subtracts
    (d - m) / P, because it was in the mean before.
    """
    scored = int(is_scored.sum())
    in_both = int(is_in_both.sum())
    above_mean = distance - distance[is_in_both].mean()
    composition = np.where(is_scored, above_mean / scored, 0.0)
    # The subtracted terms add up to 0 over all users. They only move composition between segments.
    composition -= np.where(is_in_both, above_mean / in_both, 0.0)
    parts = changes.parts
    return {
        DropPart.MEMBERSHIP: np.where(is_in_both, parts.membership / in_both, 0.0),
        DropPart.ORDER: np.where(is_in_both, parts.order / in_both, 0.0),
        DropPart.LENGTH: np.where(is_in_both, parts.length / in_both, 0.0),
        DropPart.COMPOSITION: composition,
    }


def _group_by_dimension(segments: Mapping[str, Rows]) -> list[dict[str, Rows]]:
    """Return the rows of each segment, for one dimension after the other.

    Users without a segment in a dimension are in the group `OTHER_SEGMENTS`. If there are no
    dimensions, the result is one group of all users.
    """
    dimensions: dict[str, dict[str, Rows]] = {}
    for segment, rows in sorted(segments.items()):
        if segment != ALL:
            dimensions.setdefault(_dimension_of(segment), {})[segment] = rows
    for dimension, members in dimensions.items():
        in_segments = np.concatenate([*members.values()])
        other_rows = np.setdiff1d(segments[ALL], in_segments, assume_unique=True)
        if len(other_rows):
            # If a real segment has the same name, both groups become one group.
            name = f"{dimension}={OTHER_SEGMENTS}"
            if name in members:
                other_rows = np.append(members[name], other_rows)
            members[name] = other_rows
    return [*dimensions.values()] or [{ALL: segments[ALL]}]


def _dimension_of(segment: str) -> str:
    return segment.partition("=")[0]


def _list_falls(
    segments: Mapping[str, Rows],
    added_by_part: Mapping[DropPart, Floats],
    is_scored: Flags,
    is_in_both: Flags,
) -> list[SegmentFall]:
    """Return what each segment adds to the drop. The segment with the largest ``excess`` is first.

    ``added_by_part`` has what each user adds to the drop, see `_add_by_part`. ``is_scored`` marks
    the users with a distance now. The present mean is taken over these users. ``is_in_both`` marks
    the users whose change since the earlier run is known too. The earlier mean is taken over these
    users.
    """
    # The other parts are how much of the drop is due to changed lists.
    by_changed_lists = [
        values for part, values in added_by_part.items() if part is not DropPart.COMPOSITION
    ]
    drop_by_changed_lists = math.fsum(float(values.sum()) for values in by_changed_lists)
    falls = []
    for segment, rows in segments.items():
        # Users that are only in the earlier run have no row here, so they are not counted.
        share_before = float(is_in_both[rows].sum() / is_in_both.sum())
        fall = SegmentFall(
            segment=segment,
            share=float(is_scored[rows].sum() / is_scored.sum()),
            share_before=share_before,
            parts={part: float(values[rows].sum()) for part, values in added_by_part.items()},
            excess=0.0,
        )
        # If all users fell alike, a segment of this size would add this much.
        expected = share_before * drop_by_changed_lists
        falls.append(replace(fall, excess=fall.by_changed_lists - expected))
    return sorted(falls, key=lambda fall: (-fall.excess, fall.segment))


def _variance_between(falls: Sequence[SegmentFall], drop_error: float) -> float:
    """Return how much the falls of a dimension's segments vary, minus the variance by chance.

    ``drop_error`` is the standard error of the drop.
    """
    squares = [fall.excess**2 / fall.share_before for fall in falls if fall.share_before]
    variance_by_chance = (len(squares) - 1) * drop_error**2
    return math.fsum(squares) - variance_by_chance


def _find_main_segment(
    falls: Sequence[SegmentFall],
    parts: Mapping[DropPart, float],
    drop_error: float,
) -> SegmentFall | None:
    """Return the segment that fell clearly more than the other segments, or None.

    ``falls`` has the segments of one dimension. The segment with the largest excess is first.
    ``by_changed_lists`` is what the changed lists of the segment add to the drop. ``excess`` is
    this amount minus what the segment would add if all users fell alike. ``parts`` add up to the
    drop.

    ``drop_error`` is the standard error of the drop. It ignores how a segment varies between runs,
    so the limit `_SURE` alone is not enough. The segment must also reach `_CONCENTRATED`.
    """
    if len(falls) == 1:
        # This segment has all users, so there is no other segment to compare with.
        return None
    first = falls[0]
    share_of_others = 1 - first.share_before
    # If the segment's users were drawn at random, its excess would have this standard error.
    excess_error = drop_error * math.sqrt(first.share_before * share_of_others)
    # If the parts cancel out, their total is small, and every excess would be a large share of the
    # total. Then the largest part is used instead.
    total = math.fsum(parts.values())
    drop_size = max(abs(total), *map(abs, parts.values()))
    # If only this segment fell, it added the whole drop. Then its excess is the drop, times the
    # share of the users in other segments.
    excess_if_alone = share_of_others * drop_size
    is_sure = first.excess > _SURE * excess_error
    is_concentrated = first.excess >= _CONCENTRATED * excess_if_alone
    # The excess is also large if the other segments rose. So the segment's own fall must be at
    # least half of the excess.
    has_fallen = first.by_changed_lists > 0 and first.by_changed_lists >= first.excess / 2
    if is_sure and is_concentrated and has_fallen:
        return first
    return None


def find_affected_segment(
    affected: Flags, usual: float | Floats, segments: Mapping[str, Rows]
) -> str:
    """Return the name of the segment that describes best which users were affected, or ``all``.

    ``affected`` marks the users that look affected, (n,). ``usual`` is the share of healthy users
    that look affected too. If it is not the same for all users, it is the probability of each user,
    (n,).

    The best segment has the greatest F1, which is the harmonic mean of two shares. The first is the
    share of all affected users that are in the segment. The second is the share of the segment's
    users that were affected. The segment must contain `_IN_SEGMENT` of the affected users, and
    clearly more of them than a random group of the same size would. Two segments of different
    dimensions are named together if the users in both have a clearly greater F1. `rows_of_segment`
    reads such a joined name.
    """
    users = len(segments[ALL])
    usual = np.broadcast_to(usual, affected.shape)
    # For the healthy users that look affected, `_estimate_affected` subtracts the share ``usual``
    # of the users. If there are fewer of them, the estimate for all users is too low. The estimate
    # for a segment has fewer users to subtract, so it may be higher and better.
    affected_users = max(_estimate_affected(affected, usual, rows) for rows in segments.values())
    if affected_users <= 0:
        return ALL

    def measure_f1(rows: Rows) -> float:
        """Return the F1, or 0 if the segment does not contain enough of the affected users."""
        affected_inside = _estimate_affected(affected, usual, rows)
        by_chance = affected_users * len(rows) / users
        is_sure = affected_inside - by_chance >= _SURE_OF_A_SEGMENT * math.sqrt(by_chance)
        # A group of all users never has more affected users than a random group.
        is_everybody = len(rows) == users
        has_most = affected_inside >= _IN_SEGMENT * affected_users
        if has_most and (is_sure or is_everybody):
            # This is the harmonic mean of affected_inside / affected_users and
            # affected_inside / len(rows).
            return 2 * affected_inside / (affected_users + len(rows))
        return 0.0

    f1 = {name: measure_f1(rows) for name, rows in sorted(segments.items())}
    # The segments with the greatest F1 come first.
    names = [name for name in f1 if name != ALL and f1[name] > 0]
    names.sort(key=lambda name: -f1[name])
    best = ALL
    if names and f1[names[0]] >= _BETTER * f1[ALL]:
        best = names[0]
    # Each pair must be clearly better than the best name so far, which may be an earlier pair.
    for first, second in itertools.combinations(names, 2):
        if _dimension_of(first) == _dimension_of(second):
            continue
        joint_name = AND.join(sorted((first, second)))
        f1[joint_name] = measure_f1(rows_of_segment(joint_name, segments))
        if f1[joint_name] > _NARROWER * f1[best]:
            best = joint_name
    return best


def _estimate_affected(affected: Flags, usual: Floats, rows: Rows) -> float:
    """Estimate how many of the users in these rows were affected.

    The healthy users that look affected are subtracted. ``usual`` is the probability that a healthy
    user looks affected, (n,).
    """
    if not len(rows):
        return 0.0
    usual_users = float(usual[rows].sum())
    beyond_usual = float(affected[rows].sum()) - usual_users
    # If all healthy users look affected, this share is 0. The limit avoids a division by 0.
    unusual_share = 1 - usual_users / len(rows)
    return max(0.0, beyond_usual) / max(_LEAST_UNUSUAL, unusual_share)


def rows_of_segment(name: str, segments: Mapping[str, Rows]) -> Rows:
    """Return the rows of the users of a segment.

    The name may join two segments by `AND`. Then the users in both segments are returned.
    The result is empty if there is no segment with this name.
    """
    if name in segments:
        return segments[name]
    # A segment's name may contain `AND` itself, so every way to cut the name is tried.
    words = name.split(AND)
    for cut in range(1, len(words)):
        first = AND.join(words[:cut])
        second = AND.join(words[cut:])
        if first in segments and second in segments:
            return np.intersect1d(segments[first], segments[second], assume_unique=True)
    return np.empty(0, dtype=np.intp)


# Rounding can make two equal sums over ranks differ by at most this.
_ROUNDING_ERROR = 1e-12
_RANKS_AT_ONCE = 16  # 16 codes are in one line of the cache


@immutable
class ExposureShift:
    """The items whose exposure changed most, and how many items entered or left the lists."""

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
    """Return the ``top`` items that gained most exposure, and the ``top`` items that lost most.

    Items with equal changes are ordered by code. An item that is now in fewer lists is never among
    the gains. An item that is now in more lists is never among the losses. For this, shares of
    lists are compared in whole per cent, as texts show them.

    ``before`` (n, k) and ``after`` (m, j) use the same codes >= 0. A row has each code at most
    once. The end of a row is padded with -1. ``name`` returns the id of a code. An item at place r
    (from 1) has the exposure 1 / log2(r + 1), the discount of DCG (Järvelin and Kekäläinen 2002).
    If there are no lists, all exposures are 0. The cost is O(places + items).
    """
    codes_before, codes_after, items = index_codes(before, after)
    exposure_before, share_before = _measure_exposure(codes_before, len(items))
    exposure_after, share_after = _measure_exposure(codes_after, len(items))
    change = exposure_after - exposure_before
    # Exposure and share of lists may change in opposite directions. The texts show shares, so such
    # an item would confuse the reader. It is left out.
    change_of_share = np.rint(100 * share_after) - np.rint(100 * share_before)
    change[change_of_share * change < 0] = 0.0

    def describe(index: int) -> ExposedItem:
        return ExposedItem(
            item=name(int(items[index])),
            title=None,
            before=float(exposure_before[index]),
            after=float(exposure_after[index]),
            share_before=float(share_before[index]),
            share_after=float(share_after[index]),
        )

    return ExposureShift(
        gained=tuple(map(describe, _highest(change, top))),
        lost=tuple(map(describe, _highest(-change, top))),
        entered=int(((share_before == 0) & (share_after > 0)).sum()),
        left=int(((share_before > 0) & (share_after == 0)).sum()),
    )


def _measure_exposure(codes: Codes, items: int) -> tuple[Floats, Floats]:
    """Return each item's mean exposure over the lists, and the share of the lists with this item.

    ``codes`` (n, k) has the codes 0 to ``items`` - 1, and -1 as padding. Both results have the
    shape (items,).
    """
    exposure = np.zeros(items)
    lists_with_item = np.zeros(items, dtype=np.int64)
    # Exposure is added rank by rank, so the result is bit-identical for every order of the lists.
    discounts = rank_discounts(codes.shape[1])
    for first_rank in range(0, len(discounts), _RANKS_AT_ONCE):
        ranks = slice(first_rank, first_rank + _RANKS_AT_ONCE)
        by_rank = np.ascontiguousarray(codes[:, ranks].T)
        for discount, codes_at_rank in zip(discounts[ranks], by_rank, strict=True):
            counts = count_codes(codes_at_rank, items)
            exposure += discount * counts
            lists_with_item += counts
    # Both are divided by the number of lists, so that sets of different size can be compared.
    return exposure / max(1, len(codes)), lists_with_item / max(1, len(codes))


def _highest(change: Floats, top: int) -> list[int]:
    """Return the indexes of the ``top`` highest positive changes, highest first.

    Equal changes keep their order.
    """
    order = np.argsort(-change, kind="stable")[:top]
    return [int(index) for index in order if change[index] > _ROUNDING_ERROR]
