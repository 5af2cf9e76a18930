"""Removes effects of the weekday or the hour from a series, and collects evidence of drift."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from monitor.immutable import immutable
from monitor.model.arrays import Flags, Floats, Integers, Rows
from monitor.reference.history import FAR_OUT, find_median, find_scale, pull_in

LEAST_IN_PHASE = 3
"""Recurrences that every phase needs for a season: three weeks of days, or three days of hours."""
RECURRING = 2
"""Recurrences in a row in which a phase in alarm must be far out to be a season and no fault."""
LEAST_GAIN = 0.15
"""Least part of the squared leave-one-out error that a season must remove. Chance rarely does."""
DOUBTED = 8
"""Weight, in runs, of the assumption that a phase varies like the other phases."""

PRIOR_RUNS = 10.0
PRIOR_CORRELATION = 0.2
"""Correlation of neighbouring runs that is assumed with the weight of `PRIOR_RUNS` runs."""
CORRELATION_CAUTION = 1 / 3
"""Standard errors added to a correlation per power of ten of the chance of a false alarm.

This adds one standard error for a chance of 1 in 1,000. Without it, runs that correlate by 0.6
raise six times as many false trends. With many series the worst estimate counts.
"""
MOST_CORRELATION = 0.95
"""Largest correlation used. With more, a trend could hardly be detected."""
DRIFTS = (0.5, 1.0, 1.5, 2.5)
"""Sizes of a lasting shift to detect, in standard deviations of a healthy run."""
MOST_Z = 3.5
"""Largest z that counts for a trend, because a single bad run is a drop.

A cap on z only lowers the evidence.
"""
MOST_EVIDENCE = 1e300


@immutable
class Phases:
    """Phases in a cycle, such as the weekday 0 to 6, of past runs, (runs,), and the next run."""

    past: Rows
    now: int
    under_way: int = 0
    """Newest runs in the same recurrence as the next run, such as today. They teach no season."""
    is_known_at_once: bool = False
    """Whether one recurrence that is in alarm in all its runs is a season, as for weekdays."""


@immutable
class Seasonal:
    """Values moved to the phase of the next run, and the cost of that, (m,) each."""

    values: Floats  # (runs, m)
    paid: Floats  # share of the degrees of freedom that the effects cost, under a third per cycle
    # Variances as multiples of the variance between runs: of the effect of the next run's phase,
    doubt: Floats
    unrest: Floats  # and of runs in this phase


def remove_seasons(
    values: Floats,
    phases: Sequence[Phases],
    alarms: Flags | None = None,
) -> Seasonal:
    """Remove the cycles, in order, from the (runs, m) values, also of runs in ``alarms``.

    A season is learned from finished recurrences only. Runs in alarm count once their phase was in
    alarm, or as far out, in RECURRING recurrences in a row, or in one complete recurrence that
    `is_known_at_once`. A fault that heals is no season.
    """
    if alarms is None:
        alarms = np.zeros(values.shape, dtype=np.bool_)
    total = _without_season(values)
    if not len(values):
        return total
    for cycle in phases:
        seasonal = _remove(total.values, cycle, alarms)
        total = Seasonal(
            values=seasonal.values,
            paid=total.paid + seasonal.paid,
            doubt=total.doubt + seasonal.doubt,
            unrest=np.maximum(total.unrest, seasonal.unrest),
        )
    return total


def _remove(values: Floats, phases: Phases, alarms: Flags) -> Seasonal:
    """Remove shrunk means of the phases (James and Stein 1961) from series that have a season.

    Far-out values are limited first. A mean of n runs is reduced to B = T / (T + W / n) of its
    distance from the overall mean, with the variances T between and W within phases. This costs
    about the sum of the B degrees of freedom.
    """
    runs = len(values) - phases.under_way
    if runs == 0:
        return _without_season(values)
    past = phases.past[:runs]
    names, rows = np.unique(past, return_inverse=True)
    member = (rows[:, np.newaxis] == np.arange(len(names))).astype(np.float64)
    # The runs of one day are one recurrence of its weekday.
    blocks = np.flatnonzero(np.diff(past, prepend=-1))
    patterns = _find_patterns(values, phases, rows, blocks, alarms)
    finished = np.where(patterns.outdated, np.nan, values[:runs])
    learned = np.where(patterns.faults, np.nan, finished)
    # By phase, because a weekend is no outlier of a week.
    middle = np.array([find_median(learned[rows == phase]) for phase in range(len(names))])[rows]
    deviations = pull_in(learned, middle)
    counts, means = _average(member, deviations)
    shrinkage = _shrink(deviations, counts, means)
    has_block = np.where(_any_of(~np.isnan(deviations), blocks), 0.0, np.nan)
    recurrences, _ = _average(member[blocks], has_block)
    has_season = _is_enough(recurrences, patterns.least, names == phases.now)
    has_season = has_season & _falls(member, deviations, (counts, means, shrinkage))
    effects = np.where(has_season, shrinkage * means, 0.0)
    here = int(np.argmax(names == phases.now))  # a new phase has no season
    echo = np.where(has_season & ~patterns.is_new, np.nan, patterns.echo)
    moved = values.copy()  # runs under way are in the phase of the next run
    moved[:runs] = finished - member @ effects + effects[here]
    moved[:runs] += np.nan_to_num(echo - effects[here]) * ~patterns.stays
    paid = shrinkage.sum(axis=0) * (1.0 - 1.0 / len(names)) / np.maximum(counts.sum(axis=0), 1)
    doubt = np.where(has_season, shrinkage[here] / np.maximum(counts[here], 1), 0.0)
    unrest = _measure_unrest(member, learned - middle, here)
    return Seasonal(
        values=moved,
        paid=np.where(has_season, paid, 0.0),
        doubt=np.where(np.isnan(echo), doubt, 1.0),
        unrest=np.where(has_season, unrest, 1.0),
    )


def _without_season(values: Floats) -> Seasonal:
    none = np.zeros(values.shape[1])
    return Seasonal(values=values, paid=none, doubt=none, unrest=none + 1.0)


def _measure_unrest(member: Floats, residuals: Floats, here: int) -> Floats:
    """Variance of the phase's runs as a multiple of that of most phases, at least 1.

    It is shrunk towards 1 for few runs.
    """
    counts, sizes = _average(member, np.abs(residuals))
    usual = find_median(np.where(counts > 0, sizes, np.nan))
    ratio = (sizes[here] / np.where(usual > 0, usual, np.inf)) ** 2
    unrest: Floats = np.fmax((counts[here] * ratio + DOUBTED) / (counts[here] + DOUBTED), 1.0)
    return unrest


def _any_of(flags: Flags, blocks: Integers) -> Flags:
    """Whether any run of each block has the flag, (blocks, m). ``blocks``: their first rows."""
    by_block: Flags = np.logical_or.reduceat(flags, blocks, axis=0)
    return by_block


def _find_lasting(alarms: Flags, cycle: float) -> Flags:
    """Runs of alarms, (runs, m), that still last or have lasted for a complete cycle of runs."""
    length = alarms.astype(np.intp)
    lasting = alarms.copy()
    for row in range(1, len(alarms)):
        length[row] += length[row - 1] * alarms[row]
    for row in range(len(alarms) - 2, -1, -1):
        lasting[row] &= (length[row] >= cycle) | (lasting[row + 1] & alarms[row + 1])
    return lasting


@immutable
class _Patterns:
    """Seasons of m series that alarms show, by finished runs."""

    faults: Flags  # (runs, m), runs in alarm that belong to no pattern
    outdated: Flags  # (runs, m), runs of a phase from before its pattern
    least: Integers  # (m,), recurrences that each phase needs
    # (m,), how far out the pattern alone expects the next run's phase, NaN without a pattern
    echo: Floats
    # (m,), only the last recurrence of the phase was ill, so the pattern replaces the season
    is_new: Flags
    stays: Flags  # (runs, m), runs of that pattern, which need not be moved


def _find_patterns(
    values: Floats,
    phases: Phases,
    rows: Integers,
    blocks: Integers,
    alarms: Flags,
) -> _Patterns:
    """Find phases that were repeatedly far out.

    ``rows``: the phase of each run by number. ``blocks``: first rows of recurrences.
    """
    runs = len(rows)
    series = values.shape[1]
    faults, outdated, stays = (np.zeros((runs, series), dtype=np.bool_) for _ in range(3))
    least = np.full(series, LEAST_IN_PHASE)
    echo = np.full(series, np.nan)
    is_new = np.zeros(series, dtype=np.bool_)
    alarmed = np.flatnonzero(alarms.any(axis=0))
    if alarmed.size:
        cycle = runs * (rows.max() + 1) / len(blocks)
        lasting = _find_lasting(alarms[:, alarmed], cycle)[:runs]
        in_alarm = alarms[:runs, alarmed]
        ill, distances = _find_ill(values[:runs, alarmed], rows, blocks, in_alarm, lasting)
        outdated[:, alarmed], recurs = _find_recurring(rows, blocks, ill)
        least[alarmed[recurs.any(axis=0)]] = RECURRING
        if phases.is_known_at_once:
            recurs |= ill & np.logical_and.reduceat(in_alarm, blocks, axis=0)
        in_pattern = np.repeat(recurs, np.diff(blocks, append=runs), axis=0)
        faults[:, alarmed] = lasting | (in_alarm & ~in_pattern)
        of_phase = np.flatnonzero(phases.past[blocks] == phases.now)
        if of_phase.size:
            echo[alarmed] = np.where(recurs[of_phase[-1]], distances[of_phase[-1]], np.nan)
            is_new[alarmed] = ~ill[of_phase[-2:][0]]
            stays[:, alarmed] = in_pattern & (phases.past[:runs] == phases.now)[:, np.newaxis]
    return _Patterns(
        faults=faults,
        outdated=outdated,
        least=least,
        echo=echo,
        is_new=is_new,
        stays=stays,
    )


def _find_ill(
    values: Floats,
    rows: Integers,
    blocks: Integers,
    alarms: Flags,
    lasting: Flags,
) -> tuple[Flags, Floats]:
    """Ill blocks, and how far out blocks are, (blocks, m) each, NaN if not far.

    A block is ill if it is in alarm, or about as far out as the ill block of its phase before.
    The distance is that of the block's mean from the median of runs without alarm.
    """
    calm = np.where(alarms, np.nan, values)
    counts = np.add.reduceat(~np.isnan(values), blocks, dtype=np.intp)
    means = np.add.reduceat(np.nan_to_num(values), blocks) / np.where(counts > 0, counts, np.nan)
    distances = means - find_median(calm)
    far = np.where(np.abs(distances) > FAR_OUT * find_scale(calm), distances, np.nan)
    ill = _any_of(alarms & ~lasting, blocks)
    newest: dict[int, int] = {}
    for block, phase in enumerate(rows[blocks].tolist()):
        before = newest.get(phase, block)
        is_alike = np.abs(distances[block] - far[before]) < np.abs(distances[block])
        ill[block] |= ill[before] & is_alike
        newest[phase] = block
    return ill, far


def _find_recurring(rows: Integers, blocks: Integers, ill: Flags) -> tuple[Flags, Flags]:
    """Find RECURRING ill blocks of a phase in a row.

    Returns the earlier runs of the phase, (runs, m), and these blocks, (blocks, m).
    """
    outdated = np.zeros((len(rows), ill.shape[1]), dtype=np.bool_)
    recurring = np.zeros(ill.shape, dtype=np.bool_)
    for phase in np.unique(rows[blocks[ill.any(axis=1)]]):
        of_phase = np.flatnonzero(rows[blocks] == phase)
        for first in range(len(of_phase) + 1 - RECURRING):
            in_a_row = of_phase[first : first + RECURRING]
            recurs = ill[in_a_row].all(axis=0)
            start = blocks[of_phase[first]]
            outdated[:start] |= recurs & (rows[:start, np.newaxis] == phase)
            recurring[in_a_row] |= recurs
    return outdated, recurring


def _average(member: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """Counts and means by phase, (phases, m)."""
    counts = member.T @ ~np.isnan(deviations)
    return counts, (member.T @ np.nan_to_num(deviations)) / np.maximum(counts, 1)


def _shrink(deviations: Floats, counts: Floats, means: Floats) -> Floats:
    """The factor B of each phase's effect, (phases, m), from a one-way analysis of variance."""
    total = counts.sum(axis=0)
    phases = np.sum(counts > 0, axis=0)
    squares = (counts * means**2).sum(axis=0)
    within = (np.nansum(deviations**2, axis=0) - squares) / np.maximum(total - phases, 1)
    typical = (total - (counts**2).sum(axis=0) / np.maximum(total, 1)) / np.maximum(phases - 1, 1)
    between = np.maximum(squares / np.maximum(phases - 1, 1) - within, 0.0) / np.maximum(typical, 1)
    # Rounding may make it negative if all runs of a phase are alike.
    noise = np.maximum(within, 0.0) / np.maximum(counts, 1)
    shrinkage: Floats = between / np.where(between + noise > 0, between + noise, 1.0)
    return shrinkage


def _is_enough(counts: Floats, least: Integers, now: Flags) -> Flags:
    """Whether a series has ``least`` recurrences of each of its phases, with the phase of now.

    It needs two phases at least.
    """
    seen = counts > 0
    enough: Flags = np.all(~seen | (counts >= least), axis=0) & (seen.sum(axis=0) > 1)
    enough &= np.any(seen[now], axis=0)
    return enough


def _falls(member: Floats, deviations: Floats, effects: tuple[Floats, Floats, Floats]) -> Flags:
    """Whether the season reduces the error of predicting each run from the others by LEAST_GAIN."""
    counts, means, shrinkage = (member @ of_phases for of_phases in effects)
    total = np.sum(~np.isnan(deviations), axis=0)
    plain = deviations * total / np.maximum(total - 1, 1)
    # Each run is left out of the mean that predicts it.
    others = (counts * means - deviations) / np.maximum(counts - 1, 1)
    seasonal = deviations - shrinkage * others
    falls: Flags = np.nansum(seasonal**2, axis=0) < (1.0 - LEAST_GAIN) * np.nansum(plain**2, axis=0)
    return falls


def correlate(values: ArrayLike, chance: ArrayLike = 1e-3) -> Floats:
    """Cautious lag-1 correlation of past runs, (m,), in [0, MOST_CORRELATION].

    ``values``: (runs, m) oldest first, NaN where a run does not count.

    The small-sample bias -(1 + 3 r) / n (Kendall 1954) is corrected. Short histories are shrunk
    towards PRIOR_CORRELATION. Standard errors are added, more for a smaller ``chance`` of a false
    alarm. A negative correlation counts as 0.
    """
    past = np.asarray(values, dtype=np.float64)
    near = pull_in(past, find_median(past))
    products = near[1:] * near[:-1]
    pairs = np.sum(~np.isnan(products), axis=0)
    power = np.nansum(near**2, axis=0) / np.maximum(np.sum(~np.isnan(near), axis=0), 1)
    seen = np.nansum(products, axis=0) / np.maximum(pairs, 1) / np.where(power > 0, power, 1.0)
    unbiased = seen + (1.0 + 3.0 * seen) / np.maximum(pairs, 1)
    leaning = (pairs * unbiased + PRIOR_RUNS * PRIOR_CORRELATION) / (pairs + PRIOR_RUNS)
    doubt = np.sqrt(np.maximum(1.0 - leaning**2, 0.0) / (pairs + PRIOR_RUNS))
    # A correlation that is too low costs false pages. One that is too high only costs time.
    cautious = leaning - CORRELATION_CAUTION * np.log10(chance) * doubt
    correlation: Floats = np.clip(cautious, 0.0, MOST_CORRELATION)
    return correlation


def discount(z: ArrayLike, correlation: ArrayLike) -> Floats:
    """Discounted z for sums over runs: z sqrt((1 - r) / (1 + r)) for lag-1 correlation r >= 0.

    The variance of a sum is (1 + r) / (1 - r) times as large for an autoregressive series as for
    independent runs. This is an approximation, checked by simulation.
    """
    r = np.asarray(correlation, dtype=np.float64)
    discounted: Floats = np.asarray(z, dtype=np.float64) * np.sqrt((1.0 - r) / (1.0 + r))
    return discounted


@immutable
class TrendEvidence:
    """Evidence of drift that m series carry from run to run, each (len(DRIFTS), m)."""

    mass: Floats  # Shiryaev-Roberts evidence for each size of drift
    # Log-likelihood ratio since the likeliest start of a drift (Page 1954), 0 without a drift
    rise: Floats
    since: Integers  # runs since that start

    @property
    def total(self) -> Floats:
        """Evidence of the mixture over the sizes, (m,). A trend fires at 1 / alpha."""
        mixture: Floats = self.mass.mean(axis=0)
        return mixture


def no_evidence(series: int) -> TrendEvidence:
    """The evidence of m series before the first run."""
    empty = np.zeros((len(DRIFTS), series))
    return TrendEvidence(mass=empty, rise=empty, since=np.zeros(empty.shape, dtype=np.intp))


def update_evidence(evidence: TrendEvidence, z: ArrayLike) -> TrendEvidence:
    """Evidence after one more run with ``z`` (m,), large on the watched side. NaN changes nothing.

    For a drift d: M_t = (1 + M_{t-1}) exp(d z_t - d^2 / 2), with z at most MOST_Z. The evidence is
    the average over the sizes d.

    Promise: if healthy z are independent N(0, 1), or E[exp(d z_t) | past] <= exp(d^2 / 2), firing
    when the evidence reaches 1 / alpha has an average run length of at least 1 / alpha. M_t - t is
    a supermartingale from 0, so 1 / alpha <= E[M_T] <= E[T] (Pollak 1985; Shin, Ramdas and Rinaldo
    2023, e-detectors). This is no error rate over a lifetime.
    """
    now = np.minimum(np.asarray(z, dtype=np.float64), MOST_Z)
    drifts = np.array(DRIFTS)[:, np.newaxis]
    step = np.nan_to_num(drifts * now - drifts**2 / 2)
    has_value = ~np.isnan(now)
    new_mass = np.minimum((1.0 + evidence.mass) * np.exp(step), MOST_EVIDENCE)
    mass = np.where(has_value, new_mass, evidence.mass)
    rise = np.where(has_value, np.maximum(evidence.rise + step, 0.0), evidence.rise)
    # A run without a value belongs to the rise around it.
    since = np.where(rise > 0, evidence.since + 1, 0)
    return TrendEvidence(mass=mass, rise=rise, since=since)


def count_suspects(evidence: TrendEvidence, alpha: ArrayLike) -> Integers:
    """Newest runs to leave out of the reference, (m,), because they may be part of a drift.

    These are all runs since the likeliest start of a drift whose log-likelihood ratio has reached
    half of log(1 / alpha).
    """
    best = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, best, axis=0)[0]
    since = np.take_along_axis(evidence.since, best, axis=0)[0]
    return np.where(rise >= -np.log(np.asarray(alpha, dtype=np.float64)) / 2, since, 0)
