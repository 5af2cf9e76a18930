"""Effects of the weekday or of the hour on a series, removed where they show, and evidence, run by run, that it drifts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.model.arrays import Flags, Floats, Integers
from monitor.reference.history import FAR_OUT, find_median, find_scale, pull_in

LEAST_IN_PHASE = 3
"""Recurrences that every phase needs before a season is looked for: three weeks of days, three days of hours."""
RECURRING = 2
"""Recurrences in a row that a phase has to be far out in, the first time in alarm, for these to be a season and no faults."""
# Part of the squared leave-one-out error that the season has to take away; chance alone seldom
# takes so much.
LEAST_GAIN = 0.15
DOUBTED = 8
"""Runs of a phase from which on it is believed, more than not, that these vary more than others."""

PRIOR_RUNS = 10.0
PRIOR_CORRELATION = 0.2
"""As long as the history is short, neighbouring runs are taken to correlate by 0.2, with the weight of 10 runs."""
# Standard errors that are added for each power of ten of the chance of a false alarm, one for a
# chance of 1 in 1,000. Without them runs that correlate by 0.6 raise false trends to six times
# their number. Of many series the worst guess counts.
CORRELATION_CAUTION = 1 / 3
# With more, hardly anything can be learned about a trend.
MOST_CORRELATION = 0.95
DRIFTS = (0.5, 1.0, 1.5, 2.5)
"""Sizes of a lasting shift, in standard deviations of a healthy run, that the evidence is gathered for."""
MOST_Z = 3.5
"""One run counts for no more: a single bad run is a drop and no trend.

Capping z from above only lowers the evidence.
"""
MOST_EVIDENCE = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """Where runs stand in a cycle, such as the weekday 0 to 6: ``past`` (runs,) of the history, ``now`` of the next run."""

    past: npt.NDArray[np.intp]
    now: int
    under_way: int = 0
    """Newest runs in the same recurrence as the next one, such as the runs of today.

    They teach no season.
    """
    is_known_at_once: bool = False
    """Whether a recurrence in alarm from its first run to its last one is a season: of weekdays, as a week is long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seasonal:
    """Values as though all runs stood where the next one does, and what that took from them, (m,) each."""

    values: Floats  # (runs, m)
    paid: Floats  # part of the degrees of freedom that went into the effects, under a third a cycle
    doubt: (
        Floats  # variance of the effect of the next run's phase as a multiple of that between runs,
    )
    unrest: Floats  # and that of runs of this phase


def remove_seasons(
    values: Floats, phases: Sequence[Phases], alarms: Flags | None = None
) -> Seasonal:
    """Remove one cycle after another from (runs, m) values, NaN for none, those of runs in ``alarms`` included.

    A season is learned from finished recurrences only. Runs in alarm count once their phase was in alarm, or as far out, in
    RECURRING recurrences in a row, or in one whole recurrence that `is_known_at_once`. A fault that heals is no season.
    """
    alarms = np.zeros(values.shape, dtype=np.bool_) if alarms is None else alarms
    found = _without_season(values)
    for cycle in phases if len(values) else ():
        one = _remove(found.values, cycle, alarms)
        paid, doubt = found.paid + one.paid, found.doubt + one.doubt
        found = Seasonal(
            values=one.values, paid=paid, doubt=doubt, unrest=np.maximum(found.unrest, one.unrest)
        )
    return found


def _remove(values: Floats, phases: Phases, alarms: Flags) -> Seasonal:
    """Shrunk means of the phases (James and Stein 1961), far-out values pulled in.

    Only of series in which they show.

    Of n runs a mean keeps B = T / (T + W / n) of its distance from the overall mean, T and W the
    variances between and within phases, which costs about the sum of the B degrees of freedom.
    """
    runs = len(values) - phases.under_way
    if runs == 0:
        return _without_season(values)
    past = phases.past[:runs]
    names, rows = np.unique(past, return_inverse=True)
    member = (rows[:, np.newaxis] == np.arange(len(names))).astype(np.float64)
    # Runs of one day are one recurrence of its weekday.
    blocks = np.flatnonzero(np.diff(past, prepend=-1))
    patterns = _find_patterns(values, phases, rows, blocks, alarms)
    finished = np.where(patterns.outdated, np.nan, values[:runs])
    learned = np.where(patterns.faults, np.nan, finished)
    # By phase, since a weekend is no outlier of a week.
    middle = np.array([find_median(learned[rows == phase]) for phase in range(len(names))])[rows]
    deviations = pull_in(learned, middle)
    counts, means = _average(member, deviations)
    kept = _shrink(deviations, counts, means)
    seen = _average(member[blocks], np.where(_any_of(~np.isnan(deviations), blocks), 0.0, np.nan))[
        0
    ]
    shows = _is_enough(seen, patterns.least, names == phases.now) & _falls(
        member, deviations, (counts, means, kept)
    )
    effects = np.where(shows, kept * means, 0.0)
    here = int(np.argmax(names == phases.now))  # where the phase was never seen nothing shows
    echo = np.where(shows & ~patterns.is_new, np.nan, patterns.echo)
    moved = values.copy()  # runs under way stand where the next one does
    moved[:runs] = (
        finished
        - member @ effects
        + effects[here]
        + np.nan_to_num(echo - effects[here]) * ~patterns.stays
    )
    return Seasonal(
        values=moved,
        paid=np.where(
            shows,
            kept.sum(axis=0) * (1.0 - 1.0 / len(names)) / np.maximum(counts.sum(axis=0), 1),
            0.0,
        ),
        doubt=np.where(
            np.isnan(echo), np.where(shows, kept[here] / np.maximum(counts[here], 1), 0.0), 1.0
        ),
        unrest=np.where(shows, _measure_unrest(member, learned - middle, here), 1.0),
    )


def _without_season(values: Floats) -> Seasonal:
    none = np.zeros(values.shape[1])
    return Seasonal(values=values, paid=none, doubt=none, unrest=none + 1.0)


def _measure_unrest(member: Floats, residuals: Floats, here: int) -> Floats:
    """How many times as much runs of the phase vary as those of most phases do, at least 1.

    Of few runs it is doubted.
    """
    counts, sizes = _average(member, np.abs(residuals))
    usual = find_median(np.where(counts > 0, sizes, np.nan))
    ratio = (sizes[here] / np.where(usual > 0, usual, np.inf)) ** 2
    unrest: Floats = np.fmax((counts[here] * ratio + DOUBTED) / (counts[here] + DOUBTED), 1.0)
    return unrest


def _any_of(flags: Flags, blocks: Integers) -> Flags:
    """Whether any run of each block has the flag, (blocks, m).

    ``blocks`` are the rows that they begin with.
    """
    found: Flags = np.logical_or.reduceat(flags, blocks, axis=0)
    return found


def _find_lasting(alarms: Flags, cycle: float) -> Flags:
    """The runs, (runs, m), of alarms that go on still or lasted for a whole cycle of so many runs."""
    length, lasting = alarms.astype(np.intp), alarms.copy()
    for row in range(1, len(alarms)):
        length[row] += length[row - 1] * alarms[row]
    for row in range(len(alarms) - 2, -1, -1):
        lasting[row] &= (length[row] >= cycle) | (lasting[row + 1] & alarms[row + 1])
    return lasting


@dataclass(frozen=True, slots=True, kw_only=True)
class _Patterns:
    """What alarms say of the seasons of m series, of the finished runs."""

    faults: Flags  # (runs, m), runs in alarm that belong to no pattern
    outdated: Flags  # (runs, m), runs of a phase from before its pattern
    least: Integers  # (m,), recurrences that each phase needs
    # (m,), how far out the next run's phase is expected by its pattern alone, NaN without one
    echo: Floats
    # (m,), the phase was ill only in its last recurrence: the pattern counts for more than the
    # season
    is_new: Flags
    stays: Flags  # (runs, m), runs of that pattern: they lie there already


def _find_patterns(
    values: Floats, phases: Phases, rows: Integers, blocks: Integers, alarms: Flags
) -> _Patterns:
    """Look for phases that were far out again and again.

    ``rows``: phases by number, ``blocks``: where recurrences begin.
    """
    runs, series = len(rows), values.shape[1]
    faults, outdated, stays = (np.zeros((runs, series), dtype=np.bool_) for _ in range(3))
    least, echo, is_new = (
        np.full(series, LEAST_IN_PHASE),
        np.full(series, np.nan),
        np.zeros(series, dtype=np.bool_),
    )
    if (alarmed := np.flatnonzero(alarms.any(axis=0))).size:
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
        mine = np.flatnonzero(phases.past[blocks] == phases.now)
        if mine.size:
            echo[alarmed] = np.where(recurs[mine[-1]], distances[mine[-1]], np.nan)
            is_new[alarmed] = ~ill[mine[-2:][0]]
            stays[:, alarmed] = in_pattern & (phases.past[:runs] == phases.now)[:, np.newaxis]
    return _Patterns(
        faults=faults, outdated=outdated, least=least, echo=echo, is_new=is_new, stays=stays
    )


def _find_ill(
    values: Floats, rows: Integers, blocks: Integers, alarms: Flags, lasting: Flags
) -> tuple[Flags, Floats]:
    """Which blocks are in alarm, or as far out as the one in alarm of their phase before, and how far out, (blocks, m) each.

    NaN where the mean of the block is not far from what it is in runs without alarm.
    """
    calm = np.where(alarms, np.nan, values)
    counts = np.add.reduceat(~np.isnan(values), blocks, dtype=np.intp)
    distances = np.add.reduceat(np.nan_to_num(values), blocks) / np.where(
        counts > 0, counts, np.nan
    ) - find_median(calm)
    far = np.where(np.abs(distances) > FAR_OUT * find_scale(calm), distances, np.nan)
    ill, newest = _any_of(alarms & ~lasting, blocks), dict[int, int]()
    for block, phase in enumerate(rows[blocks].tolist()):
        before = newest.get(phase, block)
        ill[block] |= ill[before] & (
            np.abs(distances[block] - far[before]) < np.abs(distances[block])
        )
        newest[phase] = block
    return ill, far


def _find_recurring(rows: Integers, blocks: Integers, ill: Flags) -> tuple[Flags, Flags]:
    """Runs of a phase, (runs, m), from before RECURRING blocks in a row that are ill, and these blocks, (blocks, m)."""
    outdated, found = (
        np.zeros((len(rows), ill.shape[1]), dtype=np.bool_),
        np.zeros(ill.shape, dtype=np.bool_),
    )
    for phase in np.unique(rows[blocks[ill.any(axis=1)]]):
        mine = np.flatnonzero(rows[blocks] == phase)
        for first in range(len(mine) + 1 - RECURRING):
            in_a_row = mine[first : first + RECURRING]
            recurs, start = ill[in_a_row].all(axis=0), blocks[mine[first]]
            outdated[:start] |= recurs & (rows[:start, np.newaxis] == phase)
            found[in_a_row] |= recurs
    return outdated, found


def _average(member: Floats, deviations: Floats) -> tuple[Floats, Floats]:
    """Counts and means by phase, (phases, m)."""
    counts = member.T @ ~np.isnan(deviations)
    return counts, (member.T @ np.nan_to_num(deviations)) / np.maximum(counts, 1)


def _shrink(deviations: Floats, counts: Floats, means: Floats) -> Floats:
    """The part B of each phase's effect that is kept, (phases, m), from a one-way analysis of variance."""
    total, phases = counts.sum(axis=0), np.sum(counts > 0, axis=0)
    squares = (counts * means**2).sum(axis=0)
    within = (np.nansum(deviations**2, axis=0) - squares) / np.maximum(total - phases, 1)
    typical = (total - (counts**2).sum(axis=0) / np.maximum(total, 1)) / np.maximum(phases - 1, 1)
    between = np.maximum(squares / np.maximum(phases - 1, 1) - within, 0.0) / np.maximum(typical, 1)
    # Rounding may leave a little below 0 where runs of a phase are all alike.
    noise = np.maximum(within, 0.0) / np.maximum(counts, 1)
    kept: Floats = between / np.where(between + noise > 0, between + noise, 1.0)
    return kept


def _is_enough(counts: Floats, least: Integers, now: Flags) -> Flags:
    """Whether a series has ``least`` recurrences of every phase that it was seen in, of two or more, and of that of now."""
    seen = counts > 0
    enough: Flags = np.all(~seen | (counts >= least), axis=0) & (seen.sum(axis=0) > 1)
    enough &= np.any(seen[now], axis=0)
    return enough


def _falls(member: Floats, deviations: Floats, effects: tuple[Floats, Floats, Floats]) -> Flags:
    """Whether predicting each run from the others errs less with the season than without, by LEAST_GAIN."""
    counts, means, kept = (member @ each for each in effects)
    total = np.sum(~np.isnan(deviations), axis=0)
    plain = deviations * total / np.maximum(total - 1, 1)
    # Each run is left out of the mean that predicts it: a season must not be credited with fitting
    # itself.
    others = (counts * means - deviations) / np.maximum(counts - 1, 1)
    seasonal = deviations - kept * others
    falls: Flags = np.nansum(seasonal**2, axis=0) < (1.0 - LEAST_GAIN) * np.nansum(plain**2, axis=0)
    return falls


def correlate(values: npt.ArrayLike, chance: npt.ArrayLike = 1e-3) -> Floats:
    """Cautious lag-1 correlation of past runs, (m,), in [0, MOST].

    ``values`` (runs, m) oldest first, NaN where left out.

    The small-sample bias -(1 + 3 r) / n (Kendall 1954) is taken back, short histories lean on
    PRIOR, standard errors are added, the more the smaller the ``chance`` of a false alarm. Negative
    correlation counts as none.
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
    # Too low a correlation costs false pages, too high a one only time.
    correlation: Floats = np.clip(
        leaning - CORRELATION_CAUTION * np.log10(chance) * doubt, 0.0, MOST_CORRELATION
    )
    return correlation


def discount(z: npt.ArrayLike, correlation: npt.ArrayLike) -> Floats:
    """Surprises that may be added up over runs: z sqrt((1 - r) / (1 + r)) for the lag-1 correlation r >= 0.

    Sums of an autoregressive series vary (1 + r) / (1 - r) times as much as sums of independent runs do.
    """
    # An approximation, checked by simulation: no promise as that of `update_evidence` is.
    r = np.asarray(correlation, dtype=np.float64)
    discounted: Floats = np.asarray(z, dtype=np.float64) * np.sqrt((1.0 - r) / (1.0 + r))
    return discounted


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendEvidence:
    """What is stored of m series from run to run, each (len(DRIFTS), m)."""

    mass: Floats  # Shiryaev-Roberts evidence for each size of drift
    # Log-likelihood ratio since its likeliest start (Page 1954), 0 where none is under way
    rise: Floats
    since: Integers  # runs since that start

    @property
    def total(self) -> Floats:
        """Evidence of the mixture over the sizes, (m,): fires at 1 / alpha."""
        weighed: Floats = self.mass.mean(axis=0)
        return weighed


def no_evidence(series: int) -> TrendEvidence:
    """No evidence of m series: before the first run, after a page was dealt with, or with a new reference."""
    empty = np.zeros((len(DRIFTS), series))
    return TrendEvidence(mass=empty, rise=empty, since=np.zeros(empty.shape, dtype=np.intp))


def update_evidence(evidence: TrendEvidence, z: npt.ArrayLike) -> TrendEvidence:
    """Evidence after one more run with surprise ``z`` (m,), large on the side that is watched.

    NaN changes nothing.

    For a drift d: M_t = (1 + M_{t-1}) exp(d z_t - d^2 / 2), the average over the sizes d being the
    evidence; z is capped at MOST_Z. Promise: with healthy z that are independent N(0, 1) (or any
    with E[exp(d z_t) | past] <= exp(d^2 / 2)), firing once the evidence reaches 1 / alpha has an
    average run length (no error rate over a lifetime) of at least 1 / alpha: M_t - t is a
    supermartingale from 0, so 1 / alpha <= E[M_T] <= E[T] (Pollak 1985; Shin, Ramdas and Rinaldo
    2023, e-detectors).
    """
    now = np.minimum(np.asarray(z, dtype=np.float64), MOST_Z)
    drifts = np.array(DRIFTS)[:, np.newaxis]
    step = np.nan_to_num(drifts * now - drifts**2 / 2)
    is_known = ~np.isnan(now)
    mass = np.where(
        is_known, np.minimum((1.0 + evidence.mass) * np.exp(step), MOST_EVIDENCE), evidence.mass
    )
    rise = np.where(is_known, np.maximum(evidence.rise + step, 0.0), evidence.rise)
    # A run without a value belongs to the rise that it stands in.
    since = np.where(rise > 0, evidence.since + 1, 0)
    return TrendEvidence(mass=mass, rise=rise, since=since)


def count_suspects(evidence: TrendEvidence, alpha: npt.ArrayLike) -> Integers:
    """How many of the newest runs to leave out of the reference, (m,), so that a drift is not taken for normal.

    All runs since the likeliest start of a drift whose log-likelihood ratio has reached half of log(1 / alpha), until it is 0.
    """
    best = np.argmax(evidence.rise, axis=0)[np.newaxis]
    rise = np.take_along_axis(evidence.rise, best, axis=0)[0]
    since = np.take_along_axis(evidence.since, best, axis=0)[0]
    return np.where(rise >= -np.log(np.asarray(alpha, dtype=np.float64)) / 2, since, 0)
