"""A publisher's page where a Prometheus finds it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import published
from monitor.errors import DatabaseTrouble, DeliveryTrouble
from monitor.export.publisher import PrometheusPublisher
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


@contextmanager
def living(publisher: PrometheusPublisher) -> Iterator[None]:
    """Let the counters move, as a daemon's do."""
    stop = threading.Event()

    def live() -> None:
        while not stop.wait(0.1):
            publisher.run_finished(published.result(coverage=published.coverage()))
            publisher.count("slots_skipped_total", "home-feed", "missed")
            publisher.count("notifications_total", "pager", "sent")
            publisher.count("delivery_errors_total", "pager", DeliveryTrouble.NO_ANSWER)
            publisher.count("pings_total", "ping", "sent")
            publisher.database_failed(DatabaseTrouble.LOCKED)

    life = threading.Thread(target=live)
    life.start()
    try:
        yield
    finally:
        stop.set()
        life.join()
