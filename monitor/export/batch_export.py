"""What a process leaves behind for Prometheus when it ends: its gauges, as a textfile or as a group of a Pushgateway."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from monitor.errors import ConfigError
from monitor.export.exposition import Format
from monitor.export.series import SERIES, Kind
from monitor.files import replace_file, require_replaceable

DAEMON_GAUGES = frozenset({
    "leader", "lease_epoch", "database_up", "runs_waiting", "database_size_bytes",
    "config_last_reload_successful", "config_last_reload_success_timestamp_seconds", "prune_last_success_timestamp_seconds",
})  # fmt: skip
"""Gauges of a process that goes on."""
# node_exporter runs under a user of its own.
_MODE = 0o644


def final_families(families: Iterable[Metric]) -> tuple[Metric, ...]:
    """Those of the families that a process leaves behind when it ends."""
    of_daemon = {SERIES[name].name for name in DAEMON_GAUGES}
    return tuple(family for family in families if family.name not in of_daemon)


def families_of_comparison(families: Iterable[Metric], comparison: str | None) -> tuple[Metric, ...]:
    """The samples of one comparison; for None, those of no comparison in particular."""
    kept = ((family, [one for one in family.samples if one.labels.get("comparison") == comparison]) for family in families)
    return tuple(_with(family, samples) for family, samples in kept if samples)


def write_families(families: Iterable[Metric]) -> bytes:
    """The families, some of which may share a name, in Prometheus' text format, without timestamps."""
    text = Format.accepted_by("")
    return text.page(text.encode([family]) for family in counted_families(families))


def counted_families(families: Iterable[Metric]) -> tuple[Metric, ...]:
    """The families as node_exporter and Pushgateway take them: a gauge histogram for a histogram, 0 without sum and count."""
    return tuple(_counted(family) for family in families)


def _with(family: Metric, samples: Sequence[Sample]) -> Metric:
    # A copy: the family may be shown elsewhere at the same time.
    copy = Metric(family.name, family.documentation, family.type, family.unit)
    copy.samples = list(samples)
    return copy


def _counted(family: Metric) -> Metric:
    if family.type != Kind.GAUGE_HISTOGRAM:
        return family
    ends = {f"{family.name}_gsum": f"{family.name}_sum", f"{family.name}_gcount": f"{family.name}_count"}
    more = [one._replace(name=ends[one.name]) for one in family.samples if one.name in ends]
    return _with(family, [*family.samples, *more])


def require_textfile(path: Path) -> Path:
    """The path, if a file can be written there; ConfigError for a name that node_exporter passes over, or no such place."""
    if path.suffix != ".prom":
        msg = f"{path} is no textfile for node_exporter, which reads files whose names end in .prom: give it that ending"
        raise ConfigError(msg)
    try:
        require_replaceable(path)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror}: name a file in a directory that exists and this user may write to"
        raise ConfigError(msg) from None
    return path


def write_textfile(path: Path, page: bytes) -> None:
    """Replace the file by the page at once, see `replace_file`. OSError, with the path, leaves the old file."""
    replace_file(path, page, mode=_MODE)
