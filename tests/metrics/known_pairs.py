"""Pairs of lists with everything that a metric may need to know of them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernels import reference
from monitor.metrics import Metric, score_all
from monitor.model.rankings import ByArm, Labels, PairBatch

Pair = tuple[Sequence[int], Sequence[int]]
Floats = npt.NDArray[np.float64]

PAD = -1


def batch(pairs: Sequence[Pair], k: int | None = None, *, names: Sequence[int] | None = None) -> PairBatch:
    """The pairs with scores, weights and labels, which follow from the items alone.

    Item i of a list is known as ``names[i]``: the numbers change, what is known of the item does not.
    """
    plain = reference.batch(pairs, k)
    weights = ByArm(baseline=_weigh(plain.baseline), candidate=_weigh(plain.candidate))
    grades = ByArm(baseline=_grade(plain.baseline), candidate=_grade(plain.candidate))
    best = [sorted(({item: float(item % 3) for item in [*a, *b]} | {-2: 2.0}).values())[::-1] for a, b in pairs]
    width, depth = plain.baseline.shape[1], max((len(ranking) for pair in pairs for ranking in pair), default=0)
    ideal = np.array([[*row[:depth], *[0.0] * width][:width] for row in best]).reshape(len(pairs), width)
    relevant = np.array([sum(grade > 0 for grade in row) for row in best], dtype=np.int32)
    known = np.arange(max((max((*a, *b), default=0) for a, b in pairs), default=0) + 1) if names is None else np.array(names)
    return replace(
        plain,
        baseline=_rename(plain.baseline, known),
        candidate=_rename(plain.candidate, known),
        scores=ByArm(baseline=_falling(plain.baseline), candidate=_falling(plain.candidate)),
        weights=weights,
        labels=Labels(grades=grades, ideal=ideal, relevant=relevant),
    )


def scores(metric: Metric, pairs: Sequence[Pair], k: int | None = None, *, names: Sequence[int] | None = None) -> Floats:
    return score_all(batch(pairs, k, names=names), [metric])[str(metric)]


def _weigh(codes: npt.NDArray[np.int32]) -> Floats:
    return np.where(codes == PAD, np.nan, 1.0 + codes % 4)


def _grade(codes: npt.NDArray[np.int32]) -> Floats:
    return np.where(codes == PAD, 0.0, codes % 3)


def _falling(codes: npt.NDArray[np.int32]) -> Floats:
    """No two alike: lists without ties."""
    return np.where(codes == PAD, np.nan, -np.arange(codes.shape[1], dtype=np.float64))


def _rename(codes: npt.NDArray[np.int32], names: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    return np.where(codes == PAD, PAD, names[codes]).astype(np.int32)
