"""Builds metric families from the series table; knows nothing of what the values mean."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from monitor.export.series import SERIES, Kind, Series
from monitor.redaction import escape_controls

LabelValues = tuple[str, ...]
SampleKey = tuple[str, LabelValues]
"""A series and its labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How many lie at or below each upper bound, the last of which is ``+Inf``, and the sum over all."""

    buckets: tuple[tuple[str, float], ...]
    total: float


class Gauges:
    """Samples gathered by series. A sample given twice is shown once, with the later value."""

    def __init__(self) -> None:
        self._samples: dict[str, dict[LabelValues, float]] = {}
        self._distributions: dict[str, dict[LabelValues, Distribution]] = {}

    @property
    def samples(self) -> Mapping[str, Mapping[LabelValues, float]]:
        """What was set, by series and labels."""
        return self._samples

    def set(self, name: str, labels: LabelValues, value: float | None) -> None:
        """Set one sample of the series with that name (without prefix); None means there is nothing to show."""
        if value is not None:
            self._samples.setdefault(name, {})[labels] = float(value)

    def replace(self, name: str, samples: Mapping[LabelValues, float]) -> None:
        """Make these the samples of the series, in place of those it had."""
        self._samples[name] = dict(samples)

    def distribute(self, name: str, labels: LabelValues, distribution: Distribution) -> None:
        """Set one gauge histogram of the series with that name."""
        self._distributions.setdefault(name, {})[labels] = distribution

    def families(self, left_out: Container[SampleKey] = ()) -> tuple[Metric, ...]:
        """The families with at least one sample, in the table's order, without the samples that are left out."""
        shown: dict[str, dict[LabelValues, float | Distribution]] = {name: {} for name in SERIES}
        for name, distributions in self._distributions.items():
            shown[name] |= distributions
        for name, samples in self._samples.items():
            shown[name] |= {labels: value for labels, value in samples.items() if (name, labels) not in left_out}
        return tuple(_family(SERIES[name], samples) for name, samples in shown.items() if samples)


def _family(series: Series, samples: Mapping[LabelValues, float | Distribution]) -> Metric:
    distributions = GaugeHistogramMetricFamily(series.name, series.help, labels=series.labels)
    gauge = GaugeMetricFamily(series.name, series.help, labels=series.labels, unit=series.unit)
    for labels, value in samples.items():
        if len(labels) != len(series.labels):
            msg = f"{series.name} has the labels {series.labels}, got {len(labels)} values"
            raise ValueError(msg)
        written = [_written(each) for each in labels]
        if isinstance(value, Distribution):
            distributions.add_metric(written, list(value.buckets), value.total)
        else:
            gauge.add_metric(written, value)
    return distributions if series.kind is Kind.GAUGE_HISTOGRAM else gauge


# What `visible` writes in place of a character.
_SPELLED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[tr])")


def _written(value: str) -> str:
    """The label's value without what could steer a terminal."""
    if escape_controls(value) == value and not _SPELLED.search(value):
        return value
    # No two values become one, which would make two series one.
    return escape_controls(value.replace("\\", r"\\"))


def counted(name: str) -> Counter | Histogram:
    """An unregistered counter or histogram of the table."""
    series = SERIES[name]
    if series.kind is Kind.COUNTER:
        return Counter(series.name, series.help, series.labels, registry=None, unit=series.unit)
    return Histogram(series.name, series.help, series.labels, registry=None, unit=series.unit, buckets=series.buckets)
