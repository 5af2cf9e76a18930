"""A publisher's page where a Prometheus finds it."""

from collections.abc import Iterator
from contextlib import contextmanager

from monitor.export import PrometheusPublisher
from monitor.web.app import create_app
from monitor.web.server import WebServer


class _Well:
    """A daemon that is well."""

    def unhealthy(self) -> str | None:
        return None

    def unready(self) -> str | None:
        return None


@contextmanager
def serving_page(publisher: PrometheusPublisher) -> Iterator[str]:
    """Serve it on loopback; ``host:port`` to scrape."""
    server = WebServer(create_app(metrics=publisher.render, health=_Well()), "127.0.0.1", 0)
    server.start()
    try:
        yield server.url.removeprefix("http://")
    finally:
        server.stop()
