"""A publisher's page where a Prometheus finds it."""

from collections.abc import Iterator
from contextlib import contextmanager

import published
from monitor.export import PrometheusPublisher
from monitor.web.server import WebServer


@contextmanager
def serving_page(publisher: PrometheusPublisher) -> Iterator[str]:
    """Serve it on loopback; ``host:port`` to scrape."""
    server = WebServer(published.pages(metrics=publisher.render), "127.0.0.1", 0)
    server.start()
    try:
        yield server.url.removeprefix("http://")
    finally:
        server.stop()
