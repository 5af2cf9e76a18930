"""From the options of a rule to the rule, and the metric that it judges with its range and the side of drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monitor.metrics import Metric, parse
from monitor.model import (
    CoverageRule,
    CoverageShare,
    DerivedMetric,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    Limit,
    Rule,
    SimilarityRule,
    StandstillRule,
    Statistic,
    parse_derived,
)
from monitor.settings.rule_options import RuleOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMetric:
    """What a rule judges: a metric's scores, or what the noise floor derives from them."""

    metric: Metric
    derived: DerivedMetric | None = None

    def __str__(self) -> str:
        return str(self.metric) if self.derived is None else self.derived.of(str(self.metric))

    @property
    def drifts(self) -> Direction:
        """The side to which it moves as lists drift apart."""
        grows = self.derived is DerivedMetric.OVER_FLOOR or not self.metric.higher_is_more_alike
        return Direction.ABOVE if grows else Direction.BELOW

    def bounds(self, k: int | None) -> tuple[float, float]:
        """Lowest and highest possible value, of lists of at most k items where k is known."""
        low, high = (self.metric.low, self.metric.high) if k is None else self.metric.bounds(k)
        return (low - high, high - low) if self.derived is DerivedMetric.OVER_FLOOR else (low, high)


def parse_judged_metric(text: str) -> JudgedMetric:
    """What a name stands for: ``rbo(p=0.9)``, ``floor(rbo(p=0.9))``, ``over_floor(rbo)``. MetricError for an unknown one."""
    derived, name = parse_derived(text.strip())
    return JudgedMetric(metric=parse(name), derived=derived)


def to_rule(options: RuleOptions, k: int) -> Rule:
    """One rule on lists of at most k items, with its side, threshold and point of recovery made explicit."""
    common: dict[str, Any] = {
        "alert": options.alert,
        "segments": options.segments,
        "for_runs": options.for_runs,
        "resolve_after": options.resolve_after,
        "min_users": options.min_users,
        "severity": options.severity,
        "runbook_url": options.runbook_url,
        "labels": dict(options.labels),
    }
    if options.frozen is not None:
        return StandstillRule(arm=options.frozen, **common)
    if options.metric is None:
        return CoverageRule(share=CoverageShare.parse(options.coverage or ""), limit=_limit(options), **common)
    metric = options.metric if options.over_floor is None else DerivedMetric.OVER_FLOOR.of(options.metric)
    return SimilarityRule(
        metric=metric,
        statistic=Statistic.parse(options.statistic),
        limit=_limit(options),
        scores=parse_judged_metric(metric).bounds(k),
        **common,
    )


def _limit(options: RuleOptions) -> Limit:
    """The limit that is learned, or the side in breach, the threshold there, and where it resolves."""
    if options.learned is not None:
        direction, last = _watched(options)
        learning = Learning.TREND if options.learned == "trend" else Learning.DROP
        return LearnedLimit(learning=learning, direction=direction, value=last)
    if options.below is not None:
        end = options.below if options.resolve_above is None else options.resolve_above
        return FixedLimit(direction=Direction.BELOW, value=options.below, resolve_at=end)
    above = (options.above if options.over_floor is None else options.over_floor) or 0.0
    end = above if options.resolve_below is None else options.resolve_below
    return FixedLimit(direction=Direction.ABOVE, value=above, resolve_at=end)


def _watched(options: RuleOptions) -> tuple[Direction, float]:
    """The side that a rule that learns watches, and the value that the statistic never passes there."""
    if options.coverage is not None:
        return (Direction.ABOVE, 1.0) if options.watch == "drift" else (Direction.BELOW, 0.0)
    quantity, floor = parse_judged_metric(options.metric or ""), Statistic.parse(options.statistic).floor
    is_above = (quantity.drifts is Direction.ABOVE) ^ (floor is not None) ^ (options.watch == "improvement")
    low, high = (0.0, 1.0) if floor is not None else quantity.bounds(None)
    return (Direction.ABOVE, high) if is_above else (Direction.BELOW, low)
