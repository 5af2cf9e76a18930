"""Both arms of the demo retrained on one day's history, and the fault that can be let into the candidate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.demo.models import cosine_weights, ease_weights, popular, top_items
from monitor.demo.world import History, World

DEPTH = 20
"""Items kept a user; nobody can ask for more."""
BROKEN_COUNTRY = "DE"
_RIDGE = 200.0
_SHRINKAGE = 20.0
_NEIGHBOURS = 100

Lists = dict[str, tuple[str, ...]]
"""Item ids of each user, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retrained:
    """What came out of one day's training."""

    day: int
    history: History
    baseline: Lists
    candidate: Lists


def retrain(world: World, day: int, *, is_broken: bool) -> Retrained:
    """Train EASE and item-kNN on the day's history.

    Broken: when the candidate is served, the join that looks up what a user bought finds nothing for one country, so its
    users are taken for new ones and get the popular items. The models themselves are as good as ever.
    """
    history = world.history(day)
    bought, ids = history.bought, history.users.ids
    fallback = popular(bought, depth=DEPTH)
    ease = ease_weights(bought, ridge=_RIDGE)
    cosine = cosine_weights(bought, shrinkage=_SHRINKAGE, neighbours=_NEIGHBOURS)
    joined = _without_country(history, BROKEN_COUNTRY) if is_broken else bought
    return Retrained(
        day=day,
        history=history,
        baseline=_lists(ids, top_items(bought, ease, fallback=fallback)),
        candidate=_lists(ids, top_items(joined, cosine, fallback=fallback)),
    )


def _without_country(history: History, country: str) -> npt.NDArray[np.float32]:
    joined = history.bought.copy()
    joined[history.users.countries == country] = 0.0
    return joined


def _lists(ids: list[str], items: npt.NDArray[np.intp]) -> Lists:
    return {user: tuple(f"item-{item:03d}" for item in row) for user, row in zip(ids, items.tolist(), strict=True)}
