"""What a gate is asked, checked against the configuration before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.errors import ConfigError, InputError
from monitor.metrics import Metric, parse
from monitor.model import ALL, Comparison

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
    return Question(
        comparison=comparison,
        metric=_choose(comparison, metric),
        margin=margin,
        alpha=alpha,
        segments=tuple(dict.fromkeys(segments)) or (ALL,),
        since=since,
        reference=reference,
    )


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


def _choose(comparison: Comparison, metric: str | None) -> Metric:
    wanted = parse(comparison.metrics[0] if metric is None else metric)
    if str(wanted) not in comparison.metrics:
        msg = f"{comparison.name} does not measure {wanted}: it has {', '.join(comparison.metrics)}"
        raise InputError(msg)
    return wanted
