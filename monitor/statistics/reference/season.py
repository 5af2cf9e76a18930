"""Removes the effects of weekday and hour from a series, and collects evidence of drift."""

from collections.abc import Sequence

import numpy as np

from monitor.model.arrays import Flags, Floats, Integers, Rows
from monitor.model.immutable import immutable
from monitor.statistics.reference.history import FAR_OUT, find_median, find_scale, pull_in

LEAST_IN_PHASE = 3
"""A season needs this many recurrences of every phase, such as three weeks or three days."""
RECURRING = 2
"""If a phase had an alert in this many recurrences in a row, this is a season and not a fault."""
LEAST_GAIN = 0.15
"""A season must reduce the squared leave-one-out error by this share. Chance rarely does so."""
DOUBTED = 8
"""The assumption that all phases vary alike has the weight of this many runs."""

PRIOR_RUNS = 10.0
PRIOR_CORRELATION = 0.2
"""The correlation of two successive runs that is assumed before any run is seen.

The estimate is a weighted mean of this value and of the measured correlation. This value has the
weight of `PRIOR_RUNS` pairs of runs.
"""
CORRELATION_CAUTION = 1 / 3
"""How many standard errors are added to a correlation, for each power of ten of the chance.

The chance is the allowed chance of a false alert. For a chance of 1 in 1,000, one standard error is
added. If nothing were added, runs that correlate by 0.6 would cause six times as many false trends,
because the worst estimate of many series decides.
"""
MOST_CORRELATION = 0.95
"""The largest correlation that is used. With a larger one, a trend could hardly be detected."""
DRIFTS = (0.5, 1.0, 1.5, 2.5)
"""The sizes of lasting shifts that are searched for, in standard deviations of healthy runs."""
MOST_Z = 3.5
"""A larger z is cut to this value, because a single bad run is a drop and not a trend.

This can only lower the evidence.
"""
MAX_EVIDENCE = 1e300


@immutable
class Phases:
    """The phases of past runs, (runs,), and of the next run.

    A phase is a weekday, 0 to 6, or an hour.
    """

    past: Rows
    now: int
    under_way: int = 0
    """How many of the newest runs are in the same recurrence as the next run, for example today.

    No season is learned from them.
    """
    is_known_at_once: bool = False
    """Whether a single recurrence can be a season, if all of its runs have an alert."""


@immutable
class Seasonal:
    """Values that were moved to the phase of the next run, and how uncertain this makes them.

    Both variances are multiples of the variance between runs of one phase.
    """

    values: Floats  # (runs, m)
    # (m,), the share of the degrees of freedom that was used to estimate the effects of the phases.
    # It is less than a third for each cycle.
    used_freedom: Floats
    effect_variance: Floats  # (m,), variance of the estimated effect of the next run's phase
    phase_variance: Floats  # (m,), variance of the runs in the next run's phase


def remove_seasons(
    values: Floats,
    phases: Sequence[Phases],
    alerting: Flags | None = None,
    side: Floats | None = None,
) -> Seasonal:
    """Remove the effects of the cycles from the (runs, m) values, one cycle after the other.

    The effects are also removed from ``alerting`` runs. A season is learned only from recurrences
    that are finished. It is learned from runs with an alert in two cases:

    - The phase had an alert, or was equally far from normal, in RECURRING recurrences in a row.
    - The phase had an alert in one complete recurrence, and the cycle `is_known_at_once`.

    So a fault that heals is not learned as a season.

    ``side`` (m,) is 1 for a series whose high values alert, -1 if its low values do, and 0 if both
    do. One recurrence with an alert moves a series only to this side. Otherwise a rule on drops
    would alert a week after sudden similarity, because then normal lists are less similar.
    """
    if alerting is None:
        alerting = np.zeros(values.shape, dtype=bool)
    if side is None:
        side = np.zeros(values.shape[1])
    total = _without_season(values)
    if not len(values):
        return total
    for cycle in phases:
        seasonal = _remove_cycle(total.values, cycle, alerting, side)
        total = Seasonal(
            values=seasonal.values,
            used_freedom=total.used_freedom + seasonal.used_freedom,
            effect_variance=total.effect_variance + seasonal.effect_variance,
            phase_variance=np.maximum(total.phase_variance, seasonal.phase_variance),
        )
    return total


def _remove_cycle(values: Floats, phases: Phases, alerting: Flags, side: Floats) -> Seasonal:
    """Remove shrunk means of the phases (James and Stein 1961) from series that have a season.

    Far-out values are limited first. To shrink the mean of a phase, its distance from the overall
    mean is multiplied by B = T / (T + W / n). T is the variance between phases, W is the variance
    within phases, and n is the number of runs in the phase. The cost in degrees of freedom is about
    the sum of all B.
    """
    runs = len(values) - phases.under_way
    if runs == 0:
        return _without_season(values)
    past = phases.past[:runs]
    phase_names, phase_of_run = np.unique(past, return_inverse=True)
    # (runs, phases), 1 if the run is in the phase, and otherwise 0.
    member = (phase_of_run[:, np.newaxis] == np.arange(len(phase_names))).astype(float)
    # The first run of each recurrence. All runs of one day are one recurrence of the weekday.
    blocks = np.flatnonzero(np.diff(past, prepend=-1))
    patterns = _find_patterns(values, phases, phase_of_run, blocks, alerting)
    not_outdated = np.where(patterns.outdated, np.nan, values[:runs])
    # The values from which the season is learned, NaN for all other runs.
    learned = np.where(patterns.faults, np.nan, not_outdated)
    # Medians are computed by phase, because weekends are not outliers of a week.
    median_of_phase = []
    for phase in range(len(phase_names)):
        median_of_phase.append(find_median(learned[phase_of_run == phase]))
    medians = np.array(median_of_phase)[phase_of_run]
    deviations = pull_in(learned, medians)
    counts, means = _average_by_phase(member, deviations)
    shrinkage = _shrink(deviations, counts, means)
    has_block = np.where(_any_of(~np.isnan(deviations), blocks), 0.0, np.nan)
    recurrences, _ = _average_by_phase(member[blocks], has_block)
    is_enough = _is_enough(recurrences, patterns.least, phase_names == phases.now)
    has_season = is_enough & _improves_prediction(member, deviations, (counts, means, shrinkage))
    effects = np.where(has_season, shrinkage * means, 0.0)
    next_phase = int(
        np.argmax(phase_names == phases.now)
    )  # if the phase is new, there is no season
    # An echo is used if there is no season, or if it replaces the season.
    has_only_season = has_season & ~patterns.is_new
    is_on_other_side = patterns.echo * side < 0
    echo = np.where(has_only_season | is_on_other_side, np.nan, patterns.echo)
    # Runs are moved from the effect of their phase to that of the next phase, or else to the echo.
    # Runs of an unfinished recurrence are in the next phase already.
    moved = values.copy()
    moved[:runs] = not_outdated - member @ effects + effects[next_phase]
    moved[:runs] += np.nan_to_num(echo - effects[next_phase]) * ~patterns.stays
    used = shrinkage.sum(axis=0) * (1.0 - 1.0 / len(phase_names))
    used_freedom = used / np.maximum(counts.sum(axis=0), 1)
    effect_variance = shrinkage[next_phase] / np.maximum(counts[next_phase], 1)
    effect_variance = np.where(has_season, effect_variance, 0.0)
    phase_variance = _measure_phase_variance(member, learned - medians, next_phase)
    return Seasonal(
        values=moved,
        used_freedom=np.where(has_season, used_freedom, 0.0),
        # An echo is the mean of one recurrence, so it is as uncertain as a single run.
        effect_variance=np.where(np.isnan(echo), effect_variance, 1.0),
        phase_variance=np.where(has_season, phase_variance, 1.0),
    )


def _without_season(values: Floats) -> Seasonal:
    zeros = np.zeros(values.shape[1])
    ones = np.ones(values.shape[1])
    return Seasonal(values=values, used_freedom=zeros, effect_variance=zeros, phase_variance=ones)


def _measure_phase_variance(member: Floats, residuals: Floats, phase: int) -> Floats:
    """Variance of the runs in phase ``phase``, as a multiple of the usual variance in a phase, (m,).

    It is at least 1. With few runs it is shrunk towards 1.
    """
    counts, sizes = _average_by_phase(member, np.abs(residuals))
    usual_size = find_median(np.where(counts > 0, sizes, np.nan))
    ratio = (sizes[phase] / np.where(usual_size > 0, usual_size, np.inf)) ** 2
    shrunk = (counts[phase] * ratio + DOUBTED) / (counts[phase] + DOUBTED)
    phase_variance: Floats = np.fmax(shrunk, 1.0)
    return phase_variance


def _any_of(flags: Flags, blocks: Integers) -> Flags:
    """Whether any run of a block has the flag, (blocks, m).

    ``blocks`` has the first row of each block.
    """
    by_block: Flags = np.logical_or.reduceat(flags, blocks, axis=0)
    return by_block


def _find_lasting(alerting: Flags, runs_of_cycle: float) -> Flags:
    """Which runs belong to a long alert, (runs, m).

    An alert is long if it still lasts, or if it lasted for a complete cycle of runs.
    """
    length = alerting.astype(np.intp)
    lasting = alerting.copy()
    for row in range(1, len(alerting)):
        length[row] += length[row - 1] * alerting[row]
    for row in range(len(alerting) - 2, -1, -1):
        lasting[row] &= (length[row] >= runs_of_cycle) | (lasting[row + 1] & alerting[row + 1])
    return lasting


@immutable
class _Patterns:
    """Patterns of alerts that recur in the same phase, for m series.

    Runs of an unfinished recurrence are left out.
    """

    faults: Flags  # (runs, m), whether the run has an alert but belongs to no pattern
    outdated: Flags  # (runs, m), whether the run is older than the pattern of its phase
    least: Integers  # (m,), how many recurrences of each phase a season needs
    # (m,), how far from normal the next run should be by the pattern of its phase. NaN if there is
    # no pattern
    echo: Floats
    # (m,), whether only the last recurrence of the phase was ill (see `_find_ill`). Then the
    # pattern replaces the season
    is_new: Flags
    stays: Flags  # (runs, m), whether the run belongs to that pattern. Then it is not moved


def _find_patterns(
    values: Floats,
    phases: Phases,
    phase_of_run: Integers,
    blocks: Integers,
    alerting: Flags,
) -> _Patterns:
    """Find phases that were far out repeatedly.

    ``phase_of_run`` has the number of each run's phase, (runs,). ``blocks`` has the first row of
    each recurrence, which is called a block here.
    """
    runs = len(phase_of_run)
    series = values.shape[1]
    faults, outdated, stays = (np.zeros((runs, series), dtype=bool) for _ in range(3))
    least = np.full(series, LEAST_IN_PHASE)
    echo = np.full(series, np.nan)
    is_new = np.zeros(series, dtype=bool)
    with_alerts = np.flatnonzero(alerting.any(axis=0))
    if with_alerts.size:
        has_alert = alerting[:runs, with_alerts]
        # Each cycle has one block of each phase.
        runs_of_cycle = runs * (phase_of_run.max() + 1) / len(blocks)
        lasting = _find_lasting(alerting[:, with_alerts], runs_of_cycle)[:runs]
        ill, distances = _find_ill(
            values[:runs, with_alerts], phase_of_run, blocks, has_alert, lasting
        )
        outdated[:, with_alerts], recurs = _find_recurring(phase_of_run, blocks, ill)
        least[with_alerts[recurs.any(axis=0)]] = RECURRING
        if phases.is_known_at_once:
            # A single block is enough if all of its runs have an alert.
            recurs |= ill & np.logical_and.reduceat(has_alert, blocks, axis=0)
        in_pattern = np.repeat(recurs, np.diff(blocks, append=runs), axis=0)
        faults[:, with_alerts] = lasting | (has_alert & ~in_pattern)
        blocks_of_next = np.flatnonzero(phases.past[blocks] == phases.now)
        if blocks_of_next.size:
            last = blocks_of_next[-1]
            echo[with_alerts] = np.where(recurs[last], distances[last], np.nan)
            # This is the last block itself if there is no block before it.
            block_before = blocks_of_next[-2:][0]
            is_new[with_alerts] = ~ill[block_before]
            is_in_next_phase = phases.past[:runs] == phases.now
            stays[:, with_alerts] = in_pattern & is_in_next_phase[:, np.newaxis]
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
    phase_of_run: Integers,
    blocks: Integers,
    alerting: Flags,
    lasting: Flags,
) -> tuple[Flags, Floats]:
    """Find ill blocks, and the distances of far-out blocks: two arrays of shape (blocks, m).

    A block is one recurrence of a phase. Its distance is its mean minus the median of all runs
    without alerts. The returned distance is NaN if the block is not far out. A block is ill in two
    cases:

    - One of its runs has an alert that is not long.
    - The last block of the same phase is ill and far out, and this block's distance is nearer to
      that block's distance than to 0.

    ``phase_of_run`` has the number of each run's phase, (runs,). ``blocks`` has the first run of each
    block. ``lasting`` marks the runs of long alerts (see `_find_lasting`).
    """
    calm = np.where(alerting, np.nan, values)
    counts = np.add.reduceat(~np.isnan(values), blocks, dtype=np.intp)
    means = np.add.reduceat(np.nan_to_num(values), blocks) / np.where(counts > 0, counts, np.nan)
    distances = means - find_median(calm)
    is_far_out = np.abs(distances) > FAR_OUT * find_scale(calm)
    far_distances = np.where(is_far_out, distances, np.nan)
    ill = _any_of(alerting & ~lasting, blocks)
    last_block_of_phase: dict[int, int] = {}
    for block, phase in enumerate(phase_of_run[blocks].tolist()):
        last = last_block_of_phase.get(phase)
        if last is not None:
            is_alike = np.abs(distances[block] - far_distances[last]) < np.abs(distances[block])
            ill[block] |= ill[last] & is_alike
        last_block_of_phase[phase] = block
    return ill, far_distances


def _find_recurring(phase_of_run: Integers, blocks: Integers, ill: Flags) -> tuple[Flags, Flags]:
    """Find phases with RECURRING ill blocks in a row.

    Returns which runs of such a phase are older than these blocks, (runs, m), and which blocks
    these are, (blocks, m).
    """
    outdated = np.zeros((len(phase_of_run), ill.shape[1]), dtype=bool)
    recurring = np.zeros(ill.shape, dtype=bool)
    for phase in np.unique(phase_of_run[blocks[ill.any(axis=1)]]):
        blocks_of_phase = np.flatnonzero(phase_of_run[blocks] == phase)
        for first in range(len(blocks_of_phase) + 1 - RECURRING):
            in_a_row = blocks_of_phase[first : first + RECURRING]
            recurs = ill[in_a_row].all(axis=0)
            start = blocks[blocks_of_phase[first]]
            outdated[:start] |= recurs & (phase_of_run[:start, np.newaxis] == phase)
            recurring[in_a_row] |= recurs
    return outdated, recurring


def _average_by_phase(member: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """The number of runs and the mean of each phase: two arrays of shape (phases, m)."""
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
    # Rounding may make the variance negative if all runs of a phase are equal.
    noise = np.maximum(within, 0.0) / np.maximum(counts, 1)
    shrinkage: Floats = between / np.where(between + noise > 0, between + noise, 1.0)
    return shrinkage


def _is_enough(counts: Floats, least: Integers, now: Flags) -> Flags:
    """Whether a series has at least ``least`` recurrences of each of its phases.

    The series must have at least two phases, and one of them must be the phase ``now``.
    """
    seen = counts > 0
    enough: Flags = np.all(~seen | (counts >= least), axis=0) & (seen.sum(axis=0) > 1)
    enough &= np.any(seen[now], axis=0)
    return enough


def _improves_prediction(
    member: Floats, deviations: Floats, effects: tuple[Floats, Floats, Floats]
) -> Flags:
    """Whether the season reduces the prediction error by LEAST_GAIN.

    Each run is predicted from all other runs.
    """
    counts, means, shrinkage = (member @ of_phases for of_phases in effects)
    total = np.sum(~np.isnan(deviations), axis=0)
    plain = deviations * total / np.maximum(total - 1, 1)
    # A run is left out of the mean that predicts this run.
    others = (counts * means - deviations) / np.maximum(counts - 1, 1)
    seasonal = deviations - shrinkage * others
    falls: Flags = np.nansum(seasonal**2, axis=0) < (1.0 - LEAST_GAIN) * np.nansum(plain**2, axis=0)
    return falls


def correlate(values: Floats, chance: Floats | float = 1e-3) -> Floats:
    """Cautious estimate of the lag-1 correlation of past runs, (m,), in [0, MOST_CORRELATION].

    ``values`` have the shape (runs, m), oldest first. Runs with NaN are ignored.

    The small-sample bias -(1 + 3 r) / n (Kendall 1954) is corrected. The estimates for short
    histories are shrunk towards PRIOR_CORRELATION. Then standard errors are added. Their number
    grows as the ``chance`` of a false alert becomes smaller. A negative correlation becomes 0.
    """
    near = pull_in(values, find_median(values))
    products = near[1:] * near[:-1]
    pairs = np.sum(~np.isnan(products), axis=0)
    power = np.nansum(near**2, axis=0) / np.maximum(np.sum(~np.isnan(near), axis=0), 1)
    seen = np.nansum(products, axis=0) / np.maximum(pairs, 1) / np.where(power > 0, power, 1.0)
    unbiased = seen + (1.0 + 3.0 * seen) / np.maximum(pairs, 1)
    leaning = (pairs * unbiased + PRIOR_RUNS * PRIOR_CORRELATION) / (pairs + PRIOR_RUNS)
    doubt = np.sqrt(np.maximum(1.0 - leaning**2, 0.0) / (pairs + PRIOR_RUNS))
    # An estimate that is too low causes false alerts. An estimate that is too high only delays
    # alerts.
    cautious = leaning - CORRELATION_CAUTION * np.log10(chance) * doubt
    correlation: Floats = np.clip(cautious, 0.0, MOST_CORRELATION)
    return correlation


def raise_to_median(correlation: Floats, groups: Integers) -> Floats:
    """Raise each correlation, (m,), to the median of its group at least.

    ``groups`` (m,) has the number of each series' group. A group has one series for each segment.
    Segments follow the same trainings, so they correlate about equally. Without this, the segment
    whose estimate is too low by chance decides how often a trend alerts.
    """
    raised = correlation.copy()
    for group in np.unique(groups):
        of_group = groups == group
        raised[of_group] = np.maximum(raised[of_group], np.median(correlation[of_group]))
    return raised


def discount(z: Floats, r: Floats) -> Floats:
    """Multiply z by sqrt((1 - r) / (1 + r)), so that it can be summed over correlated runs.

    r >= 0 is the lag-1 correlation. A sum over an autoregressive series has (1 + r) / (1 - r)
    times the variance of a sum over independent runs. This is an approximation that simulations
    confirm.
    """
    discounted: Floats = z * np.sqrt((1.0 - r) / (1.0 + r))
    return discounted


@immutable
class TrendEvidence:
    """Evidence of drift in m series, collected from run to run.

    Each field is an array of shape (len(DRIFTS), m).
    """

    mass: Floats  # Shiryaev-Roberts evidence for each size of drift
    # Log-likelihood ratio since the likeliest start of a drift (Page 1954). 0 without a drift
    rise: Floats
    since: Integers  # number of runs since that start

    @property
    def total(self) -> Floats:
        """The evidence averaged over the sizes of drift, (m,).

        A trend fires if it reaches 1 / alpha.
        """
        mixture: Floats = self.mass.mean(axis=0)
        return mixture


def no_evidence(series: int) -> TrendEvidence:
    """The evidence of m series before the first run."""
    empty = np.zeros((len(DRIFTS), series))
    return TrendEvidence(mass=empty, rise=empty, since=np.zeros(empty.shape, dtype=np.intp))


def update_evidence(evidence: TrendEvidence, z: Floats) -> TrendEvidence:
    """Update the evidence by one more run with ``z`` (m,). A NaN changes nothing.

    z is positive on the side that alerts. It is cut to MOST_Z. For a drift of size d, the evidence
    is M_t = (1 + M_{t-1}) exp(d z_t - d^2 / 2). The total evidence is the average over the sizes d.

    A rule fires if the evidence reaches 1 / alpha. If the z of healthy runs are independent
    N(0, 1), the mean time until this happens is at least 1 / alpha runs. The weaker condition
    E[exp(d z_t) | past] <= exp(d^2 / 2) is enough. Then M_t - t is a supermartingale that starts
    at 0. Let T be the run in which the rule fires. It follows that 1 / alpha <= E[M_T] <= E[T]
    (Pollak 1985; Shin, Ramdas and Rinaldo 2023, e-detectors). The promise is about the mean time.
    It does not limit the number of false alerts in a lifetime.
    """
    now = np.minimum(z, MOST_Z)
    drifts = np.array(DRIFTS)[:, np.newaxis]
    step = np.nan_to_num(drifts * now - drifts**2 / 2)
    has_value = ~np.isnan(now)
    new_mass = np.minimum((1.0 + evidence.mass) * np.exp(step), MAX_EVIDENCE)
    mass = np.where(has_value, new_mass, evidence.mass)
    rise = np.where(has_value, np.maximum(evidence.rise + step, 0.0), evidence.rise)
    # A run without a value belongs to the same rise as its neighbours.
    since = np.where(rise > 0, evidence.since + 1, 0)
    return TrendEvidence(mass=mass, rise=rise, since=since)


def count_suspects(evidence: TrendEvidence, alpha: Floats) -> Integers:
    """How many of the newest runs may be part of a drift, (m,). The reference leaves them out.

    These are all runs since the likeliest start of a drift. The number is 0 if the drift's
    log-likelihood ratio has not reached half of log(1 / alpha).
    """
    best = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, best, axis=0)[0]
    since = np.take_along_axis(evidence.since, best, axis=0)[0]
    return np.where(rise >= -np.log(alpha) / 2, since, 0)
