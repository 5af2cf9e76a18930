"""Shows rankwatch to Prometheus: what each comparison last found, and how the daemon itself is doing."""

from monitor.export.grouping import group_path
from monitor.export.publisher import PrometheusPublisher
from monitor.export.series import PREFIX, SERIES, Kind, Series, reference
from monitor.export.standing import OF_DAEMONS, STANDING, of_comparison, write
from monitor.export.textfile import require_textfile, write_textfile

__all__ = [
    "OF_DAEMONS",
    "PREFIX",
    "SERIES",
    "STANDING",
    "Kind",
    "PrometheusPublisher",
    "Series",
    "group_path",
    "of_comparison",
    "reference",
    "require_textfile",
    "write",
    "write_textfile",
]
