"""False pages of fixed thresholds proposed from a short history, over thousands of held-back runs of many worlds."""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, Direction
from monitor.reference.prediction import refer
from monitor.reference.thresholds import Budget, propose

from .calibration import SHOCKS, STATED, bound
from .worlds import SERIES, World, draw

HISTORIES = (30, 60)
HELD_BACK = 100
COPIES = 100


def count_pages(world: World, history: int, seed: int = 2) -> npt.NDArray[np.intp]:
    """Pages in the held-back runs of each of ``copies`` healthy comparisons, with thresholds from its own history.

    What is in breach after a run in breach belongs to its page.
    """
    runs = list(draw(replace(world, runs=history - MIN_HEALTHY_RUNS + HELD_BACK), np.random.default_rng(seed)))
    values, errors = (np.array([run[part] for run in runs]) for part in (0, 1))
    names = [ALL, *(f"s={number}" for number in range(world.segments))] if world.segments > 1 else [ALL]
    budget = Budget(runs=STATED, segments=names, looks=dict.fromkeys(SERIES, 1.0))
    share = np.array([[budget.share(name, look) for look in SERIES] for name in names])
    flat = values.shape[1], -1
    past = values[:history].reshape(history, -1), errors[:history].reshape(history, -1)
    limit = propose(
        refer(*past), np.nanmax(past[1], axis=0), np.tile(share.ravel(), flat[0]), direction=Direction.BELOW, worst=-np.inf
    ).limit
    breach: npt.NDArray[np.bool_] = np.any((values[history:].reshape(HELD_BACK, -1) < limit).reshape(HELD_BACK, *flat), axis=2)
    before = np.concatenate((np.zeros((1, world.copies), dtype=bool), breach[:-1]))
    return np.asarray(np.sum(breach & ~before, axis=0))


def main(_names: list[str]) -> None:
    """10,000 held-back runs a setting; at most 1 in the last column where the promise is kept."""
    table = Table("history", "users", "segments", "shocks", "runs", "pages", "of stated", "95 % bound of that")
    table.title = f"False pages of suggested thresholds when one in {STATED:.0f} runs is allowed"
    settings = list(itertools.product(HISTORIES, (25, 500, 5000), (1, 8, 40), SHOCKS))
    worlds = [replace(SHOCKS[kind], users=users, segments=segments, copies=COPIES) for _, users, segments, kind in settings]
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(count_pages, worlds, [history for history, *_ in settings]))
    runs = COPIES * HELD_BACK
    for (history, users, segments, kind), pages in zip(settings, found, strict=True):
        ratios = (f"{count * STATED / runs:.2f}" for count in (pages.sum(), bound(pages)))
        table.add_row(str(history), f"{users:,}", str(segments), kind, f"{runs:,}", str(pages.sum()), *ratios)
    Console(width=None if sys.stdout.isatty() else 140).print(table)
