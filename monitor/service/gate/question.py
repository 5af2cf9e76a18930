"""The question that a gate answers, checked before anything is read, and the excess that is held against its margin."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from monitor.errors import ConfigError, InputError
from monitor.metrics import Metric, Need, parse
from monitor.model.arrays import Floats
from monitor.model.comparison import Comparison, Keep
from monitor.model.rankings import ALL
from monitor.model.statistics import DerivedMetric, NoiseFloor, parse_derived
from monitor.sequential.gate import Scale, require_level
from monitor.service.runner import pick_comparison

EACH = "each"
"""In place of a segment's name: every segment but ``all``."""


class Yardstick(StrEnum):
    """What candidate and baseline are held against."""

    NOISE_FLOOR = "noise_floor"
    IDENTICAL = "identical"
    REFERENCE = "reference"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """A per-user excess in the metric's own units.

    Above 0 the candidate is farther from the baseline than it should be.
    """

    yardstick: Yardstick
    series: str  # name under which the scores are stored
    scale: Scale  # the range of the excess
    reference: float | None = (
        None  # score that is no excess; None under a noise floor, where scores are the excess
    )
    sign: float = 1.0

    def of(self, scores: Floats) -> Floats:
        """The users' excess from their stored scores; NaN stays."""
        return scores if self.reference is None else self.sign * (self.reference - scores)

    def __str__(self) -> str:
        if self.yardstick is Yardstick.NOISE_FLOOR:
            return (
                f"{self.series}: how much farther the candidate is from the baseline than the "
                "baseline from itself"
            )
        of = "identical lists" if self.yardstick is Yardstick.IDENTICAL else "the given reference"
        return (
            f"{self.series}: how far it is from {self.reference:g}, that of {of}; the "
            "baseline's own noise is NOT taken off"
        )


def over_floor(metric: Metric, k: int) -> Excess:
    """The excess over the noise floor: its range is as wide as the metric's on either side of 0."""
    low, high = _bounds(metric, k)
    return Excess(
        yardstick=Yardstick.NOISE_FLOOR,
        series=DerivedMetric.OVER_FLOOR.of(str(metric)),
        scale=Scale(low - high, high - low),
    )


def from_value(metric: Metric, k: int, reference: float | None) -> Excess:
    """The distance from a given score, else from that of identical lists.

    InputError where there is no such score.
    """
    low, high = _bounds(metric, k)
    if reference is not None and math.isnan(reference):
        raise InputError(
            f"reference nan is no score: write one that {metric} can have, {low:g} to {high:g}"
        )
    zero = metric.identical if reference is None else reference
    if zero is None or math.isnan(zero):
        raise InputError(
            (
                f"{metric} has no one value on identical lists: give with --reference VALUE what "
                "counts as no excess"
            )
        )
    if not low <= zero <= high:
        raise InputError(
            f"reference {zero:g} lies outside of what {metric} can be, {low:g} to {high:g}"
        )
    sign = 1.0 if metric.higher_is_more_alike else -1.0
    ends = sorted((sign * (zero - low), sign * (zero - high)))
    yardstick = Yardstick.IDENTICAL if reference is None else Yardstick.REFERENCE
    return Excess(
        yardstick=yardstick, series=str(metric), scale=Scale(*ends), reference=zero, sign=sign
    )


def _bounds(metric: Metric, k: int) -> tuple[float, float]:
    low, high = metric.bounds(k)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(
            (
                f"{metric} has no finite range, and without one no bet holds: choose a measure "
                "that is normalized"
            )
        )
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Is the mean excess of this metric below ``margin``, which is in the metric's own units? See `make_question`."""

    comparison: Comparison
    metric: Metric
    margin: float
    alpha: float
    segments: tuple[str, ...] = (ALL,)
    since: datetime | None = None
    reference: float | None = None

    @property
    def is_census(self) -> bool:
        """Whether the same users come back in every run, everybody or a fixed sample, so that nobody is drawn anew."""
        sample = self.comparison.measuring.sample
        return sample is None or not sample.rotating

    @property
    def census(self) -> str:
        """Who comes back, in words."""
        sample = self.comparison.measuring.sample
        return (
            "everybody was asked"
            if sample is None
            else f"the same {sample.fixed:,} users are asked in each run"
        )

    @property
    def needs_panel(self) -> bool:
        """Whether it takes a run's segments to judge it: without a minimum for them everybody stands for all."""
        sample = self.comparison.measuring.sample
        return self.segments != (ALL,) or (sample is not None and sample.minimum > 0)

    @property
    def has_floor(self) -> bool:
        """Whether the excess over the noise floor is judged.

        Measures of relevance have no floor.
        """
        is_wanted = self.comparison.measuring.noise_floor is not None and self.reference is None
        return is_wanted and self.metric.need is not Need.RELEVANCE

    @property
    def excess(self) -> Excess:
        """The excess over the noise floor where there is one and no reference was given, else the distance from a value."""
        if self.has_floor:
            return over_floor(self.metric, self.comparison.measuring.k)
        return from_value(self.metric, self.comparison.measuring.k, self.reference)


def make_question(  # noqa: PLR0913 - the words of the command
    comparisons: Mapping[str, Comparison],
    name: str,
    *,
    margin: float,
    alpha: float,
    metric: str | None = None,
    segments: tuple[str, ...] = (),
    since: datetime | None = None,
    reference: float | None = None,
) -> Question:
    """The question, by default about the first metric.

    ConfigError or InputError for one that can have no answer.
    """
    comparison = pick_comparison(comparisons, name)
    if comparison.measuring.keep_scores is not Keep.ALL:
        msg = (
            f"{comparison.name} does not keep the scores of all users, and the gate is about "
            "all: set keep_scores: all"
        )
        raise ConfigError(msg)
    if (size := comparison.measuring.sample) is not None and size.stops_early:
        raise ConfigError(
            (
                f"whom {comparison.name} asks depends on the scores of those before: remove "
                "stop_when: decided"
            )
        )
    require_level(alpha)
    question = Question(
        comparison=comparison,
        metric=_choose(comparison, metric),
        margin=margin,
        alpha=alpha,
        segments=tuple(dict.fromkeys(segments)) or (ALL,),
        since=since,
        reference=reference,
    )
    question.excess.scale.margin(margin)  # raises for a margin that the metric cannot have
    is_temporal = comparison.measuring.noise_floor is NoiseFloor.TEMPORAL
    if is_temporal and question.has_floor and not question.is_census:
        msg = (
            "noise_floor: {temporal: true} knows the last lists of users who were asked before, "
            "and rotating ones were not: take {serve: true} or {retrain: SOURCE}, or give with "
            "--reference VALUE what counts as no excess"
        )
        raise ConfigError(msg)
    return question


def _choose(comparison: Comparison, metric: str | None) -> Metric:
    if metric is not None and (series := parse_derived(metric.strip()))[0] is not None:
        msg = (
            f"{metric} is a series, and the gate takes the metric itself, {series[1]}: where there "
            "is a noise floor, it judges the excess over it"
        )
        raise InputError(msg)
    wanted = parse(comparison.measuring.metrics[0] if metric is None else metric)
    if str(wanted) not in comparison.measuring.metrics:
        raise InputError(
            (
                f"{comparison.name} does not measure {wanted}: it has "
                f"{', '.join(comparison.measuring.metrics)}"
            )
        )
    return wanted
