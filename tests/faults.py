"""Kinds of fault, planted in made-up lists. What happened is known, so tests can judge what is reported.

A shop has two models of the same taste. Both are trained every day. `Fault.lists` are the lists that an arm serves on a
day, with the fault in them.
"""

from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.random import default_rng

from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm
from tables import cells


class Kind(StrEnum):
    """The kinds of fault in lists."""

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
    NEW_ITEMS = "other catalogue"


_SHARES = {
    Kind[name]: (float(least), float(most))
    for name, least, most in cells("""
SHARED_LIST    0.05  0.6
REORDERED      0.2   1.0
TOP_SHUFFLED   0.3   1.0
TRUNCATED      0.1   1.0
STALE          0.1   1.0
MIXED_UP       0.1   1.0
NOISE          0.05  1.0
MISSING        0.05  0.5
COPIED         0.3   1.0
NEARLY_COPIED  0.3   1.0
LOST_FILTER    0.15  0.4
SHIFTED        0.5   1.0
NEW_ITEMS      0.2   0.8
""")
}
"""The smallest and the largest share of users that a drawn fault affects.

A fault of another kind affects all users of its segment.
"""
LOST_A_DAY = 0.005
FOREIGN_PLACES, FOREIGN_ITEMS = 3, 30
COUNTRIES = {"UK": 0.6, "FR": 0.25, "DE": 0.15}
ACTIVITIES = {"q1": 0.3, "q2": 0.25, "q3": 0.25, "new": 0.2}
CATEGORIES = 10
_POORER = 3.0  # the error of a broken model, relative to its usual error
_ON_THE_BASELINE = 0.3
_OF_BOTH_ARMS = {Kind.COPIED, Kind.NEARLY_COPIED, Kind.INTERLEAVED}
_REMOVES_ITEMS = {Kind.ITEMS_GONE, Kind.CATEGORY_GONE, Kind.ITEM_GONE}


@immutable
class Shop:
    """Users, items and the lists of two models by day. Shops with the same ``seed`` are equal.

    Item 0 is the most popular item. An item's category is its number modulo `CATEGORIES`. Both models have the same
    ``error``, by which lists change from day to day.
    """

    seed: int = 0
    users: int = 1000
    items: int = 300
    k: int = 10
    error: float = 0.16

    @property
    def names(self):
        """The users, in the order of all values by user."""
        return [f"u{number:05}" for number in range(self.users)]

    @property
    def values(self):
        """The users' values by dimension. They never change."""
        rng = default_rng((self.seed, 1))
        shares = {"country": COUNTRIES, "activity": ACTIVITIES}
        return {
            name: rng.choice(list(of), self.users, p=list(of.values()))
            for name, of in shares.items()
        }

    def members(self, segment):
        """Rows of the segment's users."""
        if segment == ALL:
            return np.arange(self.users)
        dimension, _, value = segment.partition("=")
        return np.flatnonzero(self.values[dimension] == value)

    @lru_cache(maxsize=64)  # noqa: B019 - shops are few
    def rank(self, arm, day, *, error=None, without=()):
        """Every user's list by the arm's model of that day.

        ``error`` replaces the usual error. The model does not know the items ``without``.
        """
        error = self.error if error is None else error
        rng = default_rng((self.seed, 2, day, arm is Arm.CANDIDATE))
        # Some trainings are better than others, so the mean moves from day to day.
        scores = _taste(self) + error * rng.uniform(0.8, 1.2) * rng.normal(
            size=(self.users, self.items)
        )
        scores[:, list(without)] = -np.inf
        return np.argsort(-scores, axis=1)[:, : self.k].tolist()


@lru_cache(maxsize=4)
def _taste(shop):
    rng = default_rng((shop.seed, 3))
    liked = rng.normal(size=(shop.users, CATEGORIES))[:, np.arange(shop.items) % CATEGORIES]
    return rng.normal(size=(shop.users, shop.items)) + 0.7 * liked + np.linspace(2, 0, shop.items)


@immutable
class Fault:
    """A fault of one arm or of both arms, from the day ``begins`` on. If it is repaired, it ends on the day ``ends``.

    The fault affects ``share`` of the users of ``segment``, the same users on all days. A slow loss affects `LOST_A_DAY`
    more of them every day.
    """

    kind: Kind
    begins: int
    ends: int | None = None
    arms: Any = (Arm.CANDIDATE,)
    segment: str = ALL
    share: float = 1.0
    seed: int = 0

    def concerned(self, shop, day):
        """Rows of the users whose lists are broken on that day."""
        members = default_rng((self.seed, 4)).permutation(shop.members(self.segment))
        if day < self.begins or (self.ends is not None and day >= self.ends):
            return members[:0]
        share = LOST_A_DAY * (day - self.begins + 1) if self.kind is Kind.SLOW_LOSS else self.share
        return np.sort(members[: round(min(share, 1.0) * len(members))])

    def lists(self, shop, arm, day):
        """The lists that the arm serves on that day, by user. A user without a list is left out."""
        served = list(shop.rank(arm, day))
        rows = self.concerned(shop, day).tolist() if arm in self.arms else []
        if rows:
            for row, broken in zip(rows, self._break(shop, arm, day, rows, served), strict=True):
                served[row] = broken
        return {name: ranking for name, ranking in zip(shop.names, served, strict=True) if ranking}

    def count_harmed(self, shop, day):
        """How many users have a broken list on that day. If items are gone, they are the users who would have had one."""
        rows = self.concerned(shop, day)
        if self.kind not in _REMOVES_ITEMS:
            return len(rows)
        healthy, broken = shop.rank(self.arms[0], day), self._model(shop, self.arms[0], day)
        return sum(healthy[row] != broken[row] for row in rows.tolist())

    def _break(self, shop, arm, day, rows, lists):
        """The broken lists of these users. A user who gets no list has an empty list."""
        if self.kind is Kind.MIXED_UP:
            return [lists[row] for row in np.roll(rows, 1)]
        model = self._model(shop, arm, day)
        if model is not None:
            return [model[row] for row in rows]
        rng = default_rng((self.seed, 5, day))
        return [self._break_list(lists[row], rng, shop) for row in rows]

    def _break_list(self, ranking, rng, shop):  # noqa: PLR0911 - one for each kind
        match self.kind:
            case Kind.REORDERED:
                return ranking[::-1]
            case Kind.TOP_SHUFFLED:
                return [*np.roll(ranking[:3], rng.integers(1, 3)).tolist(), *ranking[3:]]
            case Kind.TRUNCATED:
                return ranking[: len(ranking) // 2]
            case Kind.NOISE:
                return rng.permutation(shop.items)[: len(ranking)].tolist()
            case Kind.MISSING:
                return []
            case Kind.BOOSTED:
                return [shop.items, *ranking[:-1]]
            case Kind.LOST_FILTER:
                return [shop.items, shop.items + 1, *ranking[:-2]]
            case Kind.NEW_ITEMS:
                return _replace_some(ranking, rng, shop)
        return list(range(shop.k))  # one list for all users

    def _model(self, shop, arm, day):  # noqa: PLR0911 - one for each kind
        """The lists of the model that replaces that day's model. None if the fault breaks each list on its own."""
        longer, rng = replace(shop, k=shop.k + 1), default_rng((self.seed, 6))
        match self.kind:
            case Kind.STALE:
                return shop.rank(arm, self.begins - 1)
            case Kind.COPIED:
                return shop.rank(arm.other, day)
            case Kind.NEARLY_COPIED:
                return [[*other[:4], *other[5:]] for other in longer.rank(arm.other, day)]
            case Kind.INTERLEAVED:
                pairs = zip(longer.rank(arm, day), longer.rank(arm.other, day), strict=True)
                return [_take_turns(*pair)[: shop.k] for pair in pairs]
            case Kind.SHIFTED:
                return [ranking[1:] for ranking in longer.rank(arm, day)]
            case Kind.ITEM_GONE:
                return shop.rank(arm, day, without=(0,))
            case Kind.ITEMS_GONE:
                # Items of the better known half, which lists contain
                gone = rng.permutation(shop.items // 2)[: shop.items // 10]
                return shop.rank(arm, day, without=tuple(gone.tolist()))
            case Kind.CATEGORY_GONE:
                first = int(rng.integers(CATEGORIES))
                return shop.rank(arm, day, without=range(first, shop.items, CATEGORIES))
            case Kind.ONE_SEGMENT | Kind.ARM_BROKE | Kind.BOTH_BROKE:
                return shop.rank(arm, day, error=_POORER * shop.error)
        return None


def _replace_some(ranking, rng, shop):
    """The list with `FOREIGN_PLACES` other places in it, each with one of `FOREIGN_ITEMS` new items."""
    places = rng.choice(len(ranking), FOREIGN_PLACES, replace=False)
    items = shop.items + rng.choice(FOREIGN_ITEMS, FOREIGN_PLACES, replace=False)
    foreign = dict(zip(places.tolist(), items.tolist(), strict=True))
    return [foreign.get(place, item) for place, item in enumerate(ranking)]


def _take_turns(own, other):
    """The items of both lists in turn, each once."""
    return list(dict.fromkeys(item for pair in zip(own, other, strict=True) for item in pair))


def draw_fault(kind, seed, *, begins, ends=None):
    """A fault of this kind. Its segment and its share of users are random if the kind allows it."""
    rng = default_rng((seed, 7))
    segments = [f"country={name}" for name in COUNTRIES] + [
        f"activity={name}" for name in ACTIVITIES
    ]
    is_local = kind is Kind.ONE_SEGMENT or (kind in _SHARES and rng.random() < 0.3)
    low, high = (0.6, 1.0) if is_local and kind in _SHARES else _SHARES.get(kind, (1.0, 1.0))
    arm = Arm.BASELINE if rng.random() < _ON_THE_BASELINE else Arm.CANDIDATE
    if kind in _OF_BOTH_ARMS:
        arm = Arm.CANDIDATE  # of two similar lists, nobody knows which one was copied
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
    """A shop with a random size. The length of its lists, and how fast they change, are random too."""
    rng = default_rng((seed, 8))
    users, items = (int(rng.integers(*bounds)) for bounds in ((400, 1200), (200, 500)))
    return Shop(
        seed=seed,
        users=users,
        items=items,
        k=int(rng.choice([5, 10, 20])),
        error=float(rng.uniform(0.1, 0.25)),
    )


def write_lists(path, lists):
    """Write the lists of an arm as Parquet, with the columns ``user_id`` and ``items``."""
    pq.write_table(pa.table({"user_id": list(lists), "items": list(lists.values())}), path)
