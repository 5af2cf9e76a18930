"""Families from the series table, pages of pieces encoded once until they change, and what an ending process leaves behind."""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from prometheus_client import Counter, Histogram
from prometheus_client.core import GaugeHistogramMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from monitor.errors import ConfigError
from monitor.export.series import SERIES, Kind, Series
from monitor.files import replace_file, require_replaceable
from monitor.redaction import escape_controls

Lines = Mapping[str, tuple[tuple[bytes, bytes], ...]]
"""By family: what stands above its samples (``# HELP`` and so on), and their lines.

Some formats split a family in several.
"""

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
    """One of the formats that Prometheus' client library writes."""

    encoder: Callable[[Collector], bytes]
    content_type: str

    @classmethod
    def accepted_by(cls, accept: str) -> Self:
        """The best of those that an Accept header names.

        Plain text where it names none, or makes no sense.
        """
        try:
            return cls(*choose_encoder(accept))
        except (TypeError, ValueError):  # a version such as "1.x"
            return cls(*choose_encoder(""))

    @property
    def is_open_metrics(self) -> bool:
        """Whether pages end with a mark."""
        return self.content_type.startswith("application/openmetrics-text")

    def encode(self, families: Iterable[Metric]) -> Lines:
        """The families' lines."""
        return {
            family.name: tuple(_split(self.encoder(FamilyCollector((family,)))))
            for family in families
        }

    def page(self, pieces: Iterable[Lines], hidden: Container[str] = ()) -> bytes:
        """One page of all pieces, the lines of each family together, without the ``hidden`` families."""
        joined: dict[bytes, list[bytes]] = {}
        for piece in pieces:
            for name, blocks in piece.items():
                if name not in hidden:
                    for head, samples in blocks:
                        joined.setdefault(head, [head]).append(samples)
        return b"".join(part for parts in joined.values() for part in parts) + (
            _END if self.is_open_metrics else b""
        )


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
    """Families that belong together, encoded when they are first asked for.

    Safe to share between threads.
    """

    families: Callable[[], Iterable[Metric]]
    _kept: dict[str, Lines] = field(default_factory=dict)

    def changed(self) -> None:
        """Encode them anew next time; to be called after the change."""
        # A new dict: who encodes at this moment keeps what is out of date in the old one.
        self._kept = {}

    def lines(self, form: Format) -> Lines:
        """The families' lines in this format."""
        kept = self._kept
        found = kept.get(form.content_type)
        if found is None:
            found = form.encode(self.families())
            if len(kept) >= _MOST_FORMATS:
                kept.clear()
            kept[form.content_type] = found
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How many lie at or below each upper bound, the last of which is ``+Inf``, and the sum over all."""

    buckets: tuple[tuple[str, float], ...]
    total: float


class Gauges:
    """``samples`` gathered by series and labels.

    One given twice is shown once, with the later value.
    """

    def __init__(self) -> None:
        self.samples: dict[str, dict[LabelValues, Any]] = {}

    def set(self, name: str, labels: LabelValues, value: float | Distribution | None) -> None:
        """Set one sample of the series with that name (without prefix).

        None means there is nothing to show.
        """
        if value is not None:
            self.samples.setdefault(name, {})[labels] = (
                value if isinstance(value, Distribution) else float(value)
            )

    def replace(self, name: str, samples: Mapping[LabelValues, float]) -> None:
        """Make these the samples of the series, in place of those it had."""
        self.samples[name] = dict(samples)

    def families(self, left_out: Container[SampleKey] = ()) -> tuple[Metric, ...]:
        """The families with at least one sample, in the table's order, without the samples that are left out."""
        shown = {
            name: {
                labels: value
                for labels, value in self.samples.get(name, {}).items()
                if (name, labels) not in left_out
            }
            for name in SERIES
        }
        return tuple(_family(SERIES[name], samples) for name, samples in shown.items() if samples)


def _family(series: Series, samples: Mapping[LabelValues, float | Distribution]) -> Metric:
    distributions = GaugeHistogramMetricFamily(series.name, series.help, labels=series.labels)
    gauge = GaugeMetricFamily(series.name, series.help, labels=series.labels, unit=series.unit)
    for labels, value in samples.items():
        if len(labels) != len(series.labels):
            raise ValueError(
                f"{series.name} has the labels {series.labels}, got {len(labels)} values"
            )
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
    return Histogram(
        series.name,
        series.help,
        series.labels,
        registry=None,
        unit=series.unit,
        buckets=series.buckets,
    )


DAEMON_GAUGES = frozenset({
    "leader", "lease_epoch", "database_up", "runs_waiting", "database_size_bytes", "certificate_expiry_timestamp_seconds",
    "config_last_reload_successful", "config_last_reload_success_timestamp_seconds", "prune_last_success_timestamp_seconds",
})  # fmt: skip
"""Gauges of a process that goes on."""
# node_exporter runs under a user of its own.
_MODE = 0o644


def families_of_comparison(
    families: Iterable[Metric], comparison: str | None
) -> tuple[Metric, ...]:
    """The samples of one comparison; for None, those of no comparison in particular."""
    kept = (
        (family, [one for one in family.samples if one.labels.get("comparison") == comparison])
        for family in families
    )
    return tuple(_with(family, samples) for family, samples in kept if samples)


def write_families(families: Iterable[Metric]) -> bytes:
    """The families, some of which may share a name, in Prometheus' text format, without timestamps."""
    text = Format.accepted_by("")
    return text.page(text.encode([with_counts(family)]) for family in families)


def _with(family: Metric, samples: Sequence[Sample]) -> Metric:
    # A copy: the family may be shown elsewhere at the same time.
    copy = Metric(family.name, family.documentation, family.type, family.unit)
    copy.samples = list(samples)
    return copy


def with_counts(family: Metric) -> Metric:
    """The family as node_exporter and Pushgateway take it: a gauge histogram for a histogram, 0 without sum and count."""
    if family.type != Kind.GAUGE_HISTOGRAM:
        return family
    ends = {
        f"{family.name}_gsum": f"{family.name}_sum",
        f"{family.name}_gcount": f"{family.name}_count",
    }
    more = [one._replace(name=ends[one.name]) for one in family.samples if one.name in ends]
    return _with(family, [*family.samples, *more])


def require_textfile(path: Path) -> Path:
    """The path, if a file can be written there.

    ConfigError for a name that node_exporter passes over, or no such place.
    """
    if path.suffix != ".prom":
        msg = (
            f"{path} is no textfile for node_exporter, which reads files whose names end in "
            ".prom: give it that ending"
        )
        raise ConfigError(msg)
    try:
        require_replaceable(path)
    except OSError as error:
        msg = (
            f"{path} cannot be written: {error.strerror}: name a file in a directory that "
            "exists and this user may write to"
        )
        raise ConfigError(msg) from None
    return path


def write_textfile(path: Path, page: bytes) -> None:
    """Replace the file by the page at once, see `replace_file`.

    OSError, with the path, leaves the old file.
    """
    replace_file(path, page, mode=_MODE)
