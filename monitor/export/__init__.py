"""Shows rankwatch to Prometheus: what each comparison last found, and how the daemon itself is doing."""

from monitor.export.batch_export import (
    DAEMON_GAUGES,
    FINAL_SERIES,
    families_of_comparison,
    require_textfile,
    write_families,
    write_textfile,
)
from monitor.export.publisher import PrometheusPublisher
from monitor.export.series import PREFIX, SERIES, Kind, Series, series_reference
