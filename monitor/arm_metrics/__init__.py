"""Measures of what one arm lists to all users together, each an `ArmMetric` by name: how much, how evenly, how new.

What is measured pair by pair lives in `monitor.metrics`.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from monitor.arm_metrics.measures import MEASURES, ArmMetric, ArmNeed, LastLists, measure_arms
from monitor.errors import MetricError

ARM_METRICS: Mapping[str, ArmMetric] = {metric.name: metric for metric in MEASURES}


def parse_arm_metric(text: object) -> ArmMetric:
    """The arm-wide metric of that name; MetricError, with a suggestion, where there is none."""
    name = text.strip() if isinstance(text, str) else ""
    if name in ARM_METRICS:
        return ARM_METRICS[name]
    near = get_close_matches(name.lower(), ARM_METRICS, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(ARM_METRICS)}"
    msg = f"unknown arm-wide metric {text!r}; {known}"
    raise MetricError(msg)
