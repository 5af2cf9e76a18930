"""Kinds of fault, planted in lists made up here: what happened is known, so what is reported can be judged.

A shop has two models of one taste, trained anew every day. `Fault.lists` is what an arm serves on a day, the fault in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from monitor.model.rankings import ALL, Arm

Ranking = list[int]


class Kind(StrEnum):
    """What may go wrong with lists."""

    SHARED_LIST = "one shared list"
    REORDERED = "reordering only"
    TOP_SHUFFLED = "top 3 shuffled"
    TRUNCATED = "truncation"
    STALE = "stale"
    MIXED_UP = "mixed-up users"
    ITEMS_GONE = "items gone"
    CATEGORY_GONE = "category gone"
    ONE_SEGMENT = "one segment"
    NOISE = "random noise"
    ARM_BROKE = "one arm broke"
    BOTH_BROKE = "both broke"
    MISSING = "missing users"
    SLOW_LOSS = "slow loss"
    COPIED = "lists of the other arm"
    BOOSTED = "boosted item"
    LOST_FILTER = "lost filter"
    ITEM_GONE = "one item gone"
    SHIFTED = "best item dropped"
    NEARLY_COPIED = "nearly the other arm's lists"
    INTERLEAVED = "interleaved lists"


_SHARES = {
    Kind.SHARED_LIST: (0.05, 0.6),
    Kind.REORDERED: (0.2, 1.0),
    Kind.TOP_SHUFFLED: (0.3, 1.0),
    Kind.TRUNCATED: (0.1, 1.0),
    Kind.STALE: (0.1, 1.0),
    Kind.MIXED_UP: (0.1, 1.0),
    Kind.NOISE: (0.05, 1.0),
    Kind.MISSING: (0.05, 0.5),
    Kind.COPIED: (0.3, 1.0),
    Kind.NEARLY_COPIED: (0.3, 1.0),
    Kind.LOST_FILTER: (0.15, 0.4),
    Kind.SHIFTED: (0.5, 1.0),
}
"""From how many to how many of the users a drawn fault concerns.

The kinds that are not here concern all of theirs.
"""
_OF_LIST: Mapping[Kind, Callable[[Ranking, np.random.Generator, Shop], Ranking]] = {
    Kind.SHARED_LIST: lambda _, __, shop: list(range(shop.k)),
    Kind.SLOW_LOSS: lambda _, __, shop: list(range(shop.k)),
    Kind.REORDERED: lambda found, _, __: found[::-1],
    Kind.TOP_SHUFFLED: lambda found, rng, _: [
        *np.roll(found[:3], rng.integers(1, 3)).tolist(),
        *found[3:],
    ],
    Kind.TRUNCATED: lambda found, _, __: found[: len(found) // 2],
    Kind.NOISE: lambda found, rng, shop: rng.permutation(shop.items)[: len(found)].tolist(),
    Kind.MISSING: lambda _, __, ___: [],
    Kind.BOOSTED: lambda found, _, shop: [shop.items, *found[:-1]],
    Kind.LOST_FILTER: lambda found, _, shop: [shop.items, shop.items + 1, *found[:-2]],
}
"""What becomes of one list."""
LOST_A_DAY = 0.005
COUNTRIES = {"UK": 0.6, "FR": 0.25, "DE": 0.15}
ACTIVITIES = {"q1": 0.3, "q2": 0.25, "q3": 0.25, "new": 0.2}
CATEGORIES = 10
_POORER = 3.0  # error of a broken model, against its usual one
_ON_THE_BASELINE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """Users, items and the two models' lists by day: the same for the same ``seed``.

    Item 0 is the most popular.

    An item's category is its number modulo `CATEGORIES`. ``error``: of both models, by which lists
    change from day to day."""

    seed: int = 0
    users: int = 1000
    items: int = 300
    k: int = 10
    error: float = 0.16

    @property
    def names(self):
        """The users, in the order of all that is held by user."""
        return [f"u{number:05}" for number in range(self.users)]

    @property
    def values(self):
        """The users' values by dimension; they never change."""
        rng = np.random.default_rng((self.seed, 1))
        shares = {"country": COUNTRIES, "activity": ACTIVITIES}
        return {
            name: rng.choice(list(of), self.users, p=list(of.values()))
            for name, of in shares.items()
        }

    def members(self, segment):
        """Rows of the segment's users."""
        dimension, _, value = segment.partition("=")
        return (
            np.arange(self.users)
            if segment == ALL
            else np.flatnonzero(self.values[dimension] == value)
        )

    @lru_cache(maxsize=64)  # noqa: B019 - shops are few
    def rank(self, arm, day, *, error=None, without=()):
        """Every user's list as the arm's model of that day has it, by this error.

        ``without`` are items that it lacks.
        """
        error = self.error if error is None else error
        rng = np.random.default_rng((self.seed, 2, day, arm is Arm.CANDIDATE))
        # Some trainings are better than others, so that the mean moves from day to day.
        scores = _taste(self) + error * rng.uniform(0.8, 1.2) * rng.normal(
            size=(self.users, self.items)
        )
        scores[:, list(without)] = -np.inf
        found: list[Ranking] = np.argsort(-scores, axis=1)[:, : self.k].tolist()
        return found


@lru_cache(maxsize=4)
def _taste(shop):
    rng = np.random.default_rng((shop.seed, 3))
    liked = rng.normal(size=(shop.users, CATEGORIES))[:, np.arange(shop.items) % CATEGORIES]
    return rng.normal(size=(shop.users, shop.items)) + 0.7 * liked + np.linspace(2, 0, shop.items)


def _take_turns(own: Ranking, other: Ranking) -> Ranking:
    """The items of both lists in turn, each once."""
    return list(dict.fromkeys(item for pair in zip(own, other, strict=True) for item in pair))


_OF_OTHER: Mapping[Kind, Callable[[Ranking, Ranking], Ranking]] = {
    Kind.COPIED: lambda _, other: other,
    Kind.NEARLY_COPIED: lambda _, other: [*other[:4], *other[5:]],
    Kind.INTERLEAVED: _take_turns,
}
"""What becomes of one list, of itself and that of the other arm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of an arm, or of both, from the day ``begins`` on, until the day ``ends`` if it is healed then.

    It concerns ``share`` of the users of ``segment``, the same ones on all its days; of a slow loss `LOST_A_DAY` of them
    more every day.
    """

    kind: Kind
    begins: int
    ends: int | None = None
    arms: tuple[Arm, ...] = (Arm.CANDIDATE,)
    segment: str = ALL
    share: float = 1.0
    seed: int = 0

    def is_on(self, day):
        """Whether the lists of that day have it."""
        return self.begins <= day and (self.ends is None or day < self.ends)

    def concerned(self, shop, day):
        """Rows of the users whose lists it breaks on that day."""
        members = np.random.default_rng((self.seed, 4)).permutation(shop.members(self.segment))
        share = LOST_A_DAY * (day - self.begins + 1) if self.kind is Kind.SLOW_LOSS else self.share
        return (
            np.sort(members[: round(min(share, 1.0) * len(members))])
            if self.is_on(day)
            else members[:0]
        )

    def lists(self, shop, arm, day):
        """What the arm serves on that day, by user; users without a list are left out."""
        found = shop.rank(arm, day)
        rows = self.concerned(shop, day) if arm in self.arms else np.empty(0, dtype=np.intp)
        broken = (
            dict(zip(rows.tolist(), self._break(shop, arm, day, rows, found), strict=True))
            if rows.size
            else {}
        )
        served = [broken.get(row, ranking) for row, ranking in enumerate(found)]
        return {name: ranking for name, ranking in zip(shop.names, served, strict=True) if ranking}

    def count_harmed(self, shop, day):
        """How many users it has broken lists of on that day: where items are gone those who would have had one."""
        rows = self.concerned(shop, day)
        if self.kind not in {Kind.ITEMS_GONE, Kind.CATEGORY_GONE, Kind.ITEM_GONE}:
            return len(rows)
        healthy, broken = shop.rank(self.arms[0], day), self._model(shop, self.arms[0], day)
        return sum(healthy[row] != broken[row] for row in rows.tolist())

    def _break(self, shop, arm, day, rows, found):
        """The lists of these users, broken; empty ones for users who are to have none."""
        rng = np.random.default_rng((self.seed, 5, day))
        if self.kind is Kind.MIXED_UP:
            return [found[row] for row in np.roll(rows, 1)]
        if self.kind in _OF_LIST:
            return [_OF_LIST[self.kind](found[row], rng, shop) for row in rows]
        replaced = self._model(shop, arm, day)
        return [replaced[row] for row in rows]

    def _model(self, shop, arm, day):
        """Lists of the model that the fault puts in the place of that day's."""
        if self.kind is Kind.STALE:
            return shop.rank(arm, self.begins - 1)
        if self.kind in _OF_OTHER:
            longer = replace(shop, k=shop.k + 1)
            pairs = zip(longer.rank(arm, day), longer.rank(arm.other, day), strict=True)
            return [_OF_OTHER[self.kind](*pair)[: shop.k] for pair in pairs]
        if self.kind is Kind.SHIFTED:
            return [found[1:] for found in replace(shop, k=shop.k + 1).rank(arm, day)]
        without = self._items_gone(shop)
        if without:
            return shop.rank(arm, day, without=without)
        return shop.rank(arm, day, error=_POORER * shop.error)

    def _items_gone(self, shop):
        """The items that the model lacks."""
        rng = np.random.default_rng((self.seed, 6))
        if self.kind is Kind.ITEM_GONE:
            return (0,)
        if self.kind is Kind.ITEMS_GONE:
            # Of the better known half, where lists come from.
            return tuple(rng.permutation(shop.items // 2)[: shop.items // 10].tolist())
        if self.kind is Kind.CATEGORY_GONE:
            return range(int(rng.integers(CATEGORIES)), shop.items, CATEGORIES)
        return ()


def draw_fault(kind, seed, *, begins, ends=None):
    """A fault of the kind, of a random share of the users of a random segment where the kind leaves that open."""
    rng = np.random.default_rng((seed, 7))
    segments = [f"country={name}" for name in COUNTRIES] + [
        f"activity={name}" for name in ACTIVITIES
    ]
    is_local = kind is Kind.ONE_SEGMENT or (kind in _SHARES and rng.random() < 0.3)
    low, high = (0.6, 1.0) if is_local and kind in _SHARES else _SHARES.get(kind, (1.0, 1.0))
    arm = Arm.BASELINE if rng.random() < _ON_THE_BASELINE else Arm.CANDIDATE
    if kind in _OF_OTHER:
        arm = Arm.CANDIDATE  # nobody can say which of two like lists is whose
    return Fault(
        kind=kind,
        begins=begins,
        ends=ends,
        arms=tuple(Arm) if kind is Kind.BOTH_BROKE else (arm,),
        segment=str(rng.choice(segments)) if is_local else ALL,
        share=float(rng.uniform(low, high)),
        seed=seed,
    )


def draw_shop(seed):
    """A shop of some size, whose lists have some length and change by some pace."""
    rng = np.random.default_rng((seed, 8))
    users, items = (int(rng.integers(*bounds)) for bounds in ((400, 1200), (200, 500)))
    return Shop(
        seed=seed,
        users=users,
        items=items,
        k=int(rng.choice([5, 10, 20])),
        error=float(rng.uniform(0.1, 0.25)),
    )


def write_lists(path, lists):
    """A Parquet file of an arm's lists: ``user_id``, ``items``."""
    pq.write_table(pa.table({"user_id": list(lists), "items": list(lists.values())}), path)
