"""Each pair's distance from identical lists, split into membership, order and length."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from monitor.immutable import immutable
from monitor.kernels import PAD, blocks
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import PartMeans
from monitor.model.rankings import ByArm, PairBatch

ScoreBatch: TypeAlias = Callable[[PairBatch], Floats]
"""Scores n pairs: float64 (n,), higher for lists that are more alike, NaN where undefined.

The score of a pair does not depend on the other pairs.
"""

_DUST = 1e-12


@immutable
class Parts:
    """The parts of n users' distances: three float64 (n,), all NaN where one is undefined."""

    membership: Floats  # items replaced
    order: Floats  # items moved
    length: Floats  # one list is shorter than the other

    def __len__(self) -> int:
        return len(self.membership)

    @property
    def total(self) -> Floats:
        """The distance: the score of identical lists minus the score of these."""
        return self.membership + self.order + self.length


def split_distances(batch: PairBatch, score: ScoreBatch) -> Parts:
    """Split score(B, B) - score(B, C) of each pair exactly, by `walk_to` from B to C.

    B is the baseline's list and C the candidate's. Positive parts drive lists apart. Parts are
    negative for metrics that forgive short lists, such as ``rbo``, or that may prefer a wrong order
    or item. All parts are NaN where any score is, as with an empty baseline. Relevance is ignored.
    O(n k).
    """
    return share_steps(walk_to(_with_baseline_twice(batch), batch), score)


def walk_to(before: PairBatch, after: PairBatch) -> tuple[PairBatch, ...]:
    """The steps from candidate lists L' (``before``) to L (``after``), and the batch J.

    Only the candidate's lists of the two batches may differ. With s the length of the shorter
    list, the walk and the part of each step are::

        L'  --length-->  L' cut to s  --membership-->  H  --order-->  L cut to s  --length-->  L

    H has the items of L cut to s. Items that L' cut to s has too are on the places that L gives to
    such items, in the order of L'. The other items are where L has them. So order is the order of
    common items, and membership is exactly 0 for the same items. J has the common items where L'
    has them and the new items on the other places. A weight moves with its item, and a tie stays
    where L has it. Other walks would divide interactions differently (sequential decomposition:
    Oaxaca 1973; DiNardo, Fortin and Lemieux 1996).
    """
    shorter = np.minimum(before.candidate_lengths, after.candidate_lengths)
    start = _cut(before, shorter)
    end = _cut(after, shorter)
    is_common_at_start = np.zeros(start.candidate.shape, dtype=np.bool_)
    is_common_at_end = np.zeros(end.candidate.shape, dtype=np.bool_)
    moved = replace(
        start,
        baseline=start.candidate,
        candidate=end.candidate,
        baseline_lengths=shorter,
        scores=None,
        weights=None,
        labels=None,
    )
    for rows, alignment in blocks(moved):
        k = alignment.k
        is_common_at_start[rows, :k] = (alignment.positions < k).T
        is_common_at_end[rows, :k] = (alignment.candidate_positions < k).T
    is_removed = ~is_common_at_start & (start.candidate >= 0)
    is_new = ~is_common_at_end & (end.candidate >= 0)
    hybrid = _exchange(end, is_common_at_end, start, is_common_at_start)
    return before, start, hybrid, end, after, _exchange(start, is_removed, end, is_new)


def share_steps(walk: Sequence[PairBatch], score: ScoreBatch) -> Parts:
    """The cost of the steps of `walk_to`, by part. Each different batch is scored once.

    L' to J is the cost of replacing items alone, H to L the cost of moving common items alone. The
    rest, J to H, is divided in proportion to these two.
    """
    scores: dict[int, Floats] = {}
    for step in walk:
        if id(step) not in scores:
            values = score(step)
            scores[id(step)] = np.where(np.isfinite(values), values, np.nan)
    start, shortened, replaced, moved, end, alone = (scores[id(step)] for step in walk)
    is_known = ~np.isnan(start + shortened + replaced + moved + end)
    both = _share_of_order(shortened - alone, replaced - moved) * (alone - replaced)
    return Parts(
        membership=np.where(is_known, shortened - replaced - both, np.nan),
        order=np.where(is_known, replaced - moved + both, np.nan),
        length=np.where(is_known, (start - shortened) + (moved - end), np.nan),
    )


def _share_of_order(replaced: Floats, moved: Floats) -> Floats:
    """The share of order in the two costs, 0 to 1. 0 where there is no cost."""
    total = np.abs(replaced) + np.abs(moved)
    share = np.divide(np.abs(moved), total, out=np.zeros_like(total), where=total > _DUST)
    return np.where(np.isnan(total), 0.0, share)


def _with_baseline_twice(batch: PairBatch) -> PairBatch:
    """The baseline against itself."""
    scores = batch.scores
    weights = batch.weights
    return replace(
        batch,
        candidate=batch.baseline,
        candidate_lengths=batch.baseline_lengths,
        scores=scores and ByArm(baseline=scores.baseline, candidate=scores.baseline),
        weights=weights and ByArm(baseline=weights.baseline, candidate=weights.baseline),
    )


def _cut(batch: PairBatch, lengths: Codes) -> PairBatch:
    """The batch with each candidate list cut to its length. The same object if none is longer."""
    if (batch.candidate_lengths <= lengths).all():
        return batch
    is_inside = np.arange(batch.candidate.shape[1]) < lengths[:, None]

    def cut(values: ByArm) -> ByArm:
        return replace(values, candidate=np.where(is_inside, values.candidate, np.nan))

    return replace(
        batch,
        candidate=np.where(is_inside, batch.candidate, np.int32(PAD)),
        candidate_lengths=np.minimum(batch.candidate_lengths, lengths),
        scores=batch.scores and cut(batch.scores),
        weights=batch.weights and cut(batch.weights),
    )


def _exchange(
    batch: PairBatch,
    places: Flags,
    other: PairBatch,
    other_places: Flags,
) -> PairBatch:
    """The batch with the candidate items on these places replaced by the other batch's, in order.

    Both have equally many places in each row.
    """

    def take(values: Any, other_values: Any) -> Any:  # noqa: ANN401 - codes and floats alike
        exchanged = values.copy()
        exchanged[places] = other_values[other_places]
        return exchanged

    weights = batch.weights
    if weights is not None and other.weights is not None:
        weights = replace(weights, candidate=take(weights.candidate, other.weights.candidate))
    return replace(batch, candidate=take(batch.candidate, other.candidate), weights=weights)


def average_parts(parts: Parts, rows: Rows) -> PartMeans | None:
    """Means of the parts over the users of these rows with defined parts. None without such users."""
    defined = rows[~np.isnan(parts.total[rows])]
    if not len(defined):
        return None
    return PartMeans(
        n=len(defined),
        membership=float(parts.membership[defined].mean()),
        order=float(parts.order[defined].mean()),
        length=float(parts.length[defined].mean()),
    )
