"""Removes the effects of weekday and hour from a series, and collects evidence of drift."""

from collections.abc import Sequence

import numpy as np

from monitor.model.arrays import Flags, Floats, Integers, Rows
from monitor.model.immutable import immutable
from monitor.statistics.reference.history import FAR_OUT, find_median, find_scale, limit_far_out

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

    A phase is a weekday, 0 to 6, or an hour. Successive runs of one phase are one recurrence, such
    as the runs of one Monday.
    """

    past: Rows
    now: int
    runs_under_way: int = 0
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
    """Remove the effects of cycles, such as the week, from (runs, m) values.

    The phases of the week are Monday to Sunday. One Monday is a recurrence of the phase Monday. The
    cycles are removed one after the other, also from ``alerting`` runs. A season is learned only
    from recurrences that are finished. It is learned from runs with an alert in two cases:

    - The phase had an alert, or was equally far from normal, in RECURRING recurrences in a row.
    - The phase had an alert in one complete recurrence, and the cycle `is_known_at_once`.

    For example, two Mondays in a row with an alert are a season, but one Monday with an alert is
    not. So a fault that heals is not learned as a season.

    ``side`` (m,) is 1 if high values of a series alert, -1 if low values alert, and 0 if both
    alert. Recurring alerts move the expected value only to this side. Otherwise, a rule on drops
    would expect the unusually high values of a day again a week later. It would then take normal
    values for a drop.
    """
    if alerting is None:
        alerting = np.zeros(values.shape, dtype=bool)
    if side is None:
        side = np.zeros(values.shape[1])
    combined = _without_season(values)
    if not len(values):
        return combined
    for cycle in phases:
        seasonal = _remove_cycle(combined.values, cycle, alerting, side)
        combined = Seasonal(
            values=seasonal.values,
            used_freedom=combined.used_freedom + seasonal.used_freedom,
            effect_variance=combined.effect_variance + seasonal.effect_variance,
            phase_variance=np.maximum(combined.phase_variance, seasonal.phase_variance),
        )
    return combined


def _remove_cycle(values: Floats, phases: Phases, alerting: Flags, side: Floats) -> Seasonal:
    """Remove shrunk means of the phases (James and Stein 1961) from series that have a season.

    Far-out values are limited first. To shrink the mean of a phase, the distance of this mean from
    the overall mean is multiplied by B = T / (T + W / n). T is the variance between phases, W is
    the variance within phases, and n is the number of runs in the phase. About as many degrees of
    freedom are used as the sum of all B.
    """
    runs = len(values) - phases.runs_under_way
    if runs == 0:
        return _without_season(values)
    past = phases.past[:runs]
    distinct_phases, phase_of_run = np.unique(past, return_inverse=True)
    # (runs, phases), 1 if the run is in the phase, and otherwise 0.
    is_in_phase = (phase_of_run[:, np.newaxis] == np.arange(len(distinct_phases))).astype(float)
    # The first run of each recurrence.
    recurrence_starts = np.flatnonzero(np.diff(past, prepend=-1))
    patterns = _find_patterns(values, phases, phase_of_run, recurrence_starts, alerting)
    not_outdated = np.where(patterns.is_outdated, np.nan, values[:runs])
    # The values from which the season is learned, NaN for all other runs.
    learned = np.where(patterns.is_fault, np.nan, not_outdated)
    # Medians are computed by phase, because weekends are not outliers of a week.
    median_of_phase = []
    for phase in range(len(distinct_phases)):
        median_of_phase.append(find_median(learned[phase_of_run == phase]))
    medians = np.array(median_of_phase)[phase_of_run]
    deviations = limit_far_out(learned, medians)
    counts, means = _average_by_phase(is_in_phase, deviations)
    shrinkage = _shrink(deviations, counts, means)
    # Recurrences are counted like runs. A recurrence without values has NaN.
    recurrence_values = np.where(
        _any_in_recurrence(~np.isnan(deviations), recurrence_starts), 0.0, np.nan
    )
    recurrences, _ = _average_by_phase(is_in_phase[recurrence_starts], recurrence_values)
    is_next_phase = distinct_phases == phases.now
    has_enough = _has_enough_recurrences(recurrences, patterns.least_recurrences, is_next_phase)
    improves = _improves_prediction(is_in_phase, deviations, (counts, means, shrinkage))
    has_season = has_enough & improves
    effects = np.where(has_season, shrinkage * means, 0.0)
    # If the next phase is new, this index is 0, but there is no season.
    next_phase = int(np.argmax(is_next_phase))
    # A pattern is used if there is no season, or if the pattern replaces the season.
    has_only_season = has_season & ~patterns.replaces_season
    is_on_other_side = patterns.effect * side < 0
    pattern_effect = np.where(has_only_season | is_on_other_side, np.nan, patterns.effect)
    # Runs are moved from the effect of their phase to the effect of the next phase, or of the
    # pattern. Runs of an unfinished recurrence are in the next phase already.
    moved = values.copy()
    moved[:runs] = not_outdated - is_in_phase @ effects + effects[next_phase]
    moved[:runs] += np.nan_to_num(pattern_effect - effects[next_phase]) * ~patterns.is_in_pattern
    used_df = shrinkage.sum(axis=0) * (1.0 - 1.0 / len(distinct_phases))
    used_freedom = used_df / np.maximum(counts.sum(axis=0), 1)
    effect_variance = shrinkage[next_phase] / np.maximum(counts[next_phase], 1)
    effect_variance = np.where(has_season, effect_variance, 0.0)
    phase_variance = _measure_phase_variance(is_in_phase, learned - medians, next_phase)
    return Seasonal(
        values=moved,
        used_freedom=np.where(has_season, used_freedom, 0.0),
        # The effect of a pattern is the mean of one recurrence, so it is as uncertain as one run.
        effect_variance=np.where(np.isnan(pattern_effect), effect_variance, 1.0),
        phase_variance=np.where(has_season, phase_variance, 1.0),
    )


def _without_season(values: Floats) -> Seasonal:
    zeros = np.zeros(values.shape[1])
    ones = np.ones(values.shape[1])
    return Seasonal(values=values, used_freedom=zeros, effect_variance=zeros, phase_variance=ones)


def _measure_phase_variance(is_in_phase: Floats, residuals: Floats, phase: int) -> Floats:
    """Variance of the runs in one phase, as a multiple of the usual variance in a phase, (m,).

    ``phase`` is the index of the phase. The multiple is at least 1. With few runs it is shrunk
    towards 1.
    """
    counts, deviations = _average_by_phase(is_in_phase, np.abs(residuals))
    usual_deviation = find_median(np.where(counts > 0, deviations, np.nan))
    ratio = (deviations[phase] / np.where(usual_deviation > 0, usual_deviation, np.inf)) ** 2
    shrunk = (counts[phase] * ratio + DOUBTED) / (counts[phase] + DOUBTED)
    phase_variance: Floats = np.fmax(shrunk, 1.0)
    return phase_variance


def _any_in_recurrence(flags: Flags, recurrence_starts: Integers) -> Flags:
    """Whether any run of a recurrence has the flag, (recurrences, m).

    ``recurrence_starts`` has the first row of each recurrence.
    """
    by_recurrence: Flags = np.logical_or.reduceat(flags, recurrence_starts, axis=0)
    return by_recurrence


def _find_long_alerts(alerting: Flags, runs_of_cycle: float) -> Flags:
    """Which runs belong to a long alert, (runs, m).

    An alert is long if it still lasts, or if it lasted for a complete cycle of runs.
    """
    # For each run with an alert, the number of runs since the alert began.
    length = alerting.astype(np.intp)
    for row in range(1, len(alerting)):
        length[row] += length[row - 1] * alerting[row]
    # A run belongs to a long alert if its alert is long enough here, or in a later run.
    is_long = alerting.copy()
    for row in range(len(alerting) - 2, -1, -1):
        is_long[row] &= (length[row] >= runs_of_cycle) | (is_long[row + 1] & alerting[row + 1])
    return is_long


@immutable
class _Patterns:
    """Patterns of alerts that recur in the same phase, for m series.

    Runs of an unfinished recurrence are left out.
    """

    is_fault: Flags  # (runs, m), whether the run has an alert but belongs to no pattern
    is_outdated: Flags  # (runs, m), whether the run is older than the pattern of its phase
    least_recurrences: Integers  # (m,), how many recurrences of each phase a season needs
    # (m,), how far from normal the next run should be by the pattern of its phase. NaN if there is
    # no pattern
    effect: Floats
    # (m,), whether only the last recurrence of the phase was ill (see `_find_ill`). Then the
    # pattern is newer than the season
    replaces_season: Flags
    is_in_pattern: Flags  # (runs, m), whether the run belongs to the pattern of the next phase


def _find_patterns(
    values: Floats,
    phases: Phases,
    phase_of_run: Integers,
    recurrence_starts: Integers,
    alerting: Flags,
) -> _Patterns:
    """Find alerts that recur in the same phase.

    ``phase_of_run`` has the number of each run's phase, (runs,). ``recurrence_starts`` has the
    first row of each recurrence.
    """
    runs = len(phase_of_run)
    series = values.shape[1]
    patterns = _Patterns(
        is_fault=np.zeros((runs, series), dtype=bool),
        is_outdated=np.zeros((runs, series), dtype=bool),
        least_recurrences=np.full(series, LEAST_IN_PHASE),
        effect=np.full(series, np.nan),
        replaces_season=np.zeros(series, dtype=bool),
        is_in_pattern=np.zeros((runs, series), dtype=bool),
    )
    columns = np.flatnonzero(alerting.any(axis=0))
    if not columns.size:
        return patterns
    has_alert = alerting[:runs, columns]
    # Each cycle has one recurrence of each phase.
    runs_of_cycle = runs * (phase_of_run.max() + 1) / len(recurrence_starts)
    in_long_alert = _find_long_alerts(alerting[:, columns], runs_of_cycle)[:runs]
    is_ill, distances = _find_ill(
        values[:runs, columns], phase_of_run, recurrence_starts, has_alert, in_long_alert
    )
    is_outdated, recurs = _find_recurring(phase_of_run, recurrence_starts, is_ill)
    patterns.is_outdated[:, columns] = is_outdated
    patterns.least_recurrences[columns[recurs.any(axis=0)]] = RECURRING
    if phases.is_known_at_once:
        # A single recurrence is enough if all of its runs have an alert.
        recurs |= is_ill & np.logical_and.reduceat(has_alert, recurrence_starts, axis=0)
    in_any_pattern = np.repeat(recurs, np.diff(recurrence_starts, append=runs), axis=0)
    patterns.is_fault[:, columns] = in_long_alert | (has_alert & ~in_any_pattern)
    recurrences_of_next_phase = np.flatnonzero(phases.past[recurrence_starts] == phases.now)
    if recurrences_of_next_phase.size:
        last = recurrences_of_next_phase[-1]
        patterns.effect[columns] = np.where(recurs[last], distances[last], np.nan)
        # This is the last recurrence itself if there is no recurrence before it.
        recurrence_before = recurrences_of_next_phase[-2:][0]
        patterns.replaces_season[columns] = ~is_ill[recurrence_before]
        is_in_next_phase = phases.past[:runs] == phases.now
        patterns.is_in_pattern[:, columns] = in_any_pattern & is_in_next_phase[:, np.newaxis]
    return patterns


def _find_ill(
    values: Floats,
    phase_of_run: Integers,
    recurrence_starts: Integers,
    alerting: Flags,
    in_long_alert: Flags,
) -> tuple[Flags, Floats]:
    """Find ill recurrences, and the distances of far-out recurrences: (recurrences, m) each.

    The distance of a recurrence is its mean minus the median of all runs without alerts. The
    returned distance is NaN if the recurrence is not far out. A recurrence is ill in two cases:

    - One of its runs has an alert that is not long.
    - The recurrence before it in the same phase is ill and far out, and the distance of this
      recurrence is nearer to the distance of the recurrence before than to 0.

    ``phase_of_run`` has the number of each run's phase, (runs,). ``recurrence_starts`` has the
    first run of each recurrence. ``in_long_alert`` marks the runs of long alerts (see
    `_find_long_alerts`).
    """
    healthy_values = np.where(alerting, np.nan, values)
    # For each recurrence and series: the number of values, and the mean of the values.
    counts = np.add.reduceat(~np.isnan(values), recurrence_starts, dtype=np.intp)
    sums = np.add.reduceat(np.nan_to_num(values), recurrence_starts)
    means = sums / np.where(counts > 0, counts, np.nan)
    distances = means - find_median(healthy_values)
    is_far_out = np.abs(distances) > FAR_OUT * find_scale(healthy_values)
    far_distances = np.where(is_far_out, distances, np.nan)
    is_ill = _any_in_recurrence(alerting & ~in_long_alert, recurrence_starts)
    last_of_phase: dict[int, int] = {}
    for recurrence, phase in enumerate(phase_of_run[recurrence_starts].tolist()):
        before = last_of_phase.get(phase)
        if before is not None:
            change = np.abs(distances[recurrence] - far_distances[before])
            is_ill[recurrence] |= is_ill[before] & (change < np.abs(distances[recurrence]))
        last_of_phase[phase] = recurrence
    return is_ill, far_distances


def _find_recurring(
    phase_of_run: Integers, recurrence_starts: Integers, is_ill: Flags
) -> tuple[Flags, Flags]:
    """Find phases with RECURRING ill recurrences in a row.

    Returns two arrays: whether a run is of such a phase and older than these recurrences, (runs,
    m), and whether a recurrence is one of these, (recurrences, m).
    """
    is_outdated = np.zeros((len(phase_of_run), is_ill.shape[1]), dtype=bool)
    is_recurring = np.zeros(is_ill.shape, dtype=bool)
    for phase in np.unique(phase_of_run[recurrence_starts[is_ill.any(axis=1)]]):
        recurrences_of_phase = np.flatnonzero(phase_of_run[recurrence_starts] == phase)
        for first in range(len(recurrences_of_phase) + 1 - RECURRING):
            in_a_row = recurrences_of_phase[first : first + RECURRING]
            are_all_ill = is_ill[in_a_row].all(axis=0)
            first_run = recurrence_starts[recurrences_of_phase[first]]
            is_of_phase = phase_of_run[:first_run, np.newaxis] == phase
            is_outdated[:first_run] |= are_all_ill & is_of_phase
            is_recurring[in_a_row] |= are_all_ill
    return is_outdated, is_recurring


def _average_by_phase(is_in_phase: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """The number of runs and the mean of each phase: two arrays of shape (phases, m)."""
    counts = is_in_phase.T @ ~np.isnan(deviations)
    return counts, (is_in_phase.T @ np.nan_to_num(deviations)) / np.maximum(counts, 1)


def _shrink(deviations: Floats, counts: Floats, means: Floats) -> Floats:
    """The factor by which each phase's mean is shrunk towards 0, (phases, m).

    The factor is T / (T + W / n), by a one-way analysis of variance. T is the variance between
    phases, W is the variance within phases, and n is the number of runs in the phase.
    """
    runs = counts.sum(axis=0)
    phases = np.sum(counts > 0, axis=0)
    df_between = np.maximum(phases - 1, 1)
    squares = (counts * means**2).sum(axis=0)
    within = (np.nansum(deviations**2, axis=0) - squares) / np.maximum(runs - phases, 1)
    mean_count = (runs - (counts**2).sum(axis=0) / np.maximum(runs, 1)) / df_between
    between = np.maximum(squares / df_between - within, 0.0) / np.maximum(mean_count, 1)
    # Rounding may make the variance negative if all runs of a phase are equal.
    error_variance = np.maximum(within, 0.0) / np.maximum(counts, 1)
    total = between + error_variance
    shrinkage: Floats = between / np.where(total > 0, total, 1.0)
    return shrinkage


def _has_enough_recurrences(counts: Floats, least: Integers, is_next_phase: Flags) -> Flags:
    """Whether a series has at least ``least`` recurrences of each phase that it has.

    The series must have at least two phases, and one of them must be the next run's phase.
    """
    has_phase = counts > 0
    is_phase_ok = ~has_phase | (counts >= least)
    has_enough: Flags = np.all(is_phase_ok, axis=0) & (has_phase.sum(axis=0) > 1)
    has_enough &= np.any(has_phase[is_next_phase], axis=0)
    return has_enough


def _improves_prediction(
    is_in_phase: Floats, deviations: Floats, effects: tuple[Floats, Floats, Floats]
) -> Flags:
    """Whether the season reduces the squared prediction error by LEAST_GAIN.

    Each run is predicted from all other runs. ``effects`` has three figures of each phase: the
    number of runs, the mean, and the factor by which the mean is shrunk.
    """
    counts, means, shrinkage = (is_in_phase @ of_phases for of_phases in effects)
    runs = np.sum(~np.isnan(deviations), axis=0)
    error_without_season = deviations * runs / np.maximum(runs - 1, 1)
    mean_of_other_runs = (counts * means - deviations) / np.maximum(counts - 1, 1)
    error_with_season = deviations - shrinkage * mean_of_other_runs
    squares_without = np.nansum(error_without_season**2, axis=0)
    improves: Flags = np.nansum(error_with_season**2, axis=0) < (1.0 - LEAST_GAIN) * squares_without
    return improves


def correlate(values: Floats, chance: Floats | float = 1e-3) -> Floats:
    """Cautious estimate of the lag-1 correlation of past runs, (m,), in [0, MOST_CORRELATION].

    ``values`` have the shape (runs, m), oldest first. Runs with NaN are ignored.

    The small-sample bias -(1 + 3 r) / n (Kendall 1954) is corrected. The estimates for short
    histories are shrunk towards PRIOR_CORRELATION. Then standard errors are added: more of them for
    a smaller ``chance`` of a false alert. A negative correlation becomes 0.
    """
    deviations = limit_far_out(values, find_median(values))
    products = deviations[1:] * deviations[:-1]  # of each run and the run before it
    pairs = np.sum(~np.isnan(products), axis=0)
    runs = np.sum(~np.isnan(deviations), axis=0)
    variance = np.nansum(deviations**2, axis=0) / np.maximum(runs, 1)
    covariance = np.nansum(products, axis=0) / np.maximum(pairs, 1)
    measured = covariance / np.where(variance > 0, variance, 1.0)
    unbiased = measured + (1.0 + 3.0 * measured) / np.maximum(pairs, 1)
    shrunk = (pairs * unbiased + PRIOR_RUNS * PRIOR_CORRELATION) / (pairs + PRIOR_RUNS)
    error = np.sqrt(np.maximum(1.0 - shrunk**2, 0.0) / (pairs + PRIOR_RUNS))
    # An estimate that is too low causes false alerts. An estimate that is too high only delays
    # alerts.
    cautious = shrunk - CORRELATION_CAUTION * np.log10(chance) * error
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
    limited_z = np.minimum(z, MOST_Z)
    drifts = np.array(DRIFTS)[:, np.newaxis]
    step = drifts * limited_z - drifts**2 / 2
    has_value = ~np.isnan(limited_z)
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
    # The figures of each series for the size of drift with the most evidence, (m,).
    likeliest_size = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, likeliest_size, axis=0)[0]
    since = np.take_along_axis(evidence.since, likeliest_size, axis=0)[0]
    return np.where(rise >= -np.log(alpha) / 2, since, 0)
