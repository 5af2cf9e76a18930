"""Each pair's distance split into membership, order and length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from monitor.kernels import PAD, blocks
from monitor.model.arrays import Codes, Flags, Floats, Rows
from monitor.model.explanation import PartMeans
from monitor.model.rankings import ByArm, PairBatch

ScoreBatch: TypeAlias = Callable[[PairBatch], Floats]
"""Scores of n pairs, float64 (n,), higher for lists that are more alike, NaN where undefined, each of its pair alone."""

_DUST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What each of n users' distance from identical lists is made of: three float64 (n,), all NaN where one is undefined."""

    membership: Floats  # items replaced
    order: Floats  # items moved
    length: Floats  # one list is shorter than the other

    def __len__(self) -> int:
        return len(self.membership)

    @property
    def whole(self) -> Floats:
        """The distance itself: the score of identical lists less the score of these."""
        return self.membership + self.order + self.length


def split_distances(batch: PairBatch, score: ScoreBatch) -> Parts:
    """Split score(B, B) - score(B, C) of each pair exactly, by the walk from the baseline's list B to the candidate's C.

    Positive parts drive lists apart; negative ones come from measures that forgive short lists, such as ``rbo``, or that may
    prefer a wrong order or item. All NaN where any score is, as with an empty baseline. Relevance is not looked at. O(n k).
    """
    return share_steps(walk_to(_with_baseline_twice(batch), batch), score)


def walk_to(before: PairBatch, after: PairBatch) -> tuple[PairBatch, ...]:
    """The steps from one batch to another whose candidate's lists are others, L' and L, what is beside them being the same.

    With s the length of the shorter list, the walk and the part that each step belongs to::

        L'  --length-->  L' cut to s  --membership-->  H  --order-->  L cut to s  --length-->  L

    H holds the items of L cut to s; those of L' cut to s, too, stand in the order of L' on the places that L gives them, the
    others where L has them: order is what common items do among themselves, membership exactly 0 for the same items.
    J, the last of the six, has the common items on the places of L' and the new ones on those left. A weight goes with its
    item, a tie stays where L has it. Other walks would share out interactions otherwise (sequential decomposition: Oaxaca 1973;
    DiNardo, Fortin and Lemieux 1996).
    """
    short = np.minimum(before.candidate_lengths, after.candidate_lengths)
    start, end = _cut(before, short), _cut(after, short)
    is_kept, is_held = (
        np.zeros(start.candidate.shape, dtype=np.bool_),
        np.zeros(end.candidate.shape, dtype=np.bool_),
    )
    moved = replace(
        start,
        baseline=start.candidate,
        candidate=end.candidate,
        baseline_lengths=short,
        scores=None,
    )
    for rows, alignment in blocks(replace(moved, weights=None, labels=None)):
        is_kept[rows, : alignment.k] = (alignment.positions < alignment.k).T
        is_held[rows, : alignment.k] = (alignment.candidate_positions < alignment.k).T
    is_gone, is_new = ~is_kept & (start.candidate >= 0), ~is_held & (end.candidate >= 0)
    hybrid = _exchange(end, is_held, start, is_kept)
    return before, start, hybrid, end, after, _exchange(start, is_gone, end, is_new)


def share_steps(walk: Sequence[PairBatch], score: ScoreBatch) -> Parts:
    """What the steps of `walk_to` cost, by part; at most six scorings, fewer where steps are one.

    L' to J is what replacing alone costs, H to L what moving common items alone costs; the rest, J
    to H, is shared between them in proportion: an item put on top of lists that keep their order is
    replaced, lists turned upside down have moved."""
    by_step = {
        id(step): _finite(score(step)) for step in {id(step): step for step in walk}.values()
    }
    start, shortened, replaced, moved, end, alone = (by_step[id(step)] for step in walk)
    is_known = ~np.isnan(start + shortened + replaced + moved + end)
    both = _share_of_order(shortened - alone, replaced - moved) * (alone - replaced)
    steps = (
        shortened - replaced - both,
        replaced - moved + both,
        (start - shortened) + (moved - end),
    )
    membership, order, length = (np.where(is_known, step, np.nan) for step in steps)
    return Parts(membership=membership, order=order, length=length)


def _share_of_order(replaced: Floats, moved: Floats) -> Floats:
    """What order has of the two together, 0 to 1; 0 where there is nothing to go by."""
    total = np.abs(replaced) + np.abs(moved)
    share = np.divide(np.abs(moved), total, out=np.zeros_like(total), where=total > _DUST)
    return np.where(np.isnan(total), 0.0, share)


def _finite(values: Floats) -> Floats:
    return np.where(np.isfinite(values), values, np.nan)


def _with_baseline_twice(batch: PairBatch) -> PairBatch:
    """The baseline against itself."""
    return replace(
        batch,
        candidate=batch.baseline,
        candidate_lengths=batch.baseline_lengths,
        scores=batch.scores
        and ByArm(baseline=batch.scores.baseline, candidate=batch.scores.baseline),
        weights=batch.weights
        and ByArm(baseline=batch.weights.baseline, candidate=batch.weights.baseline),
    )


def _cut(batch: PairBatch, lengths: Codes) -> PairBatch:
    """The batch with each candidate list cut to its length; the same one where none is longer."""
    if (batch.candidate_lengths <= lengths).all():
        return batch
    is_kept = np.arange(batch.candidate.shape[1]) < lengths[:, None]

    scores, weights = batch.scores, batch.weights
    return replace(
        batch,
        candidate=np.where(is_kept, batch.candidate, np.int32(PAD)),
        candidate_lengths=np.minimum(batch.candidate_lengths, lengths),
        scores=scores and replace(scores, candidate=np.where(is_kept, scores.candidate, np.nan)),
        weights=weights
        and replace(weights, candidate=np.where(is_kept, weights.candidate, np.nan)),
    )


def _exchange(batch: PairBatch, places: Flags, other: PairBatch, theirs: Flags) -> PairBatch:
    """The batch with what stands on these candidate places taken from those of the other, in order: as many in each row."""

    def take(values: Any, others: Any) -> Any:  # noqa: ANN401 - codes and floats alike
        taken = values.copy()
        taken[places] = others[theirs]
        return taken

    weights = batch.weights
    if weights is not None and other.weights is not None:
        weights = replace(weights, candidate=take(weights.candidate, other.weights.candidate))
    return replace(batch, candidate=take(batch.candidate, other.candidate), weights=weights)


def average_parts(parts: Parts, rows: Rows) -> PartMeans | None:
    """Means of the parts over those of these users of whom they are known.

    None where they are known of nobody.
    """
    known = rows[~np.isnan(parts.whole[rows])]
    if not len(known):
        return None
    membership, order, length = (
        float(values[known].mean()) for values in (parts.membership, parts.order, parts.length)
    )
    return PartMeans(n=len(known), membership=membership, order=order, length=length)
