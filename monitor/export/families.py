"""Builds metric families from the series table; knows nothing of what the values mean."""

from __future__ import annotations

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.export.series import SERIES


class Gauges:
    """Samples gathered by series. A sample given twice is shown once, with the later value."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[tuple[str, ...], float]] = {}

    def set(self, name: str, labels: tuple[str, ...], value: float | None) -> None:
        """Set one sample of the series with that name (without prefix); None means there is nothing to show."""
        if value is not None:
            self._samples.setdefault(name, {})[labels] = float(value)

    def families(self) -> tuple[Metric, ...]:
        """The families with at least one sample, in the table's order."""
        return tuple(_gauge(name, self._samples[name]) for name in SERIES if name in self._samples)


def _gauge(name: str, samples: dict[tuple[str, ...], float]) -> Metric:
    series = SERIES[name]
    family = GaugeMetricFamily(series.name, series.help, labels=series.labels, unit=series.unit)
    for labels, value in samples.items():
        if len(labels) != len(series.labels):
            msg = f"{series.name} has the labels {series.labels}, got {len(labels)} values"
            raise ValueError(msg)
        family.add_metric(labels, value)
    return family


def counter(name: str) -> Counter:
    """An unregistered counter of the table."""
    series = SERIES[name]
    return Counter(series.name, series.help, series.labels, registry=None, unit=series.unit)


def histogram(name: str) -> Histogram:
    """An unregistered histogram of the table."""
    series = SERIES[name]
    return Histogram(series.name, series.help, series.labels, registry=None, unit=series.unit, buckets=series.buckets)


def without_created(family: Metric) -> Metric:
    """The family without its ``_created`` samples: in the text format they would be gauges of their own."""
    created = f"{family.name}_created"
    family.samples = [sample for sample in family.samples if sample.name != created]
    return family
