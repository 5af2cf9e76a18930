"""The demo's recommenders, EASE (baseline) and item-kNN (candidate): training, the fault of the candidate, web service."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from monitor.demo.world import PurchaseHistory, World

Matrix = npt.NDArray[np.float32]


def ease_weights(bought: Matrix, *, ridge: float) -> Matrix:
    """Item-to-item weights of EASE (Steck 2019, equation 8): per item a ridge regression on all other items.

    ``bought`` is (users, items), 0 or 1; returns (items, items) with a zero diagonal. One inversion, O(items^3).
    """
    gram = (bought.T @ bought).astype(np.float64)  # counts: exact
    gram[np.diag_indices_from(gram)] += ridge
    precision = np.linalg.inv(gram)
    weights = -precision / np.diag(precision)
    np.fill_diagonal(weights, 0.0)
    return weights.astype(np.float32)


def cosine_weights(bought: Matrix, *, shrinkage: float, neighbours: int) -> Matrix:
    """Item-to-item cosine, each damped by ``shrinkage`` in the denominator; every item keeps its ``neighbours`` nearest.

    ``weights[i, j]`` is how much a purchase of i recommends j; column j has at most ``neighbours`` entries, none for i = j.
    """
    gram = (bought.T @ bought).astype(np.float64)  # counts: exact
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


# Items kept a user; nobody can ask for more.
DEPTH = 20
BROKEN_COUNTRY = "DE"
_RIDGE = 200.0
_SHRINKAGE = 20.0
_NEIGHBOURS = 100

ItemLists = dict[str, tuple[str, ...]]
"""Item ids of each user, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedLists:
    """What came out of one day's training."""

    day: int
    history: PurchaseHistory
    baseline: ItemLists
    candidate: ItemLists


def retrain(world: World, day: int, *, is_broken: bool) -> TrainedLists:
    """Train EASE and item-kNN on the day's history.

    Broken: when the candidate is served, the join that looks up what a user bought finds nothing for one country, so its users
    are taken for new ones and get the popular items.
    """
    history = world.history(day)
    bought, ids = history.bought, history.users.ids
    fallback = popular(bought, depth=DEPTH)
    ease = ease_weights(bought, ridge=_RIDGE)
    cosine = cosine_weights(bought, shrinkage=_SHRINKAGE, neighbours=_NEIGHBOURS)
    # Only what is joined when lists are served is broken: the models themselves are as good as ever.
    joined = _without_country(history, BROKEN_COUNTRY) if is_broken else bought
    return TrainedLists(
        day=day,
        history=history,
        baseline=_lists(ids, top_items(bought, ease, fallback=fallback)),
        candidate=_lists(ids, top_items(joined, cosine, fallback=fallback)),
    )


def _without_country(history: PurchaseHistory, country: str) -> npt.NDArray[np.float32]:
    joined = history.bought.copy()
    joined[history.users.countries == country] = 0.0
    return joined


def _lists(ids: list[str], items: npt.NDArray[np.intp]) -> ItemLists:
    return {user: tuple(f"item-{item:03d}" for item in row) for user, row in zip(ids, items.tolist(), strict=True)}


_DEFAULT_N = 10


class RecommenderServer:
    """Serves the lists last put into ``lists``; they are replaced as a whole, so no answer mixes two trainings."""

    def __init__(self, lists: ItemLists) -> None:
        self.lists = lists

    def app(self) -> Starlette:
        """The web application."""
        return Starlette(routes=[Route("/api/recommend/{user}", self._recommend)])

    async def _recommend(self, request: Request) -> Response:
        text = request.query_params.get("n", str(_DEFAULT_N))
        n = int(text) if text.isdecimal() and len(text) <= len(str(DEPTH)) else 0
        if not 1 <= n <= DEPTH:
            return JSONResponse({"error": f"n must be a whole number from 1 to {DEPTH}"}, 400)
        items = self.lists.get(request.path_params["user"])
        if items is None:
            return JSONResponse({"error": "no such user"}, 404)
        return JSONResponse(items[:n])
