"""Alignment: the one pass over pairs of lists that every pairwise measure shares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.kernels.inversions import Counts, inversions
from monitor.kernels.positions import ALL_PAIRS_MAX_K, Ranks, find
from monitor.kernels.ragged import Codes
from monitor.model import ByArm, Labels, PairBatch

Floats = npt.NDArray[np.float64]

BLOCK_CELLS = 1 << 18
"""Ranks aligned at once: small enough for the cache, large enough that a numpy call's own cost does not count."""


class Alignment:
    """Where the baseline's items of n users stand in the candidate's lists. Never changes; what is derived is kept.

    ``positions`` (k, n): position from 0 in the candidate's list of the item at each baseline rank, k where absent.
    ``baseline_lengths``, ``candidate_lengths`` (n,): lengths, at most k. ``is_full``: every list has length k.
    ``scores``, ``weights``, ``labels``: what the batch told of them, rank by rank like ``positions``: (k, n), or None.
    """

    def __init__(
        self,
        positions: Ranks,
        baseline_lengths: Codes,
        candidate_lengths: Codes,
        *,
        scores: ByArm | None = None,
        weights: ByArm | None = None,
        labels: Labels | None = None,
    ) -> None:
        self.positions = positions
        self.baseline_lengths = baseline_lengths
        self.candidate_lengths = candidate_lengths
        self.scores = scores
        self.weights = weights
        self.labels = labels

    @property
    def k(self) -> int:
        """Depth of the aligned lists."""
        return len(self.positions)

    @cached_property
    def is_full(self) -> bool:
        """Whether every list of both arms has length k."""
        return bool((self.baseline_lengths == self.k).all() and (self.candidate_lengths == self.k).all())

    @cached_property
    def short(self) -> Codes:
        """Length of the shorter list of each pair."""
        return np.minimum(self.baseline_lengths, self.candidate_lengths)

    @cached_property
    def long(self) -> Codes:
        """Length of the longer list of each pair."""
        return np.maximum(self.baseline_lengths, self.candidate_lengths)

    @cached_property
    def common(self) -> npt.NDArray[Any]:
        """Number of items that each pair has in common."""
        common: npt.NDArray[Any] = (
            self.agreement[-1]
            if self._has_agreement
            else np.add.reduce(np.less(self.positions, self.k), axis=0, dtype=np.int64)
        )
        return common

    @cached_property
    def candidate_positions(self) -> Ranks:
        """The way back, (k, n): position from 0 in the baseline's list of the item at each candidate rank, k where absent."""
        back = np.full((self.k + 1, self.positions.shape[1]), self.k, dtype=self.positions.dtype)
        ranks = np.broadcast_to(np.arange(self.k, dtype=back.dtype)[:, None], self.positions.shape)
        np.put_along_axis(back, self.positions.astype(np.intp), ranks, axis=0)
        return back[:-1]

    @cached_property
    def inversions(self) -> Counts:
        """Pairs of baseline ranks in the wrong order in the candidate's list, absent items last and tied."""
        return inversions(self.positions)

    @cached_property
    def agreement(self) -> Ranks:
        """(k, n): how many items the two top d's share, for d = 1 to k. For lists up to `ALL_PAIRS_MAX_K`."""
        agreement = np.empty_like(self.positions)
        inside = np.empty(self.positions.shape, dtype=np.bool_)
        for depth in range(1, self.k + 1):
            np.less(self.positions[:depth], depth, out=inside[:depth])
            np.add.reduce(inside[:depth].view(np.uint8), axis=0, out=agreement[depth - 1])
        return agreement

    @cached_property
    def _depths(self) -> Ranks:
        """The larger of each item's two positions, k where absent."""
        return np.maximum(self.positions, np.arange(self.k, dtype=self.positions.dtype)[:, None])

    @property
    def _has_agreement(self) -> bool:
        return self.k <= ALL_PAIRS_MAX_K

    def sum_by_depth(self, weights: Floats) -> Floats:
        """Sum over common items of ``weights[d]``, d the larger of the item's two positions; k weights, one a depth."""
        if self._has_agreement:
            return -np.diff(weights, append=0.0) @ self.agreement.astype(np.float64)
        total: Floats = np.append(weights, 0.0).take(self._depths).sum(axis=0)
        return total

    def common_within(self, depths: Codes) -> npt.NDArray[Any]:
        """Number of items that the top ``depths[i]`` of both lists of pair i share; depths from 0 to k."""
        if not self._has_agreement:
            within: npt.NDArray[Any] = np.less(self._depths, depths).sum(axis=0)
            return within
        shared = self.agreement.take((np.maximum(depths, 1) - 1) * np.intp(len(depths)) + np.arange(len(depths)))
        return shared * (depths > 0)

    def cut(self, depth: int) -> Alignment:
        """The alignment of the same lists cut to their first ``depth`` items."""
        if depth >= self.k and (self.labels is None or depth >= len(self.labels.ideal)):
            return self
        return Alignment(
            np.minimum(self.positions[:depth], self.positions.dtype.type(min(depth, self.k))),
            np.minimum(self.baseline_lengths, depth),
            np.minimum(self.candidate_lengths, depth),
            scores=self.scores and _each(self.scores, lambda ranks: ranks[:depth]),
            weights=self.weights and _each(self.weights, lambda ranks: ranks[:depth]),
            labels=self.labels and _each_label(self.labels, lambda ranks: ranks[:depth], lambda ideal: ideal[:depth]),
        )


def _each(values: ByArm, change: Callable[[Floats], Floats]) -> ByArm:
    return ByArm(baseline=change(values.baseline), candidate=change(values.candidate))


def _each_label(labels: Labels, change: Callable[[Floats], Floats], change_ideal: Callable[[Floats], Floats]) -> Labels:
    return Labels(grades=_each(labels.grades, change), ideal=change_ideal(labels.ideal), relevant=labels.relevant)


def align(batch: PairBatch) -> Alignment:
    """Align a batch as a whole; memory grows with it, so that `blocks` is the way to go through a large one.

    Cost a pair: k² comparisons up to k = `ALL_PAIRS_MAX_K`, O(k log k) beyond. Columns of nothing but padding are
    left out.
    """
    longest = max(1, int(batch.baseline_lengths.max(initial=0)), int(batch.candidate_lengths.max(initial=0)))
    positions = find(batch.baseline[:, :longest], batch.candidate[:, :longest])

    def by_rank(places: Floats) -> Floats:
        return np.ascontiguousarray(places[:, :longest].T)

    return Alignment(
        positions,
        batch.baseline_lengths,
        batch.candidate_lengths,
        scores=batch.scores and _each(batch.scores, by_rank),
        weights=batch.weights and _each(batch.weights, by_rank),
        # The ideal stays as deep as the batch: it must not follow the longest list of a block.
        labels=batch.labels and _each_label(batch.labels, by_rank, lambda ideal: np.ascontiguousarray(ideal.T)),
    )


def blocks(batch: PairBatch) -> Iterator[tuple[slice, Alignment]]:
    """Go through a batch in cache-sized blocks: the rows of each and their alignment."""
    step = max(1, BLOCK_CELLS // max(1, batch.baseline.shape[1]))
    for low in range(0, len(batch), step):
        rows = slice(low, min(low + step, len(batch)))
        yield rows, align(batch.take(rows))
