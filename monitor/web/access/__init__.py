"""Who may look, and how it travels: a web configuration file in the form of Prometheus' exporter-toolkit, in force."""

from monitor.web.access.guarding import Guard
from monitor.web.access.opening import Access, open_access
from monitor.web.access.options import AccessOptions

__all__ = ["Access", "AccessOptions", "Guard", "open_access"]
