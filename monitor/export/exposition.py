"""Makes metric families from the table of series, encodes them once, and writes them to files."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from monitor.boundary.files import replace_file, require_replaceable
from monitor.boundary.redaction import escape_controls
from monitor.export.series import SERIES, Series, SeriesKind
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable

Lines = Mapping[str, tuple[tuple[bytes, bytes], ...]]
"""The lines of each family: the lines that describe it (``# HELP`` and so on), then its samples.

If a format splits a family into several families, there are several such pairs.
"""

_HEAD = re.compile(rb"((?:^# .*\n)+)", re.MULTILINE)
_END = b"# EOF\n"
_MOST_FORMATS = 2
"""A group is cached in this many formats: one for Prometheus, and one for a person's browser."""

LabelValues = tuple[str, ...]
SampleKey = tuple[str, LabelValues]
"""The name of a series, and the values of its labels."""
# The escapes that `escape_controls` writes.
_ESCAPED = re.compile(r"\\(x[0-9a-f]{2}|u[0-9a-f]{4}|[tr])")


@dataclass(frozen=True, slots=True)
class Format:
    """One of the formats that Prometheus' client library writes."""

    encoder: Callable[[Collector], bytes]
    content_type: str

    @classmethod
    def accepted_by(cls, accept: str) -> Self:
        """Return the best format that an Accept header names.

        If it names none, return plain text.
        """
        try:
            return cls(*choose_encoder(accept))
        except (TypeError, ValueError):  # a version such as "1.x"
            return cls(*choose_encoder(""))

    def encode(self, families: Iterable[Metric]) -> Lines:
        """Return the lines of the families."""
        lines = {}
        for family in families:
            page = self.encoder(FamilyCollector((family,))).removesuffix(_END)
            # The parts are heads and samples in turn. Before the first head there is nothing.
            _, *parts = _HEAD.split(page)
            heads = parts[::2]
            samples = parts[1::2]
            lines[family.name] = tuple(zip(heads, samples, strict=True))
        return lines

    def page(self, groups: Iterable[Lines], hidden: Container[str] = ()) -> bytes:
        """Return one page of all groups, without the ``hidden`` families.

        All samples of a family are together, even if they are in several groups.
        """
        joined: dict[bytes, list[bytes]] = {}
        for group in groups:
            for name, blocks in group.items():
                if name in hidden:
                    continue
                for head, samples in blocks:
                    joined.setdefault(head, [head]).append(samples)
        page = b"".join(chain.from_iterable(joined.values()))
        is_open_metrics = self.content_type.startswith("application/openmetrics-text")
        return page + _END if is_open_metrics else page


class FamilyCollector(Collector):
    """Presents families as a collector, because encoders accept only collectors."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


@dataclass(slots=True)
class FamilyGroup:
    """Families that change together. They are encoded again only after they changed.

    Threads may share it.
    """

    families: Callable[[], Iterable[Metric]]
    _encoded: dict[str, Lines] = field(default_factory=dict)

    def changed(self) -> None:
        """Encode the families again for the next page. Call this after the families changed."""
        # A thread that is encoding at this moment stores its outdated lines in the old dict.
        self._encoded = {}

    def lines(self, form: Format) -> Lines:
        """Return the lines of the families in this format."""
        encoded = self._encoded
        lines = encoded.get(form.content_type)
        if lines is None:
            lines = form.encode(self.families())
            if len(encoded) >= _MOST_FORMATS:
                encoded.clear()
            encoded[form.content_type] = lines
        return lines


@immutable
class Distribution:
    """How many values are at or below each upper bound, and the sum of the values.

    The last bound is ``+Inf``.
    """

    buckets: tuple[tuple[str, float], ...]
    total: float


class Gauges:
    """Collects values of gauges. ``samples`` has the values by series and labels.

    A later value replaces an earlier value.
    """

    def __init__(self) -> None:
        self.samples: dict[str, dict[LabelValues, Any]] = {}

    def set(self, labels: LabelValues, **values: float | Distribution | None) -> None:
        """Set samples with these labels by the names of their series, without prefix.

        The value None sets nothing.
        """
        for name, value in values.items():
            if value is not None:
                sample = value if isinstance(value, Distribution) else float(value)
                self.samples.setdefault(name, {})[labels] = sample

    def replace(self, name: str, samples: Mapping[LabelValues, float]) -> None:
        """Replace all samples of the series."""
        self.samples[name] = dict(samples)

    def families(self, left_out: Container[SampleKey] = ()) -> tuple[Metric, ...]:
        """Return the families in the order of the table.

        Samples in ``left_out`` are not included.
        """
        families = []
        for name, series in SERIES.items():
            samples = {}
            for labels, value in self.samples.get(name, {}).items():
                if (name, labels) not in left_out:
                    samples[labels] = value
            if samples:
                families.append(_family(series, samples))
        return tuple(families)


def _family(series: Series, samples: Mapping[LabelValues, float | Distribution]) -> Metric:
    distributions = GaugeHistogramMetricFamily(series.name, series.help, labels=series.labels)
    gauge = GaugeMetricFamily(series.name, series.help, labels=series.labels, unit=series.unit)
    for labels, value in samples.items():
        if len(labels) != len(series.labels):
            raise ValueError(
                f"{series.name} has the labels {series.labels}, got {len(labels)} values"
            )
        label_values = [*map(_escape_label, labels)]
        if isinstance(value, Distribution):
            distributions.add_metric(label_values, list(value.buckets), value.total)
        else:
            gauge.add_metric(label_values, value)
    return distributions if series.kind is SeriesKind.GAUGE_HISTOGRAM else gauge


def _escape_label(value: str) -> str:
    """Escape characters that control a terminal."""
    escaped = escape_controls(value)
    if escaped == value and not _ESCAPED.search(value):
        return value
    # Backslashes are doubled, so that two values never become the same label.
    return escape_controls(value.replace("\\", r"\\"))


def make_counter(name: str) -> Counter | Histogram:
    """Make the counter or histogram of a series. It is not registered."""
    series = SERIES[name]
    if series.kind is SeriesKind.COUNTER:
        return Counter(series.name, series.help, series.labels, registry=None, unit=series.unit)
    return Histogram(
        series.name,
        series.help,
        series.labels,
        registry=None,
        unit=series.unit,
        buckets=series.buckets,
    )


DAEMON_GAUGES = frozenset({
    "leader", "lease_epoch", "database_up", "runs_waiting", "database_size_bytes",
    "certificate_expiry_timestamp_seconds", "config_last_reload_successful",
    "config_last_reload_success_timestamp_seconds", "prune_last_success_timestamp_seconds",
})  # fmt: skip
"""Gauges that make sense only while the process runs."""
# node_exporter runs as another user, and must be able to read the file.
_MODE = 0o644


def families_of_comparison(
    families: Iterable[Metric], comparison: str | None
) -> tuple[Metric, ...]:
    """Return the families, with the samples of only one comparison.

    None selects the samples that belong to no comparison.
    """
    selected = []
    for family in families:
        samples = [
            sample for sample in family.samples if sample.labels.get("comparison") == comparison
        ]
        if samples:
            selected.append(_with_samples(family, samples))
    return tuple(selected)


def write_families(families: Iterable[Metric]) -> bytes:
    """Return the families in Prometheus' text format, without timestamps.

    Several of the families may have the same name.
    """
    text_format = Format.accepted_by("")
    return text_format.page(text_format.encode([with_counts(family)]) for family in families)


def _with_samples(family: Metric, samples: Sequence[Sample]) -> Metric:
    # Changes a copy, because another thread may show the family at the same time.
    copy = Metric(family.name, family.documentation, family.type, family.unit)
    copy.samples = list(samples)
    return copy


def with_counts(family: Metric) -> Metric:
    """Return the family in the form that node_exporter and Pushgateway accept.

    They read a gauge histogram as a histogram. Without a sum and a count they would show 0.
    """
    if family.type != SeriesKind.GAUGE_HISTOGRAM:
        return family
    names = {
        f"{family.name}_gsum": f"{family.name}_sum",
        f"{family.name}_gcount": f"{family.name}_count",
    }
    samples = list(family.samples)
    for sample in family.samples:
        if sample.name in names:
            samples.append(sample._replace(name=names[sample.name]))
    return _with_samples(family, samples)


def require_textfile(path: Path) -> Path:
    """Return the path of a textfile for node_exporter.

    Raises ConfigError if node_exporter would ignore the name, or if the file cannot be written.
    """
    if path.suffix != ".prom":
        raise ConfigError(
            f"{path} is no textfile for node_exporter, which reads files whose names end in "
            ".prom: give it that ending"
        )
    try:
        require_replaceable(path)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}: name a file in an existing "
            "directory to which this user may write"
        ) from None
    return path


def write_textfile(path: Path, page: bytes) -> None:
    """Replace the file by the page in one step.

    If that fails, the old file stays, and OSError names the path.
    """
    replace_file(path, page, mode=_MODE)
