"""What a process that ends may tell of: where things stand, and nothing that it counted. Pure.

A counter would begin at 0 with every process, and a gauge of a daemon would be read long after there was one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from monitor.export.series import SERIES, Kind

_COUNTED = (Kind.COUNTER, Kind.HISTOGRAM)
OF_DAEMONS = frozenset({
    "leader", "lease_epoch", "database_up", "config_last_reload_successful", "config_last_reload_success_timestamp_seconds",
    "database_size_bytes", "prune_last_success_timestamp_seconds",
})  # fmt: skip
"""Gauges of a process that goes on."""
STANDING = frozenset(SERIES[name].name for name in SERIES if SERIES[name].kind not in _COUNTED and name not in OF_DAEMONS)
"""Full names of the series that a process that ends leaves behind."""


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def standing(families: Iterable[Metric]) -> tuple[Metric, ...]:
    """Those of the families that a process that ends leaves behind."""
    return tuple(family for family in families if _name_of(family) in STANDING)


def of_comparison(families: Iterable[Metric], comparison: str | None) -> tuple[Metric, ...]:
    """What the families say of one comparison; for None, what they say of none in particular."""
    kept = ((family, [one for one in family.samples if one.labels.get("comparison") == comparison]) for family in families)
    return tuple(_with(family, samples) for family, samples in kept if samples)


def write(families: Iterable[Metric]) -> bytes:
    """The families in Prometheus' text format, without timestamps.

    A gauge histogram has `_sum` and `_count` too: node_exporter and Pushgateway take it for a histogram, and would show 0.
    """
    return generate_latest(_Families([_counted(family) for family in families]))


def _name_of(family: Metric) -> str:
    return f"{family.name}_info" if family.type == Kind.INFO else family.name


def _with(family: Metric, samples: Sequence[Sample]) -> Metric:
    """A copy with other samples: a family may be shown elsewhere at the same time."""
    copy = Metric(family.name, family.documentation, family.type, family.unit)
    copy.samples = list(samples)
    return copy


def _counted(family: Metric) -> Metric:
    if family.type != Kind.GAUGE_HISTOGRAM:
        return family
    ends = {f"{family.name}_gsum": f"{family.name}_sum", f"{family.name}_gcount": f"{family.name}_count"}
    more = [one._replace(name=ends[one.name]) for one in family.samples if one.name in ends]
    return _with(family, [*family.samples, *more])
