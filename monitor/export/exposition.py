"""Families from the series table, and pages joined from pieces that are encoded once and kept until what they show changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from monitor.export.series import SERIES, Kind, Series
from monitor.redaction import escape_controls

Lines = Mapping[str, tuple[tuple[bytes, bytes], ...]]
"""By family: what stands above its samples (``# HELP`` and so on), and their lines. Some formats split a family in several."""

_HEAD = re.compile(rb"(?:^# .*\n)+", re.MULTILINE)
_END = b"# EOF\n"
_MOST_FORMATS = 2
"""In how many formats a piece is kept: Prometheus asks for one, and a person who looks for another."""


LabelValues = tuple[str, ...]
SampleKey = tuple[str, LabelValues]
"""A series and its labels."""
# What `visible` writes in place of a character.
_SPELLED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[tr])")


@dataclass(frozen=True, slots=True)
class Format:
    """One of the formats that Prometheus' client library writes. Two of equal ``key`` write the same."""

    encoder: Callable[[Collector], bytes]
    content_type: str

    @classmethod
    def accepted_by(cls, accept: str) -> Format:
        """The best of those that an Accept header names; plain text where it names none, or makes no sense."""
        try:
            return cls(*choose_encoder(accept))
        except (TypeError, ValueError):  # a version such as "1.x"
            return cls(*choose_encoder(""))

    @property
    def key(self) -> tuple[bool, str]:
        """Whether it is OpenMetrics, and how it escapes names; versions differ in what rankwatch does not show."""
        given = self.encoder.keywords if isinstance(self.encoder, partial) else {}
        return self.is_open_metrics, given.get("escaping", "")

    @property
    def is_open_metrics(self) -> bool:
        """Whether pages end with a mark."""
        return self.content_type.startswith("application/openmetrics-text")

    def encode(self, families: Iterable[Metric]) -> Lines:
        """The families' lines."""
        return {family.name: tuple(_split(self.encoder(FamilyCollector((family,))))) for family in families}

    def page(self, pieces: Iterable[Lines], hidden: Container[str] = ()) -> bytes:
        """One page of all pieces, the lines of each family together, without the ``hidden`` families."""
        joined: dict[bytes, list[bytes]] = {}
        for piece in pieces:
            for name, blocks in piece.items():
                if name not in hidden:
                    for head, samples in blocks:
                        joined.setdefault(head, [head]).append(samples)
        return b"".join(part for parts in joined.values() for part in parts) + (_END if self.is_open_metrics else b"")


class FamilyCollector(Collector):
    """Families as a collector, which is what encoders take."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._families


def _split(text: bytes) -> Iterable[tuple[bytes, bytes]]:
    text = text.removesuffix(_END)
    heads = list(_HEAD.finditer(text))
    ends = [*(found.start() for found in heads[1:]), len(text)]
    return ((found[0], text[found.end() : end]) for found, end in zip(heads, ends, strict=True))


@dataclass(slots=True)
class Piece:
    """Families that belong together, encoded when they are first asked for. Safe to share between threads."""

    families: Callable[[], Iterable[Metric]]
    _kept: dict[tuple[bool, str], Lines] = field(default_factory=dict)

    def changed(self) -> None:
        """Encode them anew next time; to be called after the change."""
        # A new dict: who encodes at this moment keeps what is out of date in the old one.
        self._kept = {}

    def lines(self, form: Format) -> Lines:
        """The families' lines in this format."""
        kept = self._kept
        found = kept.get(form.key)
        if found is None:
            found = form.encode(self.families())
            if len(kept) >= _MOST_FORMATS:
                kept.clear()
            kept[form.key] = found
        return found


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
