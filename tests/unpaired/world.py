"""A log of an A/B test in a Parquet file: each user is served by one arm, and both models are trained every day."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from factories import DAY

BEGINS = datetime(2026, 11, 1, tzinfo=UTC)
"""The pre-test lists are served in the hours before this time."""
COUNTRIES = ("UK", "FR", "DE")
ITEMS, K = 200, 10
ERROR = 0.4
"""How much a training differs from the taste of users."""


def draw(*words):
    """A generator of random numbers, which is the same for the same words."""
    return np.random.default_rng((0, *words))


@dataclass(frozen=True)
class World:
    """Users with a taste, half of them in each arm."""

    users: int = 8000

    @property
    def is_candidate(self):
        return draw(1).random(self.users) < 0.5

    @property
    def countries(self):
        return draw(2).choice(COUNTRIES, self.users, p=(0.6, 0.3, 0.1))

    @cache  # noqa: B019 - by far the longest part of most tests
    def rank(self, day):
        """Every user's list on this day, by the model of the user's arm. On day 0, before the test, there is one model.

        Do not change the lists.
        """
        rng = draw(3)
        groups = rng.normal(size=(self.users, 8)) @ rng.normal(size=(8, ITEMS)) / 8**0.5
        taste = groups + np.linspace(2, 0, ITEMS)
        lists = np.empty((self.users, K), dtype=np.int64)
        for arm, members in enumerate((~self.is_candidate, self.is_candidate)):
            rng = draw(4, day, arm if day else 0)
            # Some trainings are better than others, and each also errs for all users alike.
            noise = 0.1 * rng.normal(size=ITEMS)
            noise = noise + rng.uniform(0.97, 1.03) * rng.standard_normal(taste.shape)
            lists[members] = np.argsort(-(taste + ERROR * noise)[members], axis=1)[:, :K]
        return lists

    def draw(self, share):
        """Whether each user is drawn. They are the same users on all days."""
        return draw(5).random(self.users) < share


def write_log(  # noqa: PLR0913 - the choices of a test
    path, world, days, *, fault=None, both=False, begins=0, served=None, before=None
):
    """Write the log of before and of ``days`` days of the test.

    The fault is in the candidate's lists from day ``begins`` on, or in those of both arms. From then on, the log has only the
    users ``served``. With ``before``, the pre-test lists of the candidate's users have this fault.
    """
    names = np.array([f"u{number:05}" for number in range(world.users)])
    variant = np.where(world.is_candidate, "b", "a")
    parts = []
    for day in range(days + 1):
        lists, logged = world.rank(day), np.arange(world.users)
        change = before if day == 0 else None
        if day and day >= begins:
            change = fault
            if served is not None:
                logged = np.flatnonzero(served)
        if change is not None:
            members = world.is_candidate | (both and day > 0)
            lists = np.where(members[:, np.newaxis], change(world, lists, members), lists)
        rows = {
            "user": names[logged],
            "variant": variant[logged] if day else ["a"] * len(logged),
            "at": [BEGINS + day * DAY - timedelta(hours=1)] * len(logged),
            "country": world.countries[logged],
            "items": lists[logged].tolist(),
        }
        parts.append(pa.table(rows))
    pq.write_table(pa.concat_tables(parts), path)


def mix_up(world, lists, members):
    """5 % of the candidate's users get the list of another one of them."""
    rows = np.flatnonzero(members & world.draw(0.05))
    mixed = lists.copy()
    mixed[rows] = lists[np.roll(rows, 1)]
    return mixed


def serve_popular(world, lists, members):
    """1 % of the candidate's users get the most popular items."""
    items, counts = np.unique(lists, return_counts=True)
    popular = items[np.argsort(-counts, kind="stable")][:K]
    served = lists.copy()
    served[members & world.draw(0.01)] = popular
    return served


def boost(world, lists, _):
    """One new item is first in all lists of a country."""
    boosted = np.insert(lists, 0, ITEMS, axis=1)[:, :K]
    return np.where((world.countries == "DE")[:, np.newaxis], boosted, lists)


def keep_some_old(world, lists, members):
    """40 % of the users get their pre-test lists."""
    return np.where((members & world.draw(0.4))[:, np.newaxis], world.rank(0), lists)


def reverse_top(_, lists, __):
    """The first three items of all lists are in the opposite order."""
    return np.hstack((lists[:, 2::-1], lists[:, 3:]))


def serve_old(world, _, __):
    """The candidate serves the pre-test lists."""
    return world.rank(0)


def serve_better(_, lists, __):
    """Another model, which knows more: three items of ten are other ones, for all users."""
    rng = draw(6)
    served = lists.copy()
    for row in range(len(served)):
        left = np.setdiff1d(np.arange(ITEMS // 4), lists[row])
        served[row, 4:7] = rng.choice(left, 3, replace=False)
    return served


def write_config(folder, **changes):
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
