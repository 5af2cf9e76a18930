"""What a gate is asked, checked against the configuration before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.errors import ConfigError, InputError
from monitor.metrics import Metric, Need, parse
from monitor.model import ALL, Comparison, NoiseFloor, parse_derived
from monitor.service.gating.quantity import Quantity, from_value, over_floor

EACH = "each"
"""In place of a segment's name: every segment but ``all``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Is the mean excess of this metric below ``margin``, which is in the metric's own units? See `put`."""

    comparison: Comparison
    metric: Metric
    margin: float
    alpha: float
    segments: tuple[str, ...] = (ALL,)
    since: datetime | None = None
    reference: float | None = None

    @property
    def is_census(self) -> bool:
        """Whether every run asks everybody, so that no user is drawn and the same ones come back."""
        return self.comparison.sample is None


def put(  # noqa: PLR0913 - the words of the command
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
    """The question, by default about the first metric. ConfigError or InputError for one that can have no answer."""
    if name not in comparisons:
        msg = f"no comparison named {name!r}: the configuration has {', '.join(comparisons)}"
        raise ConfigError(msg)
    comparison = comparisons[name]
    _require_answerable(comparison)
    if not 0 < alpha < 1:
        msg = f"alpha {alpha:g} is no error rate: write one between 0 and 1, such as 0.01"
        raise InputError(msg)
    question = Question(
        comparison=comparison,
        metric=_choose(comparison, metric),
        margin=margin,
        alpha=alpha,
        segments=tuple(dict.fromkeys(segments)) or (ALL,),
        since=since,
        reference=reference,
    )
    choose_quantity(question).scale.margin(margin)
    _require_floor_of_rotating(question)
    return question


def choose_quantity(question: Question) -> Quantity:
    """The excess over the noise floor where there is one and no reference was given, else the distance from a value.

    Measures of relevance have no floor.
    """
    metric, k = question.metric, question.comparison.k
    if _has_floor(question):
        return over_floor(metric, k)
    return from_value(metric, k, question.reference)


def _has_floor(question: Question) -> bool:
    is_wanted = question.comparison.noise_floor is not None and question.reference is None
    return is_wanted and question.metric.need is not Need.RELEVANCE


def _require_answerable(comparison: Comparison) -> None:
    if not comparison.keep_scores:
        msg = f"{comparison.name} keeps no scores of its users, and the gate is about users: set keep_scores: true"
        raise ConfigError(msg)
    if comparison.sample is not None and not comparison.sample.rotating:
        msg = (
            f"{comparison.name} asks the same {comparison.sample.fixed:,} users in each run, and these carry no promise about "
            "others: set users.sample to {fixed: 1000, rotating: 1000} or the like"
        )
        raise ConfigError(msg)


def _require_floor_of_rotating(question: Question) -> None:
    is_temporal = question.comparison.noise_floor is NoiseFloor.TEMPORAL
    if is_temporal and _has_floor(question) and not question.is_census:
        msg = (
            "noise_floor: {temporal: true} knows the last lists of users who were asked before, and rotating ones were not: "
            "take {serve: true} or {retrain: SOURCE}, or say by --reference VALUE what counts as no excess"
        )
        raise ConfigError(msg)


def _choose(comparison: Comparison, metric: str | None) -> Metric:
    if metric is not None and (series := parse_derived(metric.strip()))[0] is not None:
        msg = (
            f"{metric} is a series, and the gate takes the metric itself, {series[1]}: where there is a noise floor, it judges "
        )
        msg += "the excess over it"
        raise InputError(msg)
    wanted = parse(comparison.metrics[0] if metric is None else metric)
    if str(wanted) not in comparison.metrics:
        msg = f"{comparison.name} does not measure {wanted}: it has {', '.join(comparison.metrics)}"
        raise InputError(msg)
    return wanted
