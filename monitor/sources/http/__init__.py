"""Lists from a recommender over HTTP, one request a user."""

from monitor.sources.http.options import HttpSourceOptions
from monitor.sources.http.source import HttpSource

__all__ = ["HttpSource", "HttpSourceOptions"]
