"""Computes the mean and the variance of past runs. Finds outliers and changes of level."""

import functools
from collections.abc import Sequence

import numpy as np
import scipy

from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.immutable import immutable
from monitor.model.rules import MIN_HEALTHY_RUNS
from monitor.statistics.reference.history import find_mean, find_median, find_scale, pick_rows

REJECTED_WRONGLY = 0.001
"""The probability that a good run is rejected as an outlier, if no run of the history is bad.

After a wrong rejection the remaining runs vary too little. With 0.01, false alerts at 1e-4
after ten runs are 3.6 times too frequent. With 0.001, they have the right rate.
"""
LEAST_RUNS_FOR_OUTLIERS = 5
"""With fewer runs, no run is an outlier.

With five runs, an outlier must be away from the other runs by forty times their spread.
"""
MOST_REJECTED = 4
"""At most one in this many runs may be an outlier. But one outlier is always allowed.

With more outliers, the values alone would not show which runs are bad.
"""

LEAST_BETWEEN = 0.1
"""The variance between runs is at least this share of the typical sampling variance.

Without this limit a single run with many users could determine the mean alone.
"""
LEAST_VARIANCE = 1e-6
"""A run's variance is at least this share of the largest one. This limits the weights."""
SETTLED_RUNS = 14
"""After this many runs with an alert at one level, the level is the new normal.

The run that is being judged is one of these runs.
"""
BACK_RUNS = 3
"""If a level is more than halfway back to the earlier normal, this many runs are enough."""
PAST_BACK_RUNS = BACK_RUNS - 1
"""How many of these runs are past runs. The run that is being judged is one of them too."""
AGREE = 3.0
"""A level is stable if its two halves differ by at most this many standard errors."""
LEVEL_STEP_SDS = 2.5
"""A new level must differ from the level before by this many standard deviations of healthy runs.

If the difference is smaller, both levels are the same, and the fault has healed.
"""
ROUNDING_SHARE = 1e-9


def find_outliers(values: Floats) -> Flags:
    """Find outliers of (runs, m) values.

    This is Rosner's (1983) generalised extreme studentized deviate test. It removes one value after
    the other, up to a quarter of all values. Each time, it removes the value that is farthest from
    the mean of the remaining values. The outliers are the removed values, up to the last one that
    was still too far from the mean. In 999 of 1,000 cases a normal history has no outlier.
    """
    centred = values - find_median(values)
    ordered = np.sort(centred, axis=0)
    lowest, highest = _find_inner_ends(ordered, np.sum(~np.isnan(values), axis=0))
    return (centred < pick_rows(ordered, lowest)) | (centred > pick_rows(ordered, highest))


def _find_inner_ends(ordered: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """Rows of the lowest and the highest value that are not outliers: two arrays (m,).

    ``ordered`` is sorted, so the value farthest from the mean is always one of the two ends.
    """
    low = np.zeros_like(counts)
    high = counts - 1
    inner_low = low
    inner_high = high
    total = np.nansum(ordered, axis=0)
    squares = np.nansum(ordered**2, axis=0)
    limits = _outlier_limits(len(ordered))
    most_removed = np.maximum(counts // MOST_REJECTED, 1)
    for removed in range(int(most_removed.max(initial=0))):
        remaining = np.maximum(counts - removed, 0)
        moments = (remaining, total, squares)
        farthest, is_low, distance, deviation = _find_farther_end(ordered, low, high, moments)
        low = low + is_low
        high = high - ~is_low
        may_reject = (remaining >= LEAST_RUNS_FOR_OUTLIERS) & (removed < most_removed)
        is_outlier = (distance > limits[remaining] * deviation) & may_reject
        inner_low = np.where(is_outlier, low, inner_low)
        inner_high = np.where(is_outlier, high, inner_high)
        total = total - farthest
        squares = squares - farthest**2
    return inner_low, inner_high


def _find_farther_end(
    ordered: Floats,
    low: Integers,
    high: Integers,
    moments: tuple[Integers, Floats, Floats],
) -> tuple[Floats, Flags, Floats, Floats]:
    """Find out which end of the remaining values, in row ``low`` or ``high``, is farther out.

    ``moments`` are the number, the sum, and the sum of squares of the remaining values. Returns the
    value of the farther end, whether it is the low end, its distance from the mean, and the
    standard deviation of the remaining values.
    """
    remaining, total, squares = moments
    mean = total / np.maximum(remaining, 1)
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0) / np.maximum(remaining - 1, 1))
    low_end = pick_rows(ordered, low)
    high_end = pick_rows(ordered, high)
    is_low = mean - low_end > high_end - mean
    farthest = np.where(is_low, low_end, high_end)
    return farthest, is_low, np.abs(farthest - mean), deviation


@functools.lru_cache(maxsize=8)
def _outlier_limits(most: int) -> Floats:
    """Rosner's limits on (farthest - mean) / deviation, for 0 to ``most`` remaining values.

    A limit is 0 if there are too few values for outliers.
    """
    n = np.arange(LEAST_RUNS_FOR_OUTLIERS, most + 1, dtype=float)
    t = -scipy.special.stdtrit(n - 2, REJECTED_WRONGLY / (2 * n))
    limits = (n - 1) * t / np.sqrt((n - 2 + t * t) * n)
    return np.concatenate((np.zeros(LEAST_RUNS_FOR_OUTLIERS), limits))


@immutable
class WeightedMoments:
    """Weighted moments of m series. Each field is an array of shape (m,).

    ``center_variance`` is the variance of ``center``, as a multiple of ``variance``.
    """

    center: Floats
    variance: Floats
    sampling: Floats
    df: Floats
    center_variance: Floats
    runs: Integers


def measure_moments(values: Floats, errors: Floats) -> WeightedMoments:
    """Compute the moments of (runs, m) values. Outliers and NaN are ignored.

    The weights p sum to 1. The center is sum p x. The unbiased estimate of the variance is
    sum p (x - center)^2 / (1 - sum p^2). The sampling variance is the expected value of this
    estimate if the runs differ only by their sampling errors. The degrees of freedom are
    1 / sum p^2 - 1 (Kish 1965). With equal errors they are n - 1.
    """
    weights = run_weights(values, errors)
    is_outlier = find_outliers((values - find_median(values)) * np.sqrt(weights))
    return _weigh_moments(values, errors, np.where(is_outlier | np.isnan(values), 0.0, weights))


def run_weights(values: Floats, errors: Floats) -> Floats:
    """Weight of each run: 1 / (variance between runs + the run's sampling variance).

    NaN for a run without a value. All weights are 1 if nothing varies.
    """
    # `find_scale` is used, because a bad run hardly changes it. Otherwise a bad run could make the
    # variance so large that all weights become equal.
    total = find_scale(values) ** 2
    sampling = find_median(errors) ** 2
    between_runs = np.fmax(total - sampling, LEAST_BETWEEN * sampling)
    variance = between_runs + errors**2
    largest = np.fmax.reduce(variance, axis=0, initial=0.0)
    return 1.0 / np.maximum(variance, np.where(largest > 0, LEAST_VARIANCE * largest, 1.0))


def _weigh_moments(values: Floats, errors: Floats, weights: Floats) -> WeightedMoments:
    """Return the moments with these weights, by the formulas of `measure_moments`.

    A run with the weight 0 is left out.
    """
    runs = np.sum(weights > 0, axis=0)
    share = weights / np.where(runs > 0, weights.sum(axis=0), np.nan)
    center = np.where(runs > 0, np.nansum(share * values, axis=0), np.nan)
    center_variance = np.where(runs > 0, (share**2).sum(axis=0), np.nan)
    # The divisor that makes the estimates unbiased. One run shows no variance.
    divisor = np.where(runs > 1, 1.0 - center_variance, np.nan)
    variance = np.nansum(share * (values - center) ** 2, axis=0) / divisor
    sampling_of_one_run = np.nansum(share * errors**2, axis=0)
    sampling_of_runs = np.nansum(share * (1.0 - share) * errors**2, axis=0) / divisor
    sampling = np.where(runs > 1, sampling_of_runs, sampling_of_one_run)
    df = np.where(runs > 1, 1.0 / center_variance - 1.0, 0.0)
    return WeightedMoments(
        center=center,
        variance=variance,
        sampling=sampling,
        df=df,
        center_variance=center_variance,
        runs=runs,
    )


@immutable
class PastAlerts:
    """Which past runs were healthy, and which alerts they had. Flags have the shape (runs, m)."""

    healthy: Flags  # runs that define what is normal
    alerting: Flags  # an alert of the segment was pending or firing after the run
    firing: Flags  # the alert of this series was firing after the run
    # Whether the value was too far from normal to end an alert. None if this is not known
    far_from_normal: Flags | None = None
    # Pairs of rows: the first row of an accepted level, and the first row after it was accepted
    accepted: Sequence[tuple[int, int]] = ()
    # After this many runs with an alert at one level, the level is normal. The judged run is one
    runs_until_normal: int = SETTLED_RUNS


@immutable
class Levels:
    """Shifts that move past runs to the newest level, and the runs that define what is normal."""

    shift: Floats  # (runs, m)
    is_used: Flags  # (runs, m), whether the run defines what is normal
    # (m,), first row of the newest level. -1 if it is the only level or was accepted
    since: Integers
    has_moved: Flags  # (m,), whether the newest level differs from the level before
    # (m,), the level before a newest level that nobody has accepted. NaN without such a level
    before: Floats
    # (m,), the variance of the level's mean, as a multiple of the variance between runs
    level_variance: Floats


def find_levels(values: Floats, past: PastAlerts) -> Levels:
    """Find the levels of past runs, (runs, m), that became normal.

    Only columns with alerts or accepted levels are scanned. Whether a level became normal never
    depends on later runs.
    """
    series = values.shape[1]
    is_used = past.healthy & ~np.isnan(values)
    levels = Levels(
        shift=np.zeros_like(values),
        is_used=is_used,
        since=np.full(series, -1),
        has_moved=np.zeros(series, dtype=bool),
        before=np.full(series, np.nan),
        level_variance=np.zeros(series),
    )
    columns = np.flatnonzero(past.alerting.any(axis=0) | bool(past.accepted))
    if not columns.size:
        return levels
    scan = _Scan(values[:, columns], is_used[:, columns], past.runs_until_normal - 1)
    alerting = past.alerting[:, columns]
    firing = past.firing[:, columns]
    far = np.zeros(firing.shape, dtype=bool)
    if past.far_from_normal is not None:
        far = past.far_from_normal[:, columns]
    for row in range(len(values)):
        last_far = far[max(row + 1 - PAST_BACK_RUNS, 0) : row + 1]
        last_firing = firing[max(row - PAST_BACK_RUNS, 0) : row + 1]
        scan.step(row, alerting[row], last_firing, last_far)
        for first_row, first_row_after in past.accepted:
            if row == first_row_after - 1:
                everywhere = np.ones(columns.size, dtype=bool)
                scan.begin(everywhere, first_row, row, is_accepted=True)
    scanned = scan.finish(values[:, columns])
    levels.shift[:, columns] = scanned.shift
    levels.is_used[:, columns] = scanned.is_used
    levels.since[columns] = scanned.since
    levels.has_moved[columns] = scanned.has_moved
    levels.before[columns] = scanned.before
    levels.level_variance[columns] = scanned.level_variance
    return levels


class _Scan:
    """The state of a scan over runs, from the oldest run to the newest.

    - ``values``: the values, where runs before a level are shifted to this level, (runs, m).
    - ``first_row``: the first row of the newest level, -1 without a new level.
    - ``level`` and ``normal``: the newest level, and the level before it.
    - ``has_moved``: whether these two levels differ.
    - ``is_open``: whether the newest level may still be ended, because nobody has accepted it.
    - ``alert_runs``: the number of runs of the last alert.
    - ``alert_total``: the sum of the values of the runs of the last alert.
    - ``runs_since_alert``: the number of runs since the last alert.
    - ``least_runs``: after this many runs with an alert at one level, a level begins.
    """

    def __init__(self, values: Floats, is_used: Flags, least_runs: int) -> None:
        series = values.shape[1]
        self.values = values
        self.is_used = is_used
        self.least_runs = least_runs
        self.first_row = np.full(series, -1)
        self.alert_runs = np.zeros(series, dtype=np.intp)
        self.alert_total = np.zeros(series)
        self.runs_since_alert = np.full(series, PAST_BACK_RUNS + 1)
        self.is_open = np.zeros(series, dtype=bool)
        self.has_moved = np.zeros(series, dtype=bool)
        self.normal = np.full(series, np.nan)
        self.level = np.full(series, np.nan)

    def step(self, row: int, alerting: Flags, firing: Flags, far: Flags) -> None:
        """Scan one run.

        ``firing`` says whether the alert fired after each of the last PAST_BACK_RUNS + 1 runs.
        ``far`` says whether each of the last PAST_BACK_RUNS runs is far from normal.
        """
        now = self.values[row]
        is_new_alert = alerting & (self.runs_since_alert > 0)
        self.runs_since_alert = np.where(alerting, 0, self.runs_since_alert + 1)
        self.alert_runs = np.where(is_new_alert, 1, self.alert_runs + alerting)
        total = self.alert_total + np.where(alerting, now, 0.0)
        self.alert_total = np.where(is_new_alert, now, total)
        has_lasted = alerting & (self.alert_runs >= self.least_runs)
        if has_lasted.any():
            first_row = row + 1 - self.least_runs
            is_stable = _is_stable(self.values[first_row : row + 1])
            self.begin(has_lasted & is_stable, first_row, row)
        if len(firing) > PAST_BACK_RUNS:
            self._begin_if_nearly_normal(row, firing, far)
        if np.any(self.is_open):
            last = self.values[max(row + 1 - MIN_HEALTHY_RUNS, 0) : row + 1]
            is_nearer_to_normal = np.abs(last - self.normal) < np.abs(last - self.level)
            has_enough_runs = row - self.first_row >= MIN_HEALTHY_RUNS
            is_back = has_enough_runs & is_nearer_to_normal.all(axis=0)
            self._end_open_level(self.is_open & is_back, row)

    def _begin_if_nearly_normal(self, row: int, firing: Flags, far: Flags) -> None:
        """Begin a level with the last runs if they are nearer to normal than to the fault.

        The last runs are the last PAST_BACK_RUNS runs. Normal is the level before the fault. The
        level of the fault is the mean of the alert's earlier runs.

        If the alert has ended in the meantime, the last runs must also be ``far`` from normal.
        Otherwise the fault has healed, and no level begins.
        """
        # How many of the last runs belong to the last alert. These runs come first. The number is
        # negative if the alert ended before the last runs.
        last_alert_runs = PAST_BACK_RUNS - self.runs_since_alert
        earlier_runs = self.alert_runs - last_alert_runs
        is_recent = (last_alert_runs >= 0) & (earlier_runs > 0)
        if not is_recent.any():
            return
        has_ended = self.runs_since_alert > 0
        still_fires = (self.runs_since_alert == 0) & firing[1:].all(axis=0)
        # ``firing`` has one run before the last runs, so this is the index of the alert's last run.
        end_of_alert = np.clip(last_alert_runs, 0, PAST_BACK_RUNS)[np.newaxis]
        fired_to_the_end = np.take_along_axis(firing, end_of_alert, axis=0)[0]
        ended_while_far = has_ended & fired_to_the_end & far.all(axis=0)
        may_begin = is_recent & (still_fires | ended_while_far)
        if not may_begin.any():
            return
        first_row = row + 1 - PAST_BACK_RUNS
        last = self.values[first_row : row + 1]
        is_of_alert = np.arange(PAST_BACK_RUNS)[:, np.newaxis] < last_alert_runs
        earlier_total = self.alert_total - np.where(is_of_alert, last, 0.0).sum(axis=0)
        fault_level = earlier_total / np.maximum(earlier_runs, 1)
        is_nearer = np.abs(last - self._find_normal(first_row)) < np.abs(last - fault_level)
        self.begin(may_begin & is_nearer.all(axis=0), first_row, row)

    def _differs_from_normal(self, level: Floats, first_row: int) -> Flags:
        """Whether a level differs from the level of the healthy runs before ``first_row``."""
        healthy = self._used_values()[:first_row]
        normal = find_median(healthy)
        most = LEVEL_STEP_SDS * find_scale(healthy) + ROUNDING_SHARE * np.abs(normal)
        differs: Flags = np.abs(level - normal) > most
        return differs

    def begin(
        self,
        where: Flags,
        first_row: int,
        row: int,
        *,
        is_accepted: bool = False,
    ) -> None:
        """Begin a level in ``first_row``, in the series ``where``. Its last run so far is ``row``.

        Earlier runs are shifted to this level.
        """
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        level = find_mean(self.values[first_row : row + 1])
        has_moved = self._differs_from_normal(level, first_row)
        self.is_used |= where & (rows >= first_row) & (rows <= row) & ~np.isnan(self.values)
        normal = self._find_normal(first_row)
        self.values += np.where(where & (rows < first_row), np.nan_to_num(level - normal), 0.0)
        self.has_moved = np.where(where, has_moved, self.has_moved)
        self.normal = np.where(where, normal, self.normal)
        self.level = np.where(where, level, self.level)
        self.first_row = np.where(where, first_row, self.first_row)
        self.alert_runs = np.where(where, 0, self.alert_runs)
        self.alert_total = np.where(where, 0.0, self.alert_total)
        self.is_open = np.where(where, not is_accepted, self.is_open)

    def _end_open_level(self, where: Flags, row: int) -> None:
        """End a level that nobody has accepted, because the series is back at the level before.

        The last MIN_HEALTHY_RUNS runs, up to ``row``, belong to the level before.
        """
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        shift = np.nan_to_num(self.level - self.normal)
        self.values -= np.where(where & (rows < self.first_row), shift, 0.0)
        self.is_used &= ~(where & (rows >= self.first_row) & (rows <= row - MIN_HEALTHY_RUNS))
        self.first_row = np.where(where, -1, self.first_row)
        self.is_open = self.is_open & ~where

    def _find_normal(self, first_row: int) -> Floats:
        """The median of the healthy runs before ``first_row``, (m,)."""
        return find_median(self._used_values()[:first_row])

    def _used_values(self) -> Floats:
        return np.where(self.is_used, self.values, np.nan)

    def finish(self, original: Floats) -> Levels:
        """Return the levels after all runs, with shifts from the ``original`` values.

        If the newest level has at least ``least_runs`` runs, only these runs define what is normal.
        """
        is_old = np.arange(len(self.values))[:, np.newaxis] < self.first_row
        new = np.where(self.is_used & ~is_old, self.values, np.nan)
        old = np.where(self.is_used & is_old, self.values, np.nan)
        runs = np.where(self.first_row >= 0, np.sum(~np.isnan(new), axis=0), 0)
        is_short = (runs > 0) & (runs < self.least_runs)
        # Old runs are shifted so that they have the same mean as the runs of the newest level.
        step = is_old * (find_mean(new) - find_mean(old))
        return Levels(
            shift=np.nan_to_num(self.values - original + step),
            is_used=self.is_used & (~is_old | is_short),
            since=np.where(self.is_open, self.first_row, -1),
            has_moved=self.has_moved,
            before=np.where(self.is_open, self.normal, np.nan),
            level_variance=is_short / np.maximum(runs, 1),
        )


def _is_stable(window: Floats) -> Flags:
    """Whether both halves of the window, (runs, m), have about the same mean."""
    half = len(window) // 2
    first = find_mean(window[:half])
    last = find_mean(window[-half:])
    squares = np.nansum((window[:half] - first) ** 2, axis=0)
    squares = squares + np.nansum((window[-half:] - last) ** 2, axis=0)
    error = np.sqrt(squares / (half - 1) / half)
    most = AGREE * error + ROUNDING_SHARE * np.maximum(1.0, np.abs(first))
    is_stable: Flags = np.abs(last - first) <= most
    return is_stable
