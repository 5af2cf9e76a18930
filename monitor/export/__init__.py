"""Shows rankwatch to Prometheus: what each comparison last found, and how the daemon itself is doing."""

from monitor.export.publisher import PrometheusPublisher
from monitor.export.series import PREFIX, SERIES, Kind, Series, reference

__all__ = ["PREFIX", "SERIES", "Kind", "PrometheusPublisher", "Series", "reference"]
