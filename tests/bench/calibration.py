"""Compares false pages with the stated rate, and measures how soon faults are found and end.

`-m tests.bench calibration ends frozen`.

The benchmark judges the runs of simulated worlds one after the other, as the daemon does. Runs that
fire are counted and left out of the history, and suspects are left out too. All segments, series
and kinds of judgement share one budget. Columns are comparison x segment x series."""

import itertools
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.random import default_rng
from scipy.special import betainc, chdtri, stdtrit

from bench import show
from factories import DAY, SLOT
from monitor.alerts.conditions import _count_changes
from monitor.alerts.verdicts import MOST_AGAIN, NORMAL_AGAIN
from monitor.measures.kernels.exposure import weigh_changes
from monitor.model.alerts import Standstill
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import MIN_HEALTHY_RUNS, Direction, Learning
from monitor.pipeline.expectations import SMALL_WEIGHT, find_odd, find_postponed
from monitor.statistics.reference.history import median_z_while_firing
from monitor.statistics.reference.prediction import (
    compute_p_values,
    compute_reference,
    z_of_p_value,
)
from monitor.statistics.reference.sampling_error import judge_rare, to_angle
from monitor.statistics.reference.season import (
    Phases,
    TrendEvidence,
    correlate,
    count_suspects,
    discount,
    no_evidence,
    raise_to_median,
    update_evidence,
)
from monitor.statistics.reference.spread import PastAlerts
from monitor.statistics.reference.thresholds import SHARE_OF_ALL, Budget, propose_thresholds

WEEK = 7
BINS = 40
EDGES = np.linspace(-1.0, 1.0, BINS + 1)
SCORES = (EDGES[1:] + EDGES[:-1]) / 2
USUAL = np.diff(betainc(5.0, 1.8, (EDGES + 1) / 2))
"""Mean 0.47, deviation 0.31, one user in ten below 0. These are close to the extended tau of a retrained shop recommender."""
SHOCK = 0.3
"""Moves the mean by 0.03 from run to run."""
SERIES = (
    "mean",
    "p05",
    "share_below(0)",
    "share_below(-0.5)",
    "exposure_jump",
    "shifted_list",
    "unchanged_list",
    "identical_list",
    "alike_list",
    "interleaved_list",
    "shared_list",
    "rise of the mean",
)
FIRST_SHARE, LAST_SHARE = 2, 10  # these series, and the series between them, are shares of users
FAR = SERIES.index("share_below(-0.5)")
OF_BOTH_ARMS = [SERIES.index(f"{name}_list") for name in ("identical", "alike", "interleaved")]
OF_EARLIER_LISTS = [
    SERIES.index(name) for name in ("exposure_jump", "shifted_list", "unchanged_list")
]
"""These series do not judge the run after a holiday, because it is compared with a holiday's lists."""
ITEMS, MOVING, LISTED = 100, 0.05, 0.1
"""There are `ITEMS` items, each in the share `LISTED` of the lists. The share `MOVING` of the users loses or gains an item."""
LIKE = {"shifted_list": 0.04, "alike_list": 0.02, "interleaved_list": 0.15}
"""Mean shares of users with these traits in real lists. The shares vary with the shocks."""
UNCHANGED = 0.002
"""Share of users whose list a training does not change, in clusters of twice their variance."""
ALIKE = 0.0005
"""Mean share of users who happen to have the most common list, in addition to the one user who always has it."""
IDENTICAL = 0.01
"""Share of users with the same list in both arms. It is larger on days with similar arms."""


@immutable
class World:
    """``copies`` independent comparisons of ``segments`` segments of ``users`` users each, for ``runs`` judged runs.

    Scores are in 40 bins over [-1, 1], and as skewed as real scores. In each run, a shock of all users and a smaller shock of
    each segment tilt their distribution.
    """

    users: int
    segments: int = 1
    correlation: float = 0.0
    is_weekly: bool = False
    copies: int = 50
    runs: int = 200
    collapsed: float = 0.0
    """Share of users with popularity lists after ``onset`` judged runs, for ``lasts`` runs."""
    onset: int = 30
    lasts: int = 10_000
    identical: float = IDENTICAL
    moved: float = 0.0
    """Tilt of all scores from ``onset`` on, in shocks. The healthy level after the fault is another one."""
    weekend: float = 0.0
    """Share of users with popularity lists on the last two days of each week from ``onset`` on."""
    trained: float = 0.0
    """The same on the first day of each week, and half of it on the day after."""
    holiday: float = 0.0
    """The same on three days in forty. These days are left out as holidays."""
    is_unpaired: bool = False
    """Whether one arm serves each user. Then the gaps between the arms are judged."""


def draw(world, rng):
    """Values and errors of one run after another, each (copies, segments [+ all], series)."""
    shape = (world.copies, world.segments)
    week = rng.normal(size=(WEEK, world.copies, 1)) * world.is_weekly
    common, own = rng.normal(size=(world.copies, 1)), rng.normal(size=shape)
    ill = 0.0
    keep, fresh = world.correlation, np.sqrt(1 - world.correlation**2)
    for run in range(MIN_HEALTHY_RUNS + world.runs):
        common = keep * common + fresh * rng.normal(size=common.shape)
        own = keep * own + fresh * rng.normal(size=shape)
        age = run - MIN_HEALTHY_RUNS - world.onset
        tilt = SHOCK * (
            np.sqrt(0.8) * common + np.sqrt(0.2) * own + week[run % WEEK] + world.moved * (age >= 0)
        )
        odds = USUAL * np.exp(tilt[..., np.newaxis] * SCORES)
        odds /= odds.sum(axis=-1, keepdims=True)
        in_week = max(
            world.weekend * (run % WEEK >= 5),
            world.trained / 2 ** (run % WEEK),
            world.holiday * is_holiday(run),
        )
        was_ill = ill
        ill = max(world.collapsed * (age < world.lasts), in_week) if age >= 0 else 0.0
        odds = (1 - ill) * odds + ill * (np.arange(BINS) < 2) / 2
        counts = rng.multinomial(world.users, odds)
        rare = draw_rare(world, ill, was_ill, tilt, rng)
        if world.segments > 1:
            counts = np.concatenate((counts.sum(axis=1, keepdims=True), counts), axis=1)
            whole = np.concatenate(
                (rare[..., :-1].sum(axis=1), rare[..., -1:].max(axis=1)), axis=-1
            )
            rare = np.concatenate((whole[:, np.newaxis], rare), axis=1)
        jump = draw_jump(counts.sum(axis=-1), common, rng)
        yield measure(counts, np.concatenate((jump[..., np.newaxis], rare), axis=-1))


def draw_unpaired(world, rng):
    """Values and errors of an unpaired comparison, in the columns of a paired comparison.

    The self gap has the column of the mean, and the far gap has the column of p05. Only the candidate has the fault.
    """
    healthy = replace(world, collapsed=0.0, moved=0.0, weekend=0.0, trained=0.0, holiday=0.0)
    for (values, errors), of_baseline in zip(draw(world, rng), draw(healthy, rng), strict=True):
        gaps, gap_errors = values - of_baseline[0], np.hypot(errors, of_baseline[1])
        for place, source in ((0, 0), (1, FAR), (-1, -1)):
            values[..., place], errors[..., place] = gaps[..., source], gap_errors[..., source]
        values[..., [2, FAR, *OF_BOTH_ARMS]] = np.nan
        yield values, errors


def is_holiday(run):
    return run % 40 in (20, 21, 22)


def draw_rare(world, ill, was_ill, tilt, rng):
    """Users whose list has each trait, in the order of `SERIES`, (copies, segments, 6).

    A share ``ill`` of the users always has the same list, which the baseline does not return. The share ``was_ill`` had this
    list in the run before.
    """
    shape = (world.copies, world.segments)
    same = rng.binomial(world.users, ill, shape)
    unchanged = np.minimum(
        rng.negative_binomial(UNCHANGED * world.users, 0.5, shape) + same, world.users
    )
    by_tilt = {}
    for name, usual in {**LIKE, "identical_list": world.identical}.items():
        odds = usual / (1 - usual) * np.exp(tilt)
        by_tilt[name] = rng.binomial(world.users, (1 - ill) * odds / (1 + odds))
    became_ill = rng.binomial(world.users, abs(ill - was_ill), shape)
    return np.stack(
        (
            np.minimum(by_tilt["shifted_list"] + became_ill, world.users),
            unchanged,
            by_tilt["identical_list"],
            by_tilt["alike_list"],
            by_tilt["interleaved_list"],
            np.maximum(1 + rng.poisson(ALIKE * world.users, shape), same),
        ),
        axis=-1,
    )


def draw_jump(users, common, rng):
    """The largest weighed change of an item, in users, (copies, segments)."""
    rates = MOVING * np.exp(0.1 * rng.normal(size=(2, ITEMS, *users.shape)))
    gained, lost = rng.binomial(users, rates)
    before = np.rint(LISTED * users)
    now = before + np.rint(np.exp(0.2 * common) * (gained - lost)).clip(-before)
    # The items are the columns of each comparison and segment.
    columns = before.size
    weighed = [
        weigh_changes(np.full(ITEMS, before.flat[column]), now.reshape(ITEMS, columns)[:, column])
        for column in range(columns)
    ]
    return np.rint(np.max(weighed, axis=1)).reshape(users.shape)


def measure(counts, rare):
    """All series and their sampling errors, from counts by bin (..., bins) and rare counts (..., 7)."""
    n = counts.sum(axis=-1)
    mean = counts @ SCORES / n
    deviation = np.sqrt(np.maximum(counts @ SCORES**2 / n - mean**2, 0) * n / (n - 1))
    p05, p05_error = percentile(counts, n)
    below = [counts[..., : np.searchsorted(SCORES, floor)].sum(axis=-1) for floor in (0.0, -0.5)]
    shares = [to_angle(each / n, n) for each in (*below, *np.moveaxis(rare, -1, 0))]
    values = np.stack([mean, p05, *(-angle for angle, _ in shares), -mean], axis=-1)
    error = deviation / np.sqrt(n)
    return values, np.stack([error, p05_error, *(error for _, error in shares), error], axis=-1)


def percentile(counts, n):
    """p05 and its error as `estimate_error` takes it from p01, p05, p10.

    NaN with fewer than 5 users below.
    """
    p01, p05, p10 = (
        _quantile(counts, np.asarray(q * n, dtype=np.float64)) for q in (0.01, 0.05, 0.1)
    )
    reach = np.sqrt(0.05 * 0.95 / n)
    error = reach * np.maximum((p05 - p01) / 0.04, (p10 - p05) / 0.05)
    return np.where(n * 0.05 < 5, np.nan, p05), error


def _quantile(counts, rank):
    """Score at a rank. The users of a bin are spread evenly."""
    below = np.cumsum(counts, axis=-1)
    at = np.argmax(below >= rank[..., np.newaxis], axis=-1)[..., np.newaxis]
    inside = np.take_along_axis(counts, at, axis=-1)
    part = 1 - (np.take_along_axis(below, at, axis=-1) - rank[..., np.newaxis]) / np.maximum(
        inside, 1
    )
    return (EDGES[at] + part * (EDGES[1] - EDGES[0]))[..., 0]


STATED = 90.0
"""The configured number of runs between false pages."""
KEPT_RUNS = 63
"""Nine weeks. A reference uses 60 days."""
KINDS = ("drop", "trend")
SMALL = ("exposure_jump", "shifted_list", "alike_list", "interleaved_list", "rise of the mean")
"""These series have a small weight, and only single runs of them are judged."""
LOOKS = {f"drop {name}": SMALL_WEIGHT if name in SMALL else 1.0 for name in SERIES} | {
    f"trend {name}": 1.0 for name in SERIES if name not in SMALL
}
NOT_UNPAIRED = {"share_below(0)", *(SERIES[place] for place in (FAR, *OF_BOTH_ARMS))}
LOOKS_OF_UNPAIRED = {
    look: weight
    for look, weight in LOOKS.items()
    if look.partition(" ")[2] not in NOT_UNPAIRED and look != "trend p05"
}


class Watch:
    """What is stored between runs: arrays (runs, columns) of the newest KEPT_RUNS runs, and what fires, (kinds, columns).

    ``pending`` columns were in breach in the last run. Identical lists fire in the second such run. ``drifts`` are the runs of
    a trend that has fired. ``share`` is each column's share of the budget.
    """

    def __init__(self, share, looks=LOOKS):
        self.share, self.evidence = share, no_evidence(share.size)
        self.looks = looks
        self.values = self.errors = self.z = np.empty((0, share.size))
        never = np.empty((0, share.size), dtype=bool)
        self.alarms, self.fired, self.drifts = never, never, never
        self.firing = np.zeros((len(KINDS), share.size), dtype=bool)
        self.pending = np.zeros(share.size, dtype=bool)

    def judge(self, now, errors, phases, columns):
        """What fires after this run, (kinds, columns). The segment `all` comes first in every copy."""
        suspects = np.arange(len(self.values), 0, -1)[:, np.newaxis] <= count_suspects(
            self.evidence, self.share
        )
        calm = np.where(self.alarms, np.nan, self.values)
        odd = spread_over_segments(find_odd(calm, self.errors, self.z), columns)
        healthy = ~self.alarms & ~odd & ~self.drifts & ~suspects & ~find_postponed(self.z)
        far = self.z > NORMAL_AGAIN[Learning.DROP]
        past = PastAlerts(
            healthy=healthy, alerting=self.alarms, firing=self.fired, far_from_normal=far
        )
        is_low = np.full(now.size, -1.0)
        reference = compute_reference(
            self.values, self.errors, phases=phases, alerts=past, side=is_low
        )
        p = compute_p_values(reference, now, errors)
        series = np.arange(now.size) % len(SERIES)
        is_share = (series >= FIRST_SHARE) & (series <= LAST_SHARE)
        taught = (
            -reference.used_values,
            np.where(np.isnan(reference.used_values), np.nan, self.errors),
        )
        always = np.where(series == SERIES.index("shared_list"), 1.0, 0.0)
        _, p, is_counted = judge_rare(
            is_share,
            taught,
            (-now, errors),
            self.share,
            uncounted=(np.zeros(now.shape), p),
            always=always,
        )
        p = np.where(reference.runs >= MIN_HEALTHY_RUNS, p, np.nan)
        z = z_of_p_value(p)
        own = np.where(is_counted & (always > 0), 0.0, correlate(reference.used_values, self.share))
        # The segments of a copy are one group for each series.
        copies = np.arange(now.size) // (columns * len(SERIES))
        correlation = raise_to_median(own, copies * len(SERIES) + series)
        self.evidence = update_evidence(self.evidence, discount(z, correlation))
        is_drop = p <= self.share
        waits = (series == SERIES.index("identical_list")) & ~self.pending
        self.pending = is_drop
        has_trend = np.array([f"trend {name}" in self.looks for name in SERIES])[series]
        is_trend = (self.evidence.total >= 1 / self.share) & has_trend
        breach = np.stack([is_drop & ~waits, is_trend])
        trend = np.where(
            reference.since >= 0, NORMAL_AGAIN[Learning.DROP], NORMAL_AGAIN[Learning.TREND]
        )
        half = np.minimum(np.nan_to_num(median_z_while_firing(self.z, self.fired)) / 2, MOST_AGAIN)
        is_back = np.stack(
            [z <= np.maximum(NORMAL_AGAIN[Learning.DROP], half), z <= np.maximum(trend, half)]
        )
        self.firing = breach | (self.firing & ~is_back)
        self._keep(now, errors, z, columns)
        return self.firing

    def _keep(self, now, errors, z, columns):
        """Add the run to the history. The evidence of a trend that fires begins at zero again."""
        any_kind, trend = self.firing[0] | self.firing[1], self.firing[1]
        alarmed = spread_over_segments((any_kind | self.pending)[np.newaxis], columns)[0]
        drifts = np.arange(len(self.values), -1, -1)[:, np.newaxis] < count_suspects(
            self.evidence, self.share
        )
        self.drifts = _append(self.drifts, trend)
        self.drifts |= drifts[-len(self.drifts) :] & trend
        self.values, self.errors = _append(self.values, now), _append(self.errors, errors)
        self.z, self.alarms = _append(self.z, z), _append(self.alarms, alarmed)
        self.fired = _append(self.fired, any_kind)
        begun = ~trend
        self.evidence = TrendEvidence(
            mass=self.evidence.mass * begun,
            rise=self.evidence.rise * begun,
            since=self.evidence.since * begun,
        )


def spread_over_segments(flags, columns):
    """Extend each run's flag, (runs, m), to all series of the segment. A flag of `all` counts for all segments."""
    copies = flags.shape[1] // (columns * len(SERIES))
    by_segment = np.asarray(flags.reshape(len(flags), copies, columns, len(SERIES)).any(axis=-1))
    return np.repeat(by_segment | by_segment[..., :1], len(SERIES), axis=-1).reshape(flags.shape)


def _append(past, now):
    return np.concatenate((past, now[np.newaxis]))[-KEPT_RUNS:]


def shares(world, stated, looks):
    """Each column's share of the budget. All kinds of judgement of a series have the same weight."""
    names = (
        [ALL, *(f"s={number}" for number in range(world.segments))] if world.segments > 1 else [ALL]
    )
    budget = Budget(runs=stated, segments=names, looks=looks)
    by_series = {look.partition(" ")[2] or look: look for look in looks}
    parts = [
        [budget.alpha(name, by_series.get(series, next(iter(looks)))) for series in SERIES]
        for name in names
    ]
    return np.broadcast_to(parts, (world.copies, len(names), len(SERIES))).ravel()


def watch(world, rng, stated=STATED):
    """For each judged run what fired, (kinds, copies, segments, series), and the values of `all`, (copies, series)."""
    looks = LOOKS_OF_UNPAIRED if world.is_unpaired else LOOKS
    state, days = Watch(shares(world, stated, looks), looks), np.empty(0, dtype=np.intp)
    drawn = draw_unpaired(world, rng) if world.is_unpaired else draw(world, rng)
    for run, (now, errors) in enumerate(drawn):
        fired = state.firing
        if not (world.holiday and is_holiday(run)):
            phases = Phases(past=days[-KEPT_RUNS:], now=run % WEEK, is_known_at_once=True)
            if world.holiday and is_holiday(run - 1):
                now[..., OF_EARLIER_LISTS] = np.nan
            fired = state.judge(now.ravel(), errors.ravel(), [phases], now.shape[1])
            days = np.append(days, run % WEEK)
        if run >= MIN_HEALTHY_RUNS:
            yield fired.reshape(-1, *now.shape), now[:, 0]


def count_pages(world):
    """Pages of each copy of a healthy world.

    If an alert also fired in the run before, it belongs to the page of that run.
    """
    return count_begun(looks_of(world, default_rng(1)))


def looks_of(world, rng):
    """Whether anything of a comparison fires, (runs, copies)."""
    return np.array([np.any(fired, axis=(0, 2, 3)) for fired, _ in watch(world, rng)])


def count_begun(fires):
    """How often each copy begins to fire, of (runs, copies)."""
    before = np.concatenate((np.zeros((1, fires.shape[1]), dtype=bool), fires[:-1]))
    return np.asarray(np.sum(fires & ~before, axis=0))


def bound(pages):
    """Upper 95 % bound of the mean number of pages of all copies together.

    This is the larger one of two bounds: Garwood's (1936), which assumes independent pages, and Student's over the copies,
    because pages come in clusters.
    """
    seen = float(pages.sum())
    alone = float(chdtri(2 * (seen + 1), 0.05) / 2)
    clustered = seen + float(stdtrit(pages.size - 1, 0.95)) * float(pages.std(ddof=1)) * np.sqrt(
        pages.size
    )
    return max(alone, float(clustered))


def calibrate():
    """At least 10,000 runs for each setting: 36 worlds with shocks, 10 with patterns, and 18 with unpaired comparisons.

    The stated rate is too low if a figure is above 1.
    """
    unpaired = {
        f"unpaired, {name}": replace(world, is_unpaired=True)
        for name, world in (SHOCKS | PATTERNS).items()
    }
    kinds = SHOCKS | PATTERNS | unpaired
    settings = [
        *itertools.product((25, 500, 5000), (1, 8, 40), SHOCKS),
        *itertools.product((500, 5000), (8,), PATTERNS),
        *itertools.product((500, 5000), (8,), unpaired),
    ]
    worlds = [
        replace(kinds[kind], users=users, segments=segments) for users, segments, kind in settings
    ]
    show_pages("False pages", ("users", "segments", "shocks"), settings, worlds, count_pages)


def show_pages(title, columns, settings, worlds, count, *more):
    """Compare the pages of each world with the allowed number. This takes up to an hour."""
    rows = []
    with ProcessPoolExecutor(int(os.environ.get("BENCH_PROCESSES", "0")) or None) as pool:
        found = pool.map(count, worlds, *more)
        for setting, pages, world in zip(settings, found, worlds, strict=True):
            runs = world.copies * world.runs
            ratios = (f"{each * STATED / runs:.2f}" for each in (pages.sum(), bound(pages)))
            rows.append((*setting, f"{runs:,}", pages.sum(), *ratios))
            print(*rows[-1], sep=" | ", file=sys.stderr)  # noqa: T201 - it takes an hour
    columns = (*columns, "runs", "pages", "of stated", "95 % bound of that")
    show(f"{title} when one in {STATED:.0f} runs is allowed", columns, rows)


def measure_power():
    """Runs from the fault to its page: the median over comparisons, and the share of comparisons with a page within 30 runs."""
    rows = []
    for collapsed, users in itertools.product((0.005, 0.01, 0.02, 0.05, 0.1), (500, 1500, 20000)):
        world = World(users=users, collapsed=collapsed, onset=30, runs=60, copies=100)
        rows.append((f"{collapsed:.1%}", users, *map(show_delay, find_delays(world))))
    title = "Runs until a fault is paged (1: its first run), and comparisons that page it within 30"
    show(title, ("collapsed", "users", *SERIES, "together", "3 sigma on the mean"), rows)


def measure_ends():
    """Runs from the end of the fault to the end of the last alert, and the share of alerts that ended in time.

    If the fault stays, the runs are counted from its start.
    """
    columns = (
        "collapsed|users|shocks|healed|within 3|healed elsewhere|within 3|within 14|stays|within 17"
    )
    rows = []
    for collapsed, users, kind in itertools.product((0.05, 0.3), (500, 5000), SHOCKS):
        world = replace(
            SHOCKS[kind], users=users, collapsed=collapsed, onset=40, runs=80, copies=50
        )
        row = [f"{collapsed:.0%}", users, kind]
        for fault, after, limits in (
            (replace(world, lasts=10), 10, (3,)),
            (replace(world, lasts=10, moved=-1.0), 10, (3, 14)),
            (world, 0, (17,)),
        ):
            ends = find_ends(fault, after)
            row += [f"{np.median(ends):.0f}", *(f"{np.mean(ends <= most):.0%}" for most in limits)]
        rows.append(row)
    title = "Runs until the last alert of a fault ends (1: the first run), healed after ten or not"
    show(title, columns.split("|"), rows)


def find_ends(world, after):
    """Number, from 1, of the first run that ends without an alert. The count begins ``after`` runs after the onset.

    Only copies with a page about the fault count.
    """
    looks = looks_of(world, default_rng(1))
    seen = looks[world.onset : world.onset + 10].any(axis=0)
    begun = np.maximum.accumulate(looks[world.onset :], axis=0)
    return first((~looks[world.onset :] & begun)[after:, seen])


def find_delays(world):
    """Runs to the first page, (copies,): by each series, by all series, and by three deviations of the healthy means.

    As in a comparison of several segments, `all` has half of the budget.
    """
    looks = list(watch(world, default_rng(1), STATED / SHARE_OF_ALL))
    fired = np.array([np.any(each, axis=0)[:, 0] for each, _ in looks[world.onset :]])
    means = np.array([values[:, 0] for _, values in looks])
    healthy = means[: world.onset]
    by_rule = means[world.onset :] < healthy.mean(axis=0) - 3 * healthy.std(axis=0, ddof=1)
    return [first(each) for each in (*np.moveaxis(fired, -1, 0), fired.any(axis=-1), by_rule)]


def first(fired):
    """Number, from 1, of the first run that fired, (copies,), of (runs, copies).

    If none fired, it is the number of runs plus 1.
    """
    return np.where(fired.any(axis=0), fired.argmax(axis=0) + 1, len(fired) + 1)


def show_delay(delays, within=30):
    seen, median = np.mean(delays <= within), np.median(delays)
    return f"{median:.0f} ({seen:.0%})" if median <= within else f"- ({seen:.0%})"


SHOCKS = {
    "independent": World(users=0),
    "autocorrelation 0.3": World(users=0, correlation=0.3),
    "autocorrelation 0.6": World(
        users=0, correlation=0.6, copies=200
    ),  # pages come in clusters, so four times as many runs are needed
    "weekly season": World(users=0, is_weekly=True),
}
PATTERNS = {
    "weekends of 6 % of users": World(users=0, weekend=0.06, onset=0, runs=365),
    "weekly trainings": World(users=0, trained=0.15, onset=0, runs=365),
    "holidays": World(users=0, holiday=0.2, onset=0),
    "half of the lists identical": World(users=0, identical=0.5),
    "weekly season and weekends": World(
        users=0, is_weekly=True, weekend=0.06, onset=0, runs=365, correlation=0.3
    ),
}


HISTORIES = (30, 60)
HELD_BACK = 100
SUGGESTED_COPIES = 100
SUGGESTED_SERIES = 4
"""`rankwatch suggest` proposes thresholds for the first of `SERIES`, but not for rare lists."""


def count_pages_of_suggested(world, history, seed=2):
    """Pages in the held-back runs of each of ``copies`` healthy comparisons, with thresholds from its own history.

    A run in breach after another run in breach belongs to the same page.
    """
    drawn = draw(replace(world, runs=history - MIN_HEALTHY_RUNS + HELD_BACK), default_rng(seed))
    values, errors = map(np.array, zip(*drawn, strict=True))
    values, errors = values[..., :SUGGESTED_SERIES], errors[..., :SUGGESTED_SERIES]
    values[..., FIRST_SHARE:] *= -1  # a higher share of users is worse
    share = shares(world, STATED, dict.fromkeys(SERIES[:SUGGESTED_SERIES], 1.0))
    share = share.reshape(world.copies, -1, len(SERIES))[..., :SUGGESTED_SERIES].ravel()
    past = values[:history].reshape(history, -1), errors[:history].reshape(history, -1)
    limit = propose_thresholds(
        compute_reference(*past),
        np.nanmax(past[1], axis=0),
        share,
        direction=Direction.BELOW,
        worst=-np.inf,
    ).limit
    below = values[history:].reshape(HELD_BACK, -1) < limit
    return count_begun(np.any(below.reshape(HELD_BACK, world.copies, -1), axis=2))


def check_suggested():
    """10,000 held-back runs for each setting. The stated rate holds if the last column is at most 1."""
    settings = list(itertools.product(HISTORIES, (25, 500, 5000), (1, 8, 40), SHOCKS))
    worlds = [
        replace(
            SHOCKS[kind], users=users, segments=segments, copies=SUGGESTED_COPIES, runs=HELD_BACK
        )
        for _, users, segments, kind in settings
    ]
    columns, histories = ("history", "users", "segments", "shocks"), [each[0] for each in settings]
    title = "False pages of suggested thresholds"
    show_pages(title, columns, settings, worlds, count_pages_of_suggested, histories)


TRAININGS = tuple(itertools.product((1, 3, 7), (0.0, 0.1, 0.3, 0.5, 0.9)))
"""Runs from one training of the candidate to the next, and the chance that it is late by one more run."""
FROZEN_RUNS = 400, 300
"""Runs of a comparison, and comparisons."""


def check_frozen():
    """Pages while trainings are late.

    `CandidateFrozen` while the candidate is trained late and the baseline before each run, and `BothFrozen` while both arms are
    trained late together.
    """
    rng, rows = default_rng(1), []
    runs, copies = FROZEN_RUNS
    for arm, (days, late) in itertools.product((Arm.CANDIDATE, None), TRAININGS):
        pages = np.array([count_frozen(arm, days, late, rng, runs) for _ in range(copies)])
        ratios = (f"{each * STATED / (runs * copies):.3f}" for each in (pages.sum(), bound(pages)))
        rows.append((arm or "both", days, f"{late:.0%}", pages.sum(), *ratios))
    columns = "arm|runs between trainings|late|pages|of stated|95 % bound of that"
    show("False pages of arms that are trained late", columns.split("|"), rows)


def count_frozen(arm, days, late, rng, runs):
    standstill = Standstill(alert="Frozen", arm=arm)
    age = pages = is_firing = 0
    for run, lateness in enumerate(rng.random(runs)):
        age += 1
        is_trained = age >= days and lateness >= late
        age *= not is_trained
        churn = {
            Arm.BASELINE: LISTED * (is_trained or arm is not None),
            Arm.CANDIDATE: LISTED * is_trained,
        }
        standstill = replace(standstill, slot=SLOT + run * DAY)
        standstill = _count_changes(standstill, churn, was_firing=bool(is_firing))
        is_breach = standstill.limit is not None and standstill.missed > standstill.limit
        pages += is_breach and not is_firing
        is_firing = is_breach or (is_firing and standstill.missed > 0)
    return pages


TABLES = {
    "calibration": calibrate,
    "frozen": check_frozen,
    "power": measure_power,
    "ends": measure_ends,
    "thresholds": check_suggested,
}


def main(names):
    for name in names or TABLES:
        TABLES[name]()
