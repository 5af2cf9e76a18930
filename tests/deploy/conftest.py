"""Where the files to deploy stand, and a Prometheus that scrapes a running web server under the shipped rules."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import published
from deploy.scrape_target import serving_page
from deploy.story import Story, told
from monitor.export import PrometheusPublisher
from servers.prometheus import Prometheus, running_prometheus

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A publisher, and the Prometheus that scrapes it."""

    publisher: PrometheusPublisher
    prometheus: Prometheus


def _live(publisher: PrometheusPublisher, stop: threading.Event) -> None:
    """Let the counters move, as a daemon's do."""
    while not stop.wait(0.1):
        publisher.run_finished(published.result())
        publisher.slots_skipped("home-feed", "missed")
        publisher.notified("pager", "sent")


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    publisher, stop = published.filled(), threading.Event()
    life = threading.Thread(target=_live, args=(publisher, stop))
    with serving_page(publisher) as target:
        life.start()
        try:
            rules = ROOT / "deploy" / "prometheus" / "rankwatch.rules.yml"
            with running_prometheus(target, rules=[rules]) as prometheus:
                yield Watched(publisher=publisher, prometheus=prometheus)
        finally:
            stop.set()
            life.join()


@pytest.fixture(scope="session")
def story(deploy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """See `story.told`: played once; its Prometheus answers queries about each chapter until the end."""
    with told(deploy, tmp_path_factory.mktemp("story")) as played:
        yield played


@pytest.fixture(scope="session")
def deploy() -> Path:
    return ROOT / "deploy"
