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
LAST = BACK_RUNS - 1
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
    low, high = _find_inner_ends(ordered, np.sum(~np.isnan(values), axis=0))
    return (centred < pick_rows(ordered, low)) | (centred > pick_rows(ordered, high))


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
    limits = _limits(len(ordered))
    rounds = np.maximum(counts // MOST_REJECTED, 1)
    for removed in range(int(rounds.max(initial=0))):
        left = np.maximum(counts - removed, 0)
        moments = (left, total, squares)
        farthest, is_low, distance, deviation = _farthest(ordered, low, high, moments)
        low = low + is_low
        high = high - ~is_low
        may_reject = (left >= LEAST_RUNS_FOR_OUTLIERS) & (removed < rounds)
        is_out = (distance > limits[left] * deviation) & may_reject
        inner_low = np.where(is_out, low, inner_low)
        inner_high = np.where(is_out, high, inner_high)
        total = total - farthest
        squares = squares - farthest**2
    return inner_low, inner_high


def _farthest(
    ordered: Floats,
    low: Integers,
    high: Integers,
    moments: tuple[Integers, Floats, Floats],
) -> tuple[Floats, Flags, Floats, Floats]:
    """Find out which of the two ends is farther from the mean.

    Returns its value, whether it is the low end, its distance, and the standard deviation.
    """
    left, total, squares = moments
    mean = total / np.maximum(left, 1)
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0) / np.maximum(left - 1, 1))
    below = pick_rows(ordered, low)
    above = pick_rows(ordered, high)
    is_low = mean - below > above - mean
    farthest = np.where(is_low, below, above)
    return farthest, is_low, np.abs(farthest - mean), deviation


@functools.lru_cache(maxsize=8)
def _limits(most: int) -> Floats:
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

    The variance of ``center`` is ``doubt`` times ``variance``.
    """

    center: Floats
    variance: Floats
    sampling: Floats
    df: Floats
    doubt: Floats
    runs: Integers


def measure_moments(values: Floats, errors: Floats) -> WeightedMoments:
    """Compute the moments of (runs, m) values. Outliers and NaN are ignored.

    The weights p sum to 1. The center is sum p x. The unbiased estimate of the variance is
    sum p (x - center)^2 / (1 - sum p^2). The sampling variance is the expected value of this
    estimate if the runs differ only by their sampling errors. The degrees of freedom are
    1 / sum p^2 - 1 (Kish 1965). With equal errors they are n - 1.
    """
    weights = run_weights(values, errors)
    outlying = find_outliers((values - find_median(values)) * np.sqrt(weights))
    return _sum_up(values, errors, np.where(outlying | np.isnan(values), 0.0, weights))


def run_weights(values: Floats, errors: Floats) -> Floats:
    """Weight of each run: 1 / (variance between runs + the run's sampling variance).

    NaN for a run without a value. All weights are 1 if nothing varies.
    """
    # `find_scale` is used, because a bad run hardly changes it. Otherwise a bad run could make the
    # variance so large that all weights become equal.
    total = find_scale(values) ** 2
    typical = find_median(errors) ** 2
    variance = np.fmax(total - typical, LEAST_BETWEEN * typical) + errors**2
    largest = np.fmax.reduce(variance, axis=0, initial=0.0)
    return 1.0 / np.maximum(variance, np.where(largest > 0, LEAST_VARIANCE * largest, 1.0))


def _sum_up(values: Floats, errors: Floats, weights: Floats) -> WeightedMoments:
    """Return the moments with these weights, by the formulas of `measure_moments`.

    A run with the weight 0 is left out.
    """
    runs = np.sum(weights > 0, axis=0)
    share = weights / np.where(runs > 0, weights.sum(axis=0), np.nan)
    center = np.where(runs > 0, np.nansum(share * values, axis=0), np.nan)
    doubt = np.where(runs > 0, (share**2).sum(axis=0), np.nan)
    # The divisor that makes the estimates unbiased. One run shows no variance.
    divisor = np.where(runs > 1, 1.0 - doubt, np.nan)
    variance = np.nansum(share * (values - center) ** 2, axis=0) / divisor
    sampling_of_one_run = np.nansum(share * errors**2, axis=0)
    sampling_of_runs = np.nansum(share * (1.0 - share) * errors**2, axis=0) / divisor
    sampling = np.where(runs > 1, sampling_of_runs, sampling_of_one_run)
    df = np.where(runs > 1, 1.0 / doubt - 1.0, 0.0)
    return WeightedMoments(
        center=center,
        variance=variance,
        sampling=sampling,
        df=df,
        doubt=doubt,
        runs=runs,
    )


@immutable
class PastAlerts:
    """Which past runs were healthy, and which alerts they had. Flags have the shape (runs, m)."""

    healthy: Flags  # runs that define what is normal
    alerting: Flags  # an alert of the segment was pending or firing after the run
    firing: Flags  # the alert of this series was firing after the run
    # Whether the value was too far from normal to end an alert. None if this is not known
    far: Flags | None = None
    # Pairs of rows: the first row of an accepted level, and the first row after it was accepted
    accepted: Sequence[tuple[int, int]] = ()
    # After this many runs with an alert at one level, the level is normal. The judged run is one
    settled: int = SETTLED_RUNS


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
    doubt: Floats


def find_levels(values: Floats, past: PastAlerts) -> Levels:
    """Find the levels of past runs, (runs, m), that became normal.

    Whether a level became normal never depends on later runs.
    """
    is_used = past.healthy & ~np.isnan(values)
    none = np.zeros(values.shape[1])
    levels = Levels(
        shift=np.zeros_like(values),
        is_used=is_used,
        since=none.astype(np.intp) - 1,
        has_moved=none > 0,
        before=np.full(values.shape[1], np.nan),
        doubt=none,
    )
    columns = np.flatnonzero(past.alerting.any(axis=0) | bool(past.accepted))
    if not columns.size:
        return levels
    scan = _Scan(values[:, columns], is_used[:, columns], past.settled - 1)
    alerting = past.alerting[:, columns]
    firing = past.firing[:, columns]
    far = np.zeros(firing.shape, dtype=bool) if past.far is None else past.far[:, columns]
    for row in range(len(values)):
        is_far = np.all(far[max(row + 1 - LAST, 0) : row + 1], axis=0)
        scan.step(row, alerting[row], firing[max(row - LAST, 0) : row + 1], np.asarray(is_far))
        for start, following in past.accepted:
            if row == following - 1:
                scan.begin(np.ones(columns.size, dtype=bool), start, row, is_accepted=True)
    scanned = scan.finish(values[:, columns])
    levels.shift[:, columns] = scanned.shift
    levels.is_used[:, columns] = scanned.is_used
    levels.since[columns] = scanned.since
    levels.has_moved[columns] = scanned.has_moved
    levels.before[columns] = scanned.before
    levels.doubt[columns] = scanned.doubt
    return levels


class _Scan:
    """The state of a scan over runs, from the oldest run to the newest.

    - ``values``: the values, where runs before a level are shifted to this level, (runs, m).
    - ``origin``: the first row of the newest level, -1 without a new level.
    - ``level`` and ``normal``: the newest level, and the level before it.
    - ``has_moved``: whether these two levels differ.
    - ``is_open``: whether the newest level may still be left, because nobody has accepted it.
    - ``streak``: the number of runs of the last alert.
    - ``total``: the sum of the values of the runs of the last alert.
    - ``healed``: the number of runs since the last alert.
    - ``enough``: after this many runs with an alert at one level, a level begins.
    """

    def __init__(self, values: Floats, is_used: Flags, enough: int) -> None:
        series = values.shape[1]
        self.values = values
        self.is_used = is_used
        self.enough = enough
        self.origin, self.streak = np.full(series, -1), np.zeros(series, dtype=np.intp)
        self.healed = np.full(series, LAST + 1)
        self.is_open, self.total = np.zeros(series, dtype=bool), np.zeros(series)
        self.has_moved = np.zeros(series, dtype=bool)
        self.normal, self.level = np.full(series, np.nan), np.full(series, np.nan)

    def step(self, row: int, alerting: Flags, firing: Flags, far: Flags) -> None:
        """Scan one run.

        ``firing`` says whether the alert fired after each of the last LAST + 1 runs. ``far`` says
        whether all of the last LAST runs are far from normal.
        """
        now = self.values[row]
        is_new_alert = alerting & (self.healed > 0)
        self.healed = np.where(alerting, 0, self.healed + 1)
        self.streak = np.where(is_new_alert, 1, self.streak + alerting)
        self.total = np.where(is_new_alert, now, self.total + np.where(alerting, now, 0.0))
        has_lasted = alerting & (self.streak >= self.enough)
        if has_lasted.any():
            start = row + 1 - self.enough
            self.begin(has_lasted & _is_stable(self.values[start : row + 1]), start, row)
        if len(firing) > LAST:
            self._begin_if_nearly_normal(row, firing, far)
        if np.any(self.is_open):
            last = self.values[max(row + 1 - MIN_HEALTHY_RUNS, 0) : row + 1]
            is_nearer_to_normal = np.abs(last - self.normal) < np.abs(last - self.level)
            is_settled = row - self.origin >= MIN_HEALTHY_RUNS
            self._leave(self.is_open & is_settled & is_nearer_to_normal.all(axis=0), row)

    def _begin_if_nearly_normal(self, row: int, firing: Flags, far: Flags) -> None:
        """Begin a level with the last LAST runs if they are nearer to normal than to the fault.

        Normal is the level before the fault. The level of the fault is the mean of the alert's
        earlier runs.

        If the alert has ended in the meantime, the last runs must also be ``far`` from normal. If
        they are not, the fault has healed, and no level begins.
        """
        # How many of the last runs belong to the last alert. They come first.
        alert_runs = LAST - self.healed
        has_ended = (self.healed > 0) & (alert_runs >= 0)
        still_fires = (self.healed == 0) & firing[1:].all(axis=0)
        # ``firing`` has one run before the last runs, so this is the index of the alert's last run.
        last_of_alert = np.clip(alert_runs, 0, LAST)[np.newaxis]
        fired_to_the_end = np.take_along_axis(firing, last_of_alert, axis=0)[0]
        has_earlier_runs = self.streak > alert_runs
        may_begin = has_earlier_runs & (still_fires | (has_ended & fired_to_the_end & far))
        if not may_begin.any():
            return
        start = row + 1 - LAST
        last = self.values[start : row + 1]
        is_of_alert = np.arange(LAST)[:, np.newaxis] < alert_runs
        earlier_total = self.total - np.where(is_of_alert, last, 0.0).sum(axis=0)
        fault = earlier_total / np.maximum(self.streak - alert_runs, 1)
        is_nearer = np.abs(last - self._find_normal(start)) < np.abs(last - fault)
        self.begin(may_begin & is_nearer.all(axis=0), start, row)

    def _is_other(self, before: int, level: Floats) -> Flags:
        """Whether a level differs from the level of the healthy runs before it."""
        healthy = self._used_values()[:before]
        normal = find_median(healthy)
        most = LEVEL_STEP_SDS * find_scale(healthy) + ROUNDING_SHARE * np.abs(normal)
        is_other: Flags = np.abs(level - normal) > most
        return is_other

    def begin(
        self,
        where: Flags,
        start: int,
        row: int,
        *,
        is_accepted: bool = False,
    ) -> None:
        """Begin a level in row ``start``. Earlier runs are shifted to this level."""
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        level = find_mean(self.values[start : row + 1])
        has_moved = self._is_other(start, level)
        self.is_used |= where & (rows >= start) & (rows <= row) & ~np.isnan(self.values)
        normal = self._find_normal(start)
        self.values += np.where(where & (rows < start), np.nan_to_num(level - normal), 0.0)
        self.has_moved = np.where(where, has_moved, self.has_moved)
        self.normal = np.where(where, normal, self.normal)
        self.level = np.where(where, level, self.level)
        self.origin = np.where(where, start, self.origin)
        self.streak = np.where(where, 0, self.streak)
        self.total = np.where(where, 0.0, self.total)
        self.is_open = np.where(where, not is_accepted, self.is_open)

    def _leave(self, where: Flags, row: int) -> None:
        """End a level that nobody has accepted, because the series is back at the level before."""
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        shift = np.nan_to_num(self.level - self.normal)
        self.values -= np.where(where & (rows < self.origin), shift, 0.0)
        self.is_used &= ~(where & (rows >= self.origin) & (rows <= row - MIN_HEALTHY_RUNS))
        self.origin = np.where(where, -1, self.origin)
        self.is_open = self.is_open & ~where

    def _find_normal(self, before: int) -> Floats:
        return find_median(self._used_values()[:before])

    def _used_values(self) -> Floats:
        return np.where(self.is_used, self.values, np.nan)

    def finish(self, original: Floats) -> Levels:
        """Return the levels after all runs, with shifts from the ``original`` values.

        If the newest level has enough runs to be settled, only its runs define what is normal.
        """
        is_old = np.arange(len(self.values))[:, np.newaxis] < self.origin
        new = np.where(self.is_used & ~is_old, self.values, np.nan)
        old = np.where(self.is_used & is_old, self.values, np.nan)
        runs = np.where(self.origin >= 0, np.sum(~np.isnan(new), axis=0), 0)
        is_short = (runs > 0) & (runs < self.enough)
        shift = np.nan_to_num(self.values - original + is_old * (find_mean(new) - find_mean(old)))
        return Levels(
            shift=shift,
            is_used=self.is_used & (~is_old | is_short),
            since=np.where(self.is_open, self.origin, -1),
            has_moved=self.has_moved,
            before=np.where(self.is_open, self.normal, np.nan),
            doubt=is_short / np.maximum(runs, 1),
        )


def _is_stable(window: Floats) -> Flags:
    """Whether the first half and the last half of the window, (runs, m), have the same level."""
    half = len(window) // 2
    first = find_mean(window[:half])
    last = find_mean(window[-half:])
    squares = np.nansum((window[:half] - first) ** 2, axis=0)
    squares = squares + np.nansum((window[-half:] - last) ** 2, axis=0)
    error = np.sqrt(squares / (half - 1) / half)
    most = AGREE * error + ROUNDING_SHARE * np.maximum(1.0, np.abs(first))
    stable: Flags = np.abs(last - first) <= most
    return stable
