"""Serves what the daemon shows over HTTP: metrics, health, readiness. What is shown is handed in; nothing is made here."""

from monitor.web.access import Access, open_access
from monitor.web.access_options import AccessOptions
from monitor.web.app import Health, Metrics, create_app
from monitor.web.connections import Limits
from monitor.web.server import WebServer

__all__ = ["Access", "AccessOptions", "Health", "Limits", "Metrics", "WebServer", "create_app", "open_access"]
