"""Each pair's distance split into membership, order and length, and the means of these parts by segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from monitor.kernels import PAD, blocks
from monitor.model import ALL, ByArm, PairBatch, PartMeans
from monitor.model.arrays import Codes, Flags, Floats, Rows

ScoreBatch: TypeAlias = Callable[[PairBatch], Floats]
"""Scores of n pairs, float64 (n,), NaN where undefined; a pair's score must not depend on the other pairs."""

_DUST = 1e-12
_BLOCK_CELLS = 1 << 19
_NARROW_K = 1 << 14  # twice as many keys and as many places fit 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What each of n users' distance from identical lists is made of: three float64 (n,), all NaN where one is undefined.

    ``membership``: items replaced; ``order``: items moved; ``length``: one list is shorter than the other.
    """

    membership: Floats
    order: Floats
    length: Floats

    def __len__(self) -> int:
        return len(self.membership)

    @property
    def whole(self) -> Floats:
        """The distance itself: the score of identical lists less the score of these."""
        return self.membership + self.order + self.length

    def take(self, rows: Rows) -> Parts:
        """The parts of these users, in this order."""
        return Parts(membership=self.membership[rows], order=self.order[rows], length=self.length[rows])


def split_distances(batch: PairBatch, score: ScoreBatch, *, higher_is_more_alike: bool = True) -> Parts:
    """Split score(B, B) - score(B, C) of each pair exactly, by walking from the baseline's list B to the candidate's C.

    With s the length of the shorter list, the walk and the part that each step belongs to::

        B  --length-->  B cut to s  --membership-->  H  --order-->  C cut to s  --length-->  C

    H holds the items of C cut to s; those that B lists, too, stand in B's order on the places that C gives them, the others
    where C has them. So order is what common items do among themselves, and an item put on top moves nobody. One of the two
    steps of length is always empty. Scores and weights follow the walk: a weight and a grade go with their item, a tie stays
    where C has it.

    A new item that stands higher than the one whose place it takes is both replaced and moved. With J, the common items on B's
    places and the new ones on those left, B to J is what replacing alone costs, H to C what moving common items alone costs,
    and what is left, J to H, goes to membership and order in proportion to these two: an item put on top of lists that keep
    their order is replaced, lists turned upside down have moved.

    Parts may be negative: measures that forgive short lists, such as ``rbo`` and ``rbo_max``, grow where a list is cut. For
    measures that never prefer a wrong order or item, membership and order are at least 0. A positive part always drives lists
    apart, of distances (``higher_is_more_alike`` False) too. Where score(B, B) is no number (an empty baseline; users of whom
    no relevance is known) or any step's is none, all parts are NaN. Where it depends on the user, as for measures of one arm's
    relevance, parts explain the distance from the baseline's own score.

    Six scorings and sorting, O(n k log k): with machine code the sorting takes most. The walk is one of several; another would
    share out interactions otherwise (sequential decomposition: Oaxaca 1973; DiNardo, Fortin and Lemieux 1996).
    """
    # Pairs do not depend on each other: so many at once stay near the processor, and little memory is taken.
    step = max(1, _BLOCK_CELLS // max(1, batch.baseline.shape[1]))
    blocks_of = [batch.take(slice(low, low + step)) for low in range(0, max(1, len(batch)), step)]
    steps = np.concatenate([_walk(each, score) for each in blocks_of], axis=1)
    membership, order, length = steps if higher_is_more_alike else -steps
    return Parts(membership=membership, order=order, length=length)


def _walk(batch: PairBatch, score: ScoreBatch) -> Floats:
    """What the score loses by membership, order and length: (3, n)."""
    short = np.minimum(batch.baseline_lengths, batch.candidate_lengths)
    own, cut = _with_baseline_twice(batch), _cut(batch, short)
    ranks = _baseline_ranks(cut)
    placed = _reorder(cut, _places_of_replaced(ranks, short))
    walk = (own, _cut(own, short), placed, _reorder(cut, _places_in_baseline_order(ranks)), cut, batch)
    start, shortened, alone, replaced, moved, end = (_finite(score(step)) for step in walk)
    is_known = ~np.isnan(start + shortened + replaced + moved + end)
    both = _share_of_order(shortened - alone, replaced - moved) * (alone - replaced)
    steps = (shortened - replaced - both, replaced - moved + both, (start - shortened) + (moved - end))
    return np.where(is_known, steps, np.nan)


def _share_of_order(replaced: Floats, moved: Floats) -> Floats:
    """What order has of the two together, 0 to 1; 0 where there is nothing to go by."""
    total = np.abs(replaced) + np.abs(moved)
    share = np.divide(np.abs(moved), total, out=np.zeros_like(total), where=total > _DUST)
    return np.where(np.isnan(total), 0.0, share)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _with_baseline_twice(batch: PairBatch) -> PairBatch:
    """The baseline against itself."""
    labels = batch.labels
    return replace(
        batch,
        candidate=batch.baseline,
        candidate_lengths=batch.baseline_lengths,
        scores=batch.scores and ByArm(baseline=batch.scores.baseline, candidate=batch.scores.baseline),
        weights=batch.weights and ByArm(baseline=batch.weights.baseline, candidate=batch.weights.baseline),
        labels=labels and replace(labels, grades=ByArm(baseline=labels.grades.baseline, candidate=labels.grades.baseline)),
    )


def _cut(batch: PairBatch, lengths: Codes) -> PairBatch:
    """The batch with each candidate list cut to its length."""
    is_kept = np.arange(batch.candidate.shape[1]) < lengths[:, None]

    def keep(places: Floats, beyond: float) -> Floats:
        return np.where(is_kept, places, beyond)

    codes = np.where(is_kept, batch.candidate, np.int32(PAD))
    return _change(replace(batch, candidate=codes, candidate_lengths=np.minimum(batch.candidate_lengths, lengths)), keep)


def _reorder(batch: PairBatch, source: Rows) -> PairBatch:
    """The batch with each place of the candidate lists taken by the item from the place in ``source``, cells of all lists."""

    def move(places: Floats, _: float) -> Floats:
        return places.ravel().take(source).reshape(places.shape)

    codes = batch.candidate.ravel().take(source).reshape(batch.candidate.shape)
    return _change(replace(batch, candidate=codes), move, moves_scores=False)


def _change(batch: PairBatch, change: Callable[[Floats, float], Floats], *, moves_scores: bool = True) -> PairBatch:
    """The batch with the same change made to what is known of the candidate's items, place by place."""
    scores, weights, labels = batch.scores, batch.weights, batch.labels
    if scores is not None and moves_scores:
        scores = replace(scores, candidate=change(scores.candidate, np.nan))
    if weights is not None:
        weights = replace(weights, candidate=change(weights.candidate, np.nan))
    if labels is not None:
        labels = replace(labels, grades=replace(labels.grades, candidate=change(labels.grades.candidate, 0.0)))
    return replace(batch, scores=scores, weights=weights, labels=labels)


def _places_of_replaced(ranks: Rows, lengths: Codes) -> Rows:
    """For each candidate cell the one whose item stands there once common items are back on the baseline's places: (n * k)."""
    n, k = ranks.shape
    has_place = ranks < lengths[:, None]
    is_taken = np.zeros((n, k + 1), dtype=np.bool_)
    is_taken.ravel()[np.where(has_place, ranks, k) + (k + 1) * np.arange(n)[:, None]] = True
    # The others, and those from below the shorter length, take the places left, in the order of ``ranks`` and then as they
    # stood.
    return _move(np.where(has_place, ranks, ranks + k), to=~is_taken[:, :k])


def _places_in_baseline_order(ranks: Rows) -> Rows:
    """For each candidate cell the one whose item stands there once common items are sorted: (n * k)."""
    # Common items first, by the baseline's rank; then all others as they stand. Both sorts are stable, so that the i-th
    # of the others falls on the i-th place of the others: its own.
    return _move(ranks, to=ranks == ranks.shape[1])


def _move(items: Rows, to: Flags) -> Rows:
    """For each cell the one whose item moves there when the cells of a row in the order of ``items`` fill those of ``to``."""
    source = np.empty(items.size, dtype=np.intp)
    source[_ordered_cells(to)] = _ordered_cells(items)
    return source


def _ordered_cells(keys: Rows | Flags) -> Rows:
    """The cells of each row in the order of its keys, 0 to 2 k, equals as they stand: (n * k)."""
    n, k = keys.shape
    # Key and place as one number: sorted several times as fast as places by key.
    bits = k.bit_length()
    packed = np.left_shift(keys, bits, dtype=np.int32 if k < _NARROW_K else np.int64)
    packed |= np.arange(k, dtype=packed.dtype)
    packed.sort(axis=1)
    places: Rows = (packed & ((1 << bits) - 1)) + k * np.arange(n)[:, None]
    return places.ravel()


def _baseline_ranks(batch: PairBatch) -> Rows:
    """Where each candidate item stands in the baseline's list, k for items that it lacks and behind the end: (n, k)."""
    n, k = batch.candidate.shape
    ranks = np.full((n, k), k, dtype=np.intp)
    for rows, alignment in blocks(batch):
        found = alignment.candidate_positions.T
        ranks[rows, : alignment.k] = np.where(found == alignment.k, k, found)
    return ranks


def average_parts(parts: Parts, segments: Mapping[str, Rows], asked: Mapping[str, int]) -> tuple[PartMeans, ...]:
    """Means by segment, ``all`` first: of the rows in ``segments`` that are known; a segment that is only asked has n = 0.

    A segment missing from ``asked`` counts as many users asked as it has rows.
    """
    none = np.empty(0, dtype=np.intp)
    names = sorted({*segments, *asked}, key=lambda name: (name != ALL, name))
    return tuple(_average(parts, name, segments.get(name, none), asked.get(name)) for name in names)


def _average(parts: Parts, segment: str, rows: Rows, asked: int | None) -> PartMeans:
    known = rows[~np.isnan(parts.whole[rows])]
    means = [float(values[known].mean()) if len(known) else np.nan for values in (parts.membership, parts.order, parts.length)]
    return PartMeans(
        segment=segment,
        asked=len(rows) if asked is None else max(asked, len(rows)),
        n=len(known),
        membership=means[0],
        order=means[1],
        length=means[2],
        spread=float(parts.whole[known].std()) if len(known) else np.nan,
    )


def pool_runs(runs: Sequence[Sequence[PartMeans]]) -> tuple[PartMeans, ...]:
    """The runs' means taken together, users counting alike: what all their users as one run would have given."""
    by_segment: dict[str, list[PartMeans]] = {}
    for run in runs:
        for row in run:
            by_segment.setdefault(row.segment, []).append(row)
    return tuple(_pool(by_segment[name]) for name in sorted(by_segment, key=lambda name: (name != ALL, name)))


def _pool(rows: Sequence[PartMeans]) -> PartMeans:
    known = [row for row in rows if row.n]
    weights = np.array([row.n for row in known], dtype=np.float64)
    total = weights.sum()
    means = np.array([(row.membership, row.order, row.length) for row in known]).reshape(-1, 3)
    pooled = weights @ means / total if known else np.full(3, np.nan)
    wholes, spreads = means.sum(axis=1), np.array([row.spread for row in known])
    # Law of total variance: within the runs, and between their means.
    variance = weights @ (spreads**2 + (wholes - pooled.sum()) ** 2) / total if known else np.nan
    return PartMeans(
        segment=rows[0].segment,
        asked=sum(row.asked for row in rows),
        n=sum(row.n for row in rows),
        membership=float(pooled[0]),
        order=float(pooled[1]),
        length=float(pooled[2]),
        spread=float(np.sqrt(variance)),
    )
