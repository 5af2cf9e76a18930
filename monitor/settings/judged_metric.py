"""What a rule's metric is: a measured one, or what the noise floor adds to it; its range and the side of drift."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.errors import MetricError
from monitor.metrics import Metric, parse
from monitor.model import DerivedMetric, Direction, parse_derived


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMetric:
    """What is judged: the metric, and what of it where that is not the scores themselves."""

    metric: Metric
    derived: DerivedMetric | None = None

    def __str__(self) -> str:
        return str(self.metric) if self.derived is None else self.derived.of(str(self.metric))

    @property
    def is_excess(self) -> bool:
        """Whether it tells how much farther the candidate is, and not how alike."""
        return self.derived is DerivedMetric.OVER_FLOOR

    @property
    def drifts(self) -> Direction:
        """Where it goes as lists drift apart."""
        grows = self.is_excess or not self.metric.higher_is_more_alike
        return Direction.ABOVE if grows else Direction.BELOW

    def bounds(self, k: int | None) -> tuple[float, float]:
        """Lowest and highest possible value, of lists of at most k items where k is known."""
        low, high = (self.metric.low, self.metric.high) if k is None else self.metric.bounds(k)
        return (low - high, high - low) if self.is_excess else (low, high)


def parse_judged_metric(text: str) -> JudgedMetric:
    """What a name stands for: ``rbo(p=0.9)``, ``floor(rbo(p=0.9))``, ``over_floor(rbo)``. MetricError for an unknown one."""
    derived, name = parse_derived(text.strip())
    return JudgedMetric(metric=parse(name), derived=derived)


def find_judged_metric(text: object) -> JudgedMetric | None:
    """What the name stands for, None where it stands for nothing."""
    try:
        return parse_judged_metric(text) if isinstance(text, str) else None
    except MetricError:
        return None
