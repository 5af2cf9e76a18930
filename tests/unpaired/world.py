"""A log of an A/B test in a Parquet file: each user is served by one arm, and both are trained every day."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Lists = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Fault = Callable[["World", Lists, Flags], Lists]

BEGINS = datetime(2026, 11, 1, tzinfo=UTC)
"""The lists of before are served in the hours before this time."""
DAY = timedelta(days=1)
COUNTRIES = ("UK", "FR", "DE")


@dataclass(frozen=True, kw_only=True)
class World:
    """Users with a taste, half of them in each arm. ``error`` is how much a training differs from the taste."""

    seed: int = 0
    users: int = 8000
    items: int = 200
    k: int = 10
    error: float = 0.4

    @property
    def is_candidate(self) -> Flags:
        return self._rng(1).random(self.users) < 0.5

    @property
    def countries(self) -> list[str]:
        return self._rng(2).choice(COUNTRIES, self.users, p=(0.6, 0.3, 0.1)).tolist()

    def _rng(self, *words: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *words))

    def rank(self, day: int) -> Lists:
        """Every user's list on this day, by the model of the user's arm. Day 0 is before the test, with one model.

        The caller does not change them.
        """
        return _rank(self, day)

    def train(self, day: int) -> Lists:
        rng = self._rng(3)
        groups = rng.normal(size=(self.users, 8)) @ rng.normal(size=(8, self.items)) / 8**0.5
        taste = groups + np.linspace(2, 0, self.items)
        lists = np.empty((self.users, self.k), dtype=np.int64)
        for arm, members in enumerate((~self.is_candidate, self.is_candidate)):
            rng = self._rng(4, day, arm if day else 0)
            # Some trainings are better than others, and each also errs for all users alike.
            noise = 0.1 * rng.normal(size=self.items)
            noise = noise + rng.uniform(0.97, 1.03) * rng.standard_normal(taste.shape)
            best = np.argsort(-(taste + self.error * noise)[members], axis=1)
            lists[members] = best[:, : self.k]
        return lists

    def draw(self, share: float) -> Flags:
        """The same users on all days."""
        return self._rng(5).random(self.users) < share


_rank = cache(World.train)  # by far the longest part of most tests


def write_log(  # noqa: PLR0913 - the choices of a world
    path: Path,
    world: World,
    days: int,
    *,
    fault: Fault | None = None,
    begins: int = 0,
    served: Flags | None = None,
    before: Fault | None = None,
) -> None:
    """Write the log of before and of ``days`` days of the test.

    The fault is in the candidate's lists from day ``begins`` on. ``served`` are the users that are logged from then on.
    With ``before``, the lists of before of the candidate's users have this fault.
    """
    names = np.array([f"u{number:05}" for number in range(world.users)])
    variant = np.where(world.is_candidate, "b", "a")
    parts = []
    for day in range(days + 1):
        lists = world.rank(day)
        logged = np.ones(world.users, dtype=np.bool_)
        change = before if day == 0 else None
        if day and day >= begins:
            change = fault
            if served is not None:
                logged = served
        if change is not None:
            members = world.is_candidate
            lists = np.where(members[:, np.newaxis], change(world, lists, members), lists)
        at = BEGINS + day * DAY - timedelta(hours=1)
        items = pa.FixedSizeListArray.from_arrays(lists[logged].ravel(), world.k)
        rows = {
            "user": names[logged],
            "variant": variant[logged] if day else np.repeat("a", logged.sum()),
            "at": [at] * int(logged.sum()),
            "country": np.array(world.countries)[logged],
            "items": items.cast(pa.list_(pa.int64())),
        }
        parts.append(pa.table(rows))
    pq.write_table(pa.concat_tables(parts), path)


def mix_up(world: World, lists: Lists, members: Flags) -> Lists:
    """5 % of the candidate's users get the list of another one of them."""
    rows = np.flatnonzero(members & world.draw(0.05))
    mixed = lists.copy()
    mixed[rows] = lists[np.roll(rows, 1)]
    return mixed


def serve_popular(world: World, lists: Lists, members: Flags) -> Lists:
    """1 % of the candidate's users get the most popular items."""
    items, counts = np.unique(lists, return_counts=True)
    popular = items[np.argsort(-counts, kind="stable")][: world.k]
    served = lists.copy()
    served[members & world.draw(0.01)] = popular
    return served


def reverse_top(_: World, lists: Lists, __: Flags) -> Lists:
    """The first three items of all lists are in the opposite order."""
    served = lists.copy()
    served[:, :3] = lists[:, 2::-1]
    return served


def serve_old(world: World, _: Lists, __: Flags) -> Lists:
    """The candidate serves the lists of before."""
    return world.rank(0)


def serve_better(world: World, lists: Lists, _: Flags) -> Lists:
    """Another model, which knows more: three items of ten are other ones, for all users."""
    rng = np.random.default_rng((world.seed, 6))
    chance = rng.random((len(lists), world.items // 4))
    row, place = np.nonzero(lists < world.items // 4)
    chance[row, lists[row, place]] = 2.0  # no item is there twice
    served = lists.copy()
    served[:, 4:7] = np.argsort(chance, axis=1)[:, :3]
    return served


def write_config(folder: Path, **changes: str) -> Path:
    """A daily comparison over the log."""
    keys = {"rules": "default", **changes}
    lines = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    path = folder / "rankwatch.yaml"
    path.write_text(
        f"""database: sqlite:///{folder}/rankwatch.db
listen: 127.0.0.1:0
comparisons:
  - name: checkout-test
    every: 1d
    k: 10
    metrics: ["rbo(p=0.9)", overlap]
    unpaired:
      log:
        file: {{path: {folder}/log.parquet, user: user, items: items, served: {{time: at, within: 1d}}}}
      arm: variant
      baseline: a
      candidate: b
      split: {{a: 0.5, b: 0.5}}
      before: 2026-11-01
      segments: [country]
{lines}"""
    )
    return path
