"""Weighted location and run-to-run variance of past runs, outliers rejected, and levels: where what is normal moved."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from monitor.model.arrays import Flags, Floats, Integers
from monitor.model.rules import MIN_HEALTHY_RUNS
from monitor.reference.history import find_mean, find_median, find_scale, pick_rows

REJECTED_WRONGLY = 0.001
"""Share of histories without a bad run that lose one. What is left of those looks far too calm, and at 0.01 the false alarms
at 1e-4 after ten runs rise to 3.6 times their rate; at 0.001 they keep it."""
LEAST_RUNS_FOR_OUTLIERS = 5
"""Of fewer runs none can be called the odd one out.

Of five it takes forty times the spread of the others.
"""
# At most one run in four (but always one) may be bad; with more, values alone do not distinguish
# bad from normal.
MOST_REJECTED = 4

# Of the typical sampling variance counts as variance between runs at least, so that no single run
# of many users decides.
LEAST_BETWEEN = 0.1
LEAST_VARIANCE = 1e-6
"""Of a series' largest variance is the least that a run may claim: bounds the weights where sampling errors are 0."""
SETTLED_RUNS = 14
"""Runs in alarm at one level, the one that is judged included, that make this level the new normal."""
BACK_RUNS = 3
"""The same where the level has come back more than half of the way to what was normal before."""
LAST = BACK_RUNS - 1
AGREE = 3.0
"""Standard errors that the two halves of a level may lie apart."""
MOVED = 2.5
"""Scales of healthy runs that a level lies from the one before at least.

Else the fault has healed, and nothing is new.
"""
ROUNDING = 1e-9


def find_outliers(values: Floats) -> Flags:
    """Rosner's (1983) generalised extreme studentized deviate test, column by column: True where a value is an outlier.

    ``values``: (runs, m), NaN for none. What is farthest from the mean of the rest goes one by one, up to a quarter; the
    longest such sequence whose last is still too far out is rejected. A normal history stays whole in 999 of 1,000 cases.
    """
    centred = values - find_median(values)
    ordered = np.sort(centred, axis=0)
    low, high = _ends_kept(ordered, np.sum(~np.isnan(values), axis=0))
    return (centred < pick_rows(ordered, low)) | (centred > pick_rows(ordered, high))


def _ends_kept(ordered: Floats, counts: Integers) -> tuple[Integers, Integers]:
    """Rows of the lowest and highest value that stay, (m,) each.

    The farthest from the mean is always one of the two ends.
    """
    low, high = np.zeros_like(counts), counts - 1
    kept_low, kept_high = low, high
    total, squares = np.nansum(ordered, axis=0), np.nansum(ordered**2, axis=0)
    limits, rounds = _limits(len(ordered)), np.maximum(counts // MOST_REJECTED, 1)
    for taken in range(int(rounds.max(initial=0))):
        left = np.maximum(counts - taken, 0)
        farthest, is_low, distance, deviation = _farthest(
            ordered, low, high, (left, total, squares)
        )
        low, high = low + is_low, high - ~is_low
        is_out = (
            (distance > limits[left] * deviation)
            & (left >= LEAST_RUNS_FOR_OUTLIERS)
            & (taken < rounds)
        )
        kept_low, kept_high = np.where(is_out, low, kept_low), np.where(is_out, high, kept_high)
        total, squares = total - farthest, squares - farthest**2
    return kept_low, kept_high


def _farthest(
    ordered: Floats, low: Integers, high: Integers, moments: tuple[Integers, Floats, Floats]
) -> tuple[Floats, Flags, Floats, Floats]:
    """The end farther from the mean, whether it is the low one, its distance, and the standard deviation, (m,) each."""
    left, total, squares = moments
    mean = total / np.maximum(left, 1)
    deviation = np.sqrt(np.maximum(squares - total * mean, 0.0) / np.maximum(left - 1, 1))
    below, above = pick_rows(ordered, low), pick_rows(ordered, high)
    is_low = mean - below > above - mean
    farthest = np.where(is_low, below, above)
    return farthest, is_low, np.abs(farthest - mean), deviation


@functools.lru_cache(maxsize=8)
def _limits(most: int) -> Floats:
    """Rosner's limit on (farthest - mean) / deviation for 0 to ``most`` values that are left.

    0 where they are too few.
    """
    n = np.arange(LEAST_RUNS_FOR_OUTLIERS, most + 1, dtype=np.float64)
    t = -scipy.special.stdtrit(n - 2, REJECTED_WRONGLY / (2 * n))
    limits = (n - 1) * t / np.sqrt((n - 2 + t * t) * n)
    return np.concatenate((np.zeros(LEAST_RUNS_FOR_OUTLIERS), limits))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Weighted moments of m series, (m,) each.

    ``doubt`` is the variance of ``center`` as a multiple of ``variance``.
    """

    center: Floats
    variance: Floats
    sampling: Floats
    df: Floats
    doubt: Floats
    runs: Integers


def measure_spread(values: Floats, errors: Floats) -> Spread:
    """Moments of (runs, m) values and their sampling errors, outliers rejected.

    NaN where a run does not count.

    With weights p that sum to 1: center sum p x; unbiased variance sum p (x - center)^2 / (1 - sum
    p^2), sampling variance likewise; df 1 / sum p^2 - 1 (Kish 1965), n - 1 with equal errors.
    """
    weights = run_weights(values, errors)
    outlying = find_outliers((values - find_median(values)) * np.sqrt(weights))
    return _sum_up(values, errors, np.where(outlying | np.isnan(values), 0.0, weights))


def run_weights(values: Floats, errors: Floats) -> Floats:
    """1 / (variance between runs + own sampling variance), NaN where a run does not count, 1 where nothing varies."""
    # By the median absolute deviation, so that a bad run does not level the weights.
    seen = find_scale(values) ** 2
    typical = find_median(errors) ** 2
    variance = np.fmax(seen - typical, LEAST_BETWEEN * typical) + errors**2
    largest = np.fmax.reduce(variance, axis=0, initial=0.0)
    return 1.0 / np.maximum(variance, np.where(largest > 0, LEAST_VARIANCE * largest, 1.0))


def _sum_up(values: Floats, errors: Floats, weights: Floats) -> Spread:
    runs = np.sum(weights > 0, axis=0)
    share = weights / np.where(runs > 0, weights.sum(axis=0), np.nan)
    center = np.where(runs > 0, np.nansum(share * values, axis=0), np.nan)
    doubt = np.where(runs > 0, (share**2).sum(axis=0), np.nan)
    once = np.where(runs > 1, 1.0 - doubt, np.nan)
    variance = np.nansum(share * (values - center) ** 2, axis=0) / once
    alone = np.nansum(share * errors**2, axis=0)
    sampling = np.where(
        runs > 1, np.nansum(share * (1.0 - share) * errors**2, axis=0) / once, alone
    )
    df = np.where(runs > 1, 1.0 / doubt - 1.0, 0.0)
    return Spread(
        center=center, variance=variance, sampling=sampling, df=df, doubt=doubt, runs=runs
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PastAlarms:
    """What alerts said of past runs, (runs, m) each; all that `find_levels` knows of them."""

    healthy: Flags  # these teach
    alarms: Flags  # some alert of the segment was pending or firing after the run
    firing: Flags  # that of this series was
    # It lay farther out than healthy runs do when an alert ends; None: nobody knows
    far: Flags | None = None
    # Of each level that a person accepted the first row, and the row next then
    accepted: Sequence[tuple[int, int]] = ()
    # Runs in alarm at one level, the present one included, that make it normal
    settled: int = SETTLED_RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """What moves past runs to the newest level, and which of them say what is normal."""

    shift: Floats  # (runs, m)
    teaches: Flags  # (runs, m)
    # (m,), row at which the newest level begins, -1 where it is the only one or was accepted
    since: Integers
    has_moved: Flags  # (m,), that level is another one than the level before
    doubt: Floats  # (m,), variance of this level as a multiple of the variance between runs


def find_levels(values: Floats, past: PastAlarms) -> Levels:
    """Look through the past runs, (runs, m), for levels that are normal from then on, each by the runs until then alone."""
    teaches = past.healthy & ~np.isnan(values)
    none = np.zeros(values.shape[1])
    levels = Levels(
        shift=np.zeros_like(values),
        teaches=teaches,
        since=none.astype(np.intp) - 1,
        has_moved=none > 0,
        doubt=none,
    )
    looked_at = np.flatnonzero(past.alarms.any(axis=0) | bool(past.accepted))
    if not looked_at.size:
        return levels
    scan = _Scan(values[:, looked_at], teaches[:, looked_at], past.settled - 1)
    alarms, firing = past.alarms[:, looked_at], past.firing[:, looked_at]
    far = np.zeros(firing.shape, dtype=np.bool_) if past.far is None else past.far[:, looked_at]
    for row in range(len(values)):
        is_far = np.all(far[max(row + 1 - LAST, 0) : row + 1], axis=0)
        scan.step(row, alarms[row], firing[max(row - LAST, 0) : row + 1], np.asarray(is_far))
        for start, following in past.accepted:
            if row == following - 1:
                scan.begin(np.ones(looked_at.size, dtype=np.bool_), start, row, is_accepted=True)
    found = scan.finish(values[:, looked_at])
    levels.shift[:, looked_at], levels.teaches[:, looked_at] = found.shift, found.teaches
    levels.since[looked_at], levels.has_moved[looked_at] = found.since, found.has_moved
    levels.doubt[looked_at] = found.doubt
    return levels


class _Scan:
    """The scan between two runs: ``origin`` is the row at which the newest level begins.

    ``streak`` counts the runs of the last alarm, ``total`` sums their values, ``healed`` counts the
    runs since.
    """

    def __init__(self, values: Floats, teaches: Flags, enough: int) -> None:
        series = values.shape[1]
        self.values, self.teaches, self.enough = values, teaches, enough
        self.origin, self.streak = np.full(series, -1), np.zeros(series, dtype=np.intp)
        self.healed = np.full(series, LAST + 1)
        self.is_open, self.total = np.zeros(series, dtype=np.bool_), np.zeros(series)
        self.has_moved = np.zeros(series, dtype=np.bool_)
        self.normal, self.level = np.full(series, np.nan), np.full(series, np.nan)

    def step(self, row: int, alarmed: Flags, firing: Flags, far: Flags) -> None:
        """Take in one run.

        ``firing``: whether the alert fired after each of the last LAST + 1 runs; ``far``: all LAST
        are.
        """
        now = self.values[row]
        is_new = alarmed & (self.healed > 0)
        self.healed = np.where(alarmed, 0, self.healed + 1)
        self.streak = np.where(is_new, 1, self.streak + alarmed)
        self.total = np.where(is_new, now, self.total + np.where(alarmed, now, 0.0))
        if np.any(has_lasted := alarmed & (self.streak >= self.enough)):
            start = row + 1 - self.enough
            self.begin(has_lasted & _is_stable(self.values[start : row + 1]), start, row)
        if len(firing) > LAST:
            self._look_whether_back(row, firing, far)
        if np.any(self.is_open):
            last = self.values[max(row + 1 - MIN_HEALTHY_RUNS, 0) : row + 1]
            is_nearer = np.abs(last - self.normal) < np.abs(last - self.level)
            self._leave(
                self.is_open & (row - self.origin >= MIN_HEALTHY_RUNS) & is_nearer.all(axis=0), row
            )

    def _look_whether_back(self, row: int, firing: Flags, far: Flags) -> None:
        """Begin a level with the last runs where they are nearer to normal than to the fault.

        Where the alert has ended meanwhile they must be ``far`` from normal: else the fault has
        healed.
        """
        in_alarm = LAST - self.healed
        has_ended = (self.healed > 0) & (in_alarm >= 0)
        still_fires = (self.healed == 0) & firing[1:].all(axis=0)
        fired_until = np.take_along_axis(firing, np.clip(in_alarm, 0, LAST)[np.newaxis], axis=0)[0]
        may_be_back = (self.streak > in_alarm) & (still_fires | (has_ended & fired_until & far))
        if not may_be_back.any():
            return
        start = row + 1 - LAST
        last = self.values[start : row + 1]
        of_alarm = np.where(np.arange(LAST)[:, np.newaxis] < in_alarm, last, 0.0).sum(axis=0)
        fault = (self.total - of_alarm) / np.maximum(self.streak - in_alarm, 1)
        is_nearer = np.abs(last - self._find_normal(start)) < np.abs(last - fault)
        self.begin(may_be_back & is_nearer.all(axis=0), start, row)

    def _is_other(self, before: int, level: Floats) -> Flags:
        """Whether a level is another one than that of the healthy runs before it."""
        healthy = self._taught()[:before]
        normal = find_median(healthy)
        is_other: Flags = np.abs(level - normal) > MOVED * find_scale(healthy) + ROUNDING * np.abs(
            normal
        )
        return is_other

    def begin(self, where: Flags, start: int, row: int, *, is_accepted: bool = False) -> None:
        """A level begins at ``start``: runs before it count as though they had been there."""
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        has_moved = self._is_other(start, find_mean(self.values[start : row + 1]))
        self.teaches |= where & (rows >= start) & (rows <= row) & ~np.isnan(self.values)
        normal, level = self._find_normal(start), find_mean(self.values[start : row + 1])
        self.values += np.where(where & (rows < start), np.nan_to_num(level - normal), 0.0)
        self.has_moved = np.where(where, has_moved, self.has_moved)
        self.normal, self.level = (
            np.where(where, normal, self.normal),
            np.where(where, level, self.level),
        )
        self.origin, self.streak = (
            np.where(where, start, self.origin),
            np.where(where, 0, self.streak),
        )
        self.total, self.is_open = (
            np.where(where, 0.0, self.total),
            np.where(where, not is_accepted, self.is_open),
        )

    def _leave(self, where: Flags, row: int) -> None:
        """The series is back where it was before a level that nobody has accepted."""
        if not where.any():
            return
        rows = np.arange(len(self.values))[:, np.newaxis]
        self.values -= np.where(
            where & (rows < self.origin), np.nan_to_num(self.level - self.normal), 0.0
        )
        self.teaches &= ~(where & (rows >= self.origin) & (rows <= row - MIN_HEALTHY_RUNS))
        self.origin, self.is_open = np.where(where, -1, self.origin), self.is_open & ~where

    def _find_normal(self, before: int) -> Floats:
        return find_median(self._taught()[:before])

    def _taught(self) -> Floats:
        return np.where(self.teaches, self.values, np.nan)

    def finish(self, seen: Floats) -> Levels:
        """Once a level is as long as one that settles its own runs alone say what is normal."""
        is_old = np.arange(len(self.values))[:, np.newaxis] < self.origin
        new, old = (
            np.where(self.teaches & part, self.values, np.nan) for part in (~is_old, is_old)
        )
        runs = np.where(self.origin >= 0, np.sum(~np.isnan(new), axis=0), 0)
        is_short = (runs > 0) & (runs < self.enough)
        shift = np.nan_to_num(self.values - seen + is_old * (find_mean(new) - find_mean(old)))
        return Levels(
            shift=shift,
            teaches=self.teaches & (~is_old | is_short),
            since=np.where(self.is_open, self.origin, -1),
            has_moved=self.has_moved,
            doubt=is_short / np.maximum(runs, 1),
        )


def _is_stable(window: Floats) -> Flags:
    """Whether the first and the last runs of the window, (runs, m), agree."""
    half = len(window) // 2
    halves = window[:half], window[-half:]
    first, last = map(find_mean, halves)
    squares = sum(
        np.nansum((part - mean) ** 2, axis=0)
        for part, mean in zip(halves, (first, last), strict=True)
    )
    error = np.sqrt(squares / (half - 1) / half)
    stable: Flags = np.abs(last - first) <= AGREE * error + ROUNDING * np.maximum(
        1.0, np.abs(first)
    )
    return stable
