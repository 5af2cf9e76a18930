"""The shop that the demo recommends for: users with tastes, a long tail of items, and what was bought each day. numpy only.

Everything is a pure function of (seed, day): no draw depends on which day was asked for first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

COUNTRIES = ("DE", "FR", "UK", "US")
_COUNTRY_SHARES = (0.25, 0.2, 0.2, 0.35)
_ACTIVITIES = ("low", "mid", "high")
_ITEMS_STREAM, _USERS_STREAM, _DAY_STREAM = range(3)
# Added to a day, because seeds must not be negative and history begins before day 0.
_BIAS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Users of one day, oldest first: n ids, country codes, tastes (n, tastes) that sum to 1, and purchases a day."""

    numbers: npt.NDArray[np.int64]
    countries: npt.NDArray[np.str_]
    tastes: npt.NDArray[np.float64]
    rates: npt.NDArray[np.float64]

    @property
    def ids(self) -> list[str]:
        """Ids as the outside sees them."""
        return [f"user-{number:05d}" for number in self.numbers]

    def rows(self, start: int, stop: int) -> Users:
        """The users at these positions."""
        return Users(**{each.name: getattr(self, each.name)[start:stop] for each in fields(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class PurchaseHistory:
    """What a model is trained on: the users of the day, and who bought what in the window, 0 or 1, (users, items) float32."""

    users: Users
    bought: npt.NDArray[np.float32]

    @property
    def activities(self) -> list[str]:
        """How much each user bought in the window: low (under 15 items), mid (under 35), high."""
        bins = np.digitize(self.bought.sum(axis=1), (15, 35))
        return [_ACTIVITIES[index] for index in bins]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A shop in balance: each day ``joining`` users come, stay for ``stay`` days and go; ``window`` days are remembered."""

    seed: int = 7
    items: int = 800
    tastes: int = 12
    joining: int = 15
    stay: int = 100
    window: int = 30

    def users(self, day: int) -> Users:
        """Everyone who is there on that day."""
        return _joined([self._joiners(joined) for joined in range(day - self.stay + 1, day + 1)])

    def left_on(self, day: int) -> list[str]:
        """Ids of those who were there the day before and no longer are."""
        return self._joiners(day - self.stay).ids

    def history(self, day: int) -> PurchaseHistory:
        """Purchases of the window's days, that day included, by those who are there on that day."""
        first = day - self.window + 1
        everyone = _joined([self._joiners(joined) for joined in range(first - self.stay + 1, day + 1)])
        cumulated = np.cumsum(self._item_shares(), axis=1)
        bought = np.zeros((len(everyone.numbers), self.items), dtype=np.float32)
        for past in range(first, day + 1):
            oldest = (past - first) * self.joining
            present = everyone.rows(oldest, oldest + self.stay * self.joining)
            buyers, items = self._purchases(past, present, cumulated)
            bought[oldest + buyers, items] = 1.0
        gone = (self.window - 1) * self.joining
        return PurchaseHistory(users=everyone.rows(gone, len(everyone.numbers)), bought=bought[gone:])

    def _random(self, stream: int, day: int = 0) -> np.random.Generator:
        return np.random.default_rng((self.seed, stream, day + _BIAS))

    def _joiners(self, day: int) -> Users:
        random = self._random(_USERS_STREAM, day)
        return Users(
            numbers=np.arange(self.joining, dtype=np.int64) + (day + self.stay + self.window) * self.joining,
            countries=random.choice(COUNTRIES, size=self.joining, p=_COUNTRY_SHARES),
            tastes=random.dirichlet(np.full(self.tastes, 0.12), size=self.joining),
            rates=random.lognormal(mean=0.0, sigma=0.7, size=self.joining),
        )

    def _item_shares(self) -> npt.NDArray[np.float64]:
        """Share of each item among the purchases made for one taste: (tastes, items), rows sum to 1, a long tail in each."""
        random = self._random(_ITEMS_STREAM)
        popularity = random.permutation(1.0 / (10.0 + np.arange(self.items)) ** 0.8)
        fit = random.gamma(1.0, size=(self.tastes, self.items)) * 0.05
        # Every item is at home in one taste; the others reach it a little.
        fit[random.integers(self.tastes, size=self.items), np.arange(self.items)] += 1.0
        weights = fit * popularity
        shares: npt.NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return shares

    def _purchases(
        self, day: int, present: Users, cumulated: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """One day's purchases as rows of ``present`` and items."""
        random = self._random(_DAY_STREAM, day)
        buyers = np.repeat(np.arange(len(present.numbers)), random.poisson(present.rates))
        draws = random.random(len(buyers))
        tastes = (draws[:, None] > np.cumsum(present.tastes[buyers], axis=1)).sum(axis=1)
        tastes = np.minimum(tastes, self.tastes - 1)
        # One search for all tastes at once: taste t occupies the stretch from t to t + 1.
        stretched = (cumulated + np.arange(self.tastes)[:, None]).ravel()
        found = np.searchsorted(stretched, tastes + random.random(len(buyers)), side="right")
        return buyers, np.minimum(found - tastes * self.items, self.items - 1)


def _joined(parts: list[Users]) -> Users:
    return Users(**{each.name: np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Users)})
