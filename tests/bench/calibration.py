"""False pages beside the stated rate, how soon a fault is seen, how soon it ends. `-m tests.bench calibration ends`.

Runs of the worlds are judged one after another as a service would: what fires is counted and left out of the history, suspects
are left out, one budget is shared by all segments, series and kinds of look. Columns are comparison x segment x series.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from scipy.special import chdtri, stdtrit

from monitor.alerts.verdicts import NORMAL_AGAIN
from monitor.model.rankings import ALL
from monitor.model.rules import MIN_HEALTHY_RUNS, Learning
from monitor.pipeline.expectations import find_waiting
from monitor.reference.prediction import refer, surprise, to_normal
from monitor.reference.sampling_error import judge_rare
from monitor.reference.season import Phases, TrendEvidence, correlate, count_suspects, discount, no_evidence, update_evidence
from monitor.reference.spread import PastAlarms
from monitor.reference.thresholds import SHARE_OF_ALL, Budget

from .worlds import FIRST_SHARE, SERIES, WEEK, Floats, World, draw, is_holiday

Flags = npt.NDArray[np.bool_]
T = TypeVar("T", Floats, Flags)

STATED = 90.0
"""Runs between false pages that are asked for."""
KEPT_RUNS = 63
"""Nine weeks of days; a reference looks at 60."""
KINDS = ("drop", "trend")
LOOKS = {f"{kind} {name}": 1.0 for kind in KINDS for name in SERIES}


@dataclass
class Watch:
    """What is stored between runs, the newest KEPT_RUNS of them, (runs, columns) each, and what fires, (kinds, columns).

    ``drifts`` are runs of a trend that has fired; ``share`` is each column's share of the budget.
    """

    values: Floats
    errors: Floats
    z: Floats
    alarms: Flags
    fired: Flags
    drifts: Flags
    firing: Flags
    evidence: TrendEvidence
    share: Floats

    def judge(self, now: Floats, errors: Floats, phases: list[Phases], columns: int) -> Flags:
        """What fires after this run, (kinds, columns), of segments of so many ``columns``, `all` first in every copy."""
        suspects = np.arange(len(self.values), 0, -1)[:, np.newaxis] <= count_suspects(self.evidence, self.share)
        healthy = ~self.alarms & ~self.drifts & ~suspects & ~find_waiting(self.z)
        past = PastAlarms(healthy=healthy, alarms=self.alarms, firing=self.fired)
        reference = refer(self.values, self.errors, phases=phases, alarms=past)
        p = surprise(reference, now, errors)
        is_share = np.arange(now.size) % len(SERIES) >= FIRST_SHARE
        taught = -reference.taught, np.where(np.isnan(reference.taught), np.nan, self.errors)
        _, p = judge_rare(is_share, taught, (-now, errors), self.share, by_angle=(np.zeros(now.shape), p))
        p = np.where(reference.runs >= MIN_HEALTHY_RUNS, p, np.nan)
        z = to_normal(p)
        self.evidence = update_evidence(self.evidence, discount(z, correlate(reference.taught)))
        breach = np.stack([p <= self.share, self.evidence.total >= 1 / self.share])
        trend = np.where(reference.since >= 0, NORMAL_AGAIN[Learning.DROP], NORMAL_AGAIN[Learning.TREND])
        is_back = np.stack([z <= NORMAL_AGAIN[Learning.DROP], z <= trend])
        self.firing = breach | (self.firing & ~is_back)
        self._keep(now, errors, z, columns)
        return self.firing

    def _keep(self, now: Floats, errors: Floats, z: Floats, columns: int) -> None:
        """Take the run into the history; the evidence of a trend that fires starts anew."""
        any_kind, trend = self.firing[0] | self.firing[1], self.firing[1]
        by_segment = any_kind.reshape(-1, columns, len(SERIES)).any(axis=-1)
        alarmed = np.repeat(by_segment | by_segment[:, :1], len(SERIES), axis=1).ravel()
        drifts = np.arange(len(self.values), -1, -1)[:, np.newaxis] < count_suspects(self.evidence, self.share)
        self.drifts = _append(self.drifts, trend)
        self.drifts |= drifts[-len(self.drifts) :] & trend
        self.values, self.errors, self.z = _append(self.values, now), _append(self.errors, errors), _append(self.z, z)
        self.alarms, self.fired = _append(self.alarms, alarmed), _append(self.fired, any_kind)
        gone = self.evidence
        self.evidence = TrendEvidence(
            mass=np.where(trend, 0, gone.mass), rise=np.where(trend, 0, gone.rise), since=np.where(trend, 0, gone.since)
        )


def _append(past: T, now: T) -> T:
    return np.concatenate((past, now[np.newaxis]))[-KEPT_RUNS:]


def begin(world: World, stated: float) -> Watch:
    names = [ALL, *(f"s={number}" for number in range(world.segments))] if world.segments > 1 else [ALL]
    budget = Budget(runs=stated, segments=names, looks=LOOKS)
    parts = np.array([budget.share(name, f"drop {SERIES[0]}") for name in names])
    share = np.broadcast_to(parts[:, np.newaxis], (world.copies, len(names), len(SERIES))).ravel()
    none, never = np.empty((0, share.size)), np.empty((0, share.size), dtype=bool)
    return Watch(
        values=none,
        errors=none,
        z=none,
        alarms=never,
        fired=never,
        drifts=never,
        firing=np.zeros((len(KINDS), share.size), dtype=bool),
        evidence=no_evidence(share.size),
        share=share,
    )


def watch(world: World, rng: np.random.Generator, stated: float = STATED) -> Iterator[tuple[Flags, Floats]]:
    """For each judged run what fired, (kinds, copies, segments, series), and the values of `all`, (copies, series)."""
    state, days = begin(world, stated), np.empty(0, dtype=np.intp)
    for run, (now, errors) in enumerate(draw(world, rng)):
        fired = state.firing
        if not (world.holiday and is_holiday(run)):
            phases = Phases(past=days[-KEPT_RUNS:], now=run % WEEK)
            fired = state.judge(now.ravel(), errors.ravel(), [phases], now.shape[1])
            days = np.append(days, run % WEEK)
        if run >= MIN_HEALTHY_RUNS:
            yield fired.reshape(-1, *now.shape), now[:, 0]


def count_pages(world: World, stated: float = STATED, seed: int = 1) -> npt.NDArray[np.intp]:
    """Pages of each copy of a healthy world. What fires on after a page in the run before belongs to that page."""
    looks = [np.any(fired, axis=(0, 2, 3)) for fired, _ in watch(world, np.random.default_rng(seed), stated)]
    fires = np.array([np.zeros(world.copies, dtype=bool), *looks])
    return np.asarray(np.sum(fires[1:] & ~fires[:-1], axis=0))


def bound(pages: npt.NDArray[np.intp]) -> float:
    """Upper 95 % bound of the mean number of pages of all copies together, of which these were seen.

    The larger one of Garwood's (1936), as if pages came alone, and Student's over the copies, as they come in clusters.
    """
    seen = float(pages.sum())
    alone = float(chdtri(2 * (seen + 1), 0.05) / 2)
    clustered = seen + float(stdtrit(pages.size - 1, 0.95)) * float(pages.std(ddof=1)) * np.sqrt(pages.size)
    return max(alone, float(clustered))


def calibrate() -> Table:
    """10,000 runs a setting or more, in 36 worlds of shocks and 8 of patterns; above 1 the promise would not be kept."""
    table = Table("users", "segments", "shocks", "runs", "pages", "of stated", "95 % bound of that")
    table.title = f"False pages when one in {STATED:.0f} runs is allowed"
    kinds = SHOCKS | PATTERNS
    settings = [*itertools.product((25, 500, 5000), (1, 8, 40), SHOCKS), *itertools.product((500, 5000), (8,), PATTERNS)]
    worlds = [replace(kinds[kind], users=users, segments=segments) for users, segments, kind in settings]
    with ProcessPoolExecutor(int(os.environ.get("BENCH_PROCESSES", "0")) or None) as pool:
        for (users, segments, kind), pages, world in zip(settings, pool.map(count_pages, worlds), worlds, strict=True):
            runs = world.copies * world.runs
            ratios = (f"{count * STATED / runs:.2f}" for count in (pages.sum(), bound(pages)))
            row = (f"{users:,}", str(segments), kind, f"{runs:,}", str(pages.sum()), *ratios)
            table.add_row(*row)
            Console(stderr=True).print(*row, sep=" | ", highlight=False)  # it takes an hour
    return table


def measure_power() -> Table:
    """Runs from the fault to its page, median over comparisons and the share of them paged within 30 runs."""
    table = Table("collapsed", "users", *SERIES, "together", "3 sigma on the mean")
    table.title = "Runs until a fault is paged (1: its first run), and comparisons that page it within 30 runs"
    for collapsed, users in itertools.product((0.005, 0.01, 0.02, 0.05, 0.1), (500, 1500, 20000)):
        world = World(users=users, collapsed=collapsed, onset=30, runs=60, copies=100)
        table.add_row(f"{collapsed:.1%}", f"{users:,}", *(show_delay(each) for each in find_delays(world)))
    return table


def measure_ends() -> Table:
    """Runs from healing, or from the fault on where it stays, to the end of the last alert, and the share ended in time."""
    table = Table("collapsed", "users", "shocks", "healed", "within 3", "healed elsewhere", "within 3", "stays", "within 17")
    table.title = "Runs until the last alert of a fault ends (1: the first run), once it was healed after ten or stays"
    for collapsed, users, kind in itertools.product((0.05, 0.3), (500, 5000), SHOCKS):
        world = replace(SHOCKS[kind], users=users, collapsed=collapsed, onset=40, runs=80, copies=50)
        faults = (replace(world, lasts=10), replace(world, lasts=10, moved=-1.0), world)
        ends = [find_ends(fault, 10 if fault.lasts == 10 else 0) for fault in faults]
        cells = (
            (f"{np.median(each):.0f}", f"{np.mean(each <= most):.0%}") for each, most in zip(ends, (3, 3, 17), strict=True)
        )
        table.add_row(f"{collapsed:.0%}", f"{users:,}", kind, *itertools.chain(*cells))
    return table


def find_ends(world: World, after: int) -> npt.NDArray[np.intp]:
    """Number, from 1, of the first run that ends without an alert, counted from so many runs ``after`` the onset on.

    Of the copies in which the fault was paged at all.
    """
    looks = np.array([np.any(fired, axis=(0, 2, 3)) for fired, _ in watch(world, np.random.default_rng(1))])
    seen = looks[world.onset : world.onset + 10].any(axis=0)
    begun = np.maximum.accumulate(looks[world.onset :], axis=0)
    return first((~looks[world.onset :] & begun)[after:, seen])


def find_delays(world: World) -> list[npt.NDArray[np.intp]]:
    """Runs to the first page, (copies,), by each series, by all of them, and by three deviations of the healthy means.

    As in a comparison of several segments, `all` spends half of the budget.
    """
    looks = list(watch(world, np.random.default_rng(1), STATED / SHARE_OF_ALL))
    fired = np.array([np.any(each, axis=0)[:, 0] for each, _ in looks[world.onset :]])
    means = np.array([values[:, 0] for _, values in looks])
    healthy = means[: world.onset]
    by_rule = means[world.onset :] < healthy.mean(axis=0) - 3 * healthy.std(axis=0, ddof=1)
    return [first(each) for each in (*np.moveaxis(fired, -1, 0), fired.any(axis=-1), by_rule)]


def first(fired: Flags) -> npt.NDArray[np.intp]:
    """Number, from 1, of the first run that fired, (copies,), of (runs, copies); one more than there are where none did."""
    return np.where(fired.any(axis=0), fired.argmax(axis=0) + 1, len(fired) + 1)


def show_delay(delays: npt.NDArray[np.intp], within: int = 30) -> str:
    seen, median = np.mean(delays <= within), np.median(delays)
    return f"{median:.0f} ({seen:.0%})" if median <= within else f"- ({seen:.0%})"


SHOCKS = {
    "independent": World(users=0),
    "autocorrelation 0.3": World(users=0, correlation=0.3),
    "autocorrelation 0.6": World(users=0, correlation=0.6, copies=200),  # pages come in clusters: four times the runs
    "weekly season": World(users=0, is_weekly=True),
}
PATTERNS = {
    "weekends of 6 % of users": World(users=0, weekend=0.06, onset=0, runs=365),
    "weekly trainings": World(users=0, trained=0.15, onset=0, runs=365),
    "holidays": World(users=0, holiday=0.2, onset=0),
    "weekly season and weekends": World(users=0, is_weekly=True, weekend=0.06, onset=0, runs=365, correlation=0.3),
}
TABLES = {"calibration": calibrate, "power": measure_power, "ends": measure_ends}


def main(names: list[str]) -> None:
    for name in names or TABLES:
        Console(width=None if sys.stdout.isatty() else 140).print(TABLES[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
