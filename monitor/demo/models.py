"""The two recommenders of the demo: EASE (baseline) and item-kNN (candidate), and the list that both fall back on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


def ease_weights(bought: Matrix, *, ridge: float) -> Matrix:
    """Item-to-item weights of EASE (Steck 2019, equation 8): per item a ridge regression on all other items.

    ``bought`` is (users, items); returns (items, items) with a zero diagonal. One inversion, O(items^3).
    """
    gram = bought.T.astype(np.float64) @ bought
    gram[np.diag_indices_from(gram)] += ridge
    precision = np.linalg.inv(gram)
    weights = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights.astype(np.float32)


def cosine_weights(bought: Matrix, *, shrinkage: float, neighbours: int) -> Matrix:
    """Item-to-item cosine, each damped by ``shrinkage`` in the denominator; every item keeps its ``neighbours`` nearest.

    ``weights[i, j]`` says how much a purchase of i speaks for j; column j has at most ``neighbours`` entries, none for i = j.
    """
    gram = bought.T.astype(np.float64) @ bought
    lengths = np.sqrt(np.diag(gram))
    weights = gram / (np.outer(lengths, lengths) + shrinkage)
    np.fill_diagonal(weights, 0.0)
    if neighbours < len(weights):
        furthest = np.argpartition(-weights, neighbours, axis=0)[neighbours:]
        np.put_along_axis(weights, furthest, 0.0, axis=0)
    return weights.astype(np.float32)


def popular(bought: Matrix, *, depth: int) -> npt.NDArray[np.intp]:
    """The ``depth`` items with the most buyers, most first; ties by item number."""
    return np.argsort(-bought.sum(axis=0), kind="stable")[:depth]


def top_items(bought: Matrix, weights: Matrix, *, fallback: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Best items of each user, best first, what they own left out; who owns nothing gets ``fallback``. (users, depth)."""
    scores = bought @ weights
    scores[bought > 0] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, : len(fallback)]
    best[~bought.any(axis=1)] = fallback
    return best
