"""Where the files to deploy stand, and a Prometheus that scrapes a running web server under the shipped rules."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import published
from deploy.scrape_target import living, serving_page
from deploy.story import Story, told
from monitor.export.publisher import PrometheusPublisher
from servers.prometheus import Prometheus, running_prometheus

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A publisher, and the Prometheus that scrapes it."""

    publisher: PrometheusPublisher
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    publisher = published.filled()
    rules = ROOT / "deploy" / "prometheus" / "rankwatch.rules.yml"
    with serving_page(publisher) as target, living(publisher), running_prometheus(target, rules=[rules]) as prometheus:
        yield Watched(publisher=publisher, prometheus=prometheus)


@pytest.fixture(scope="module")
def story(deploy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """See `story.told`: played once; its Prometheus answers queries about each chapter until the end."""
    with told(deploy, tmp_path_factory.mktemp("story")) as played:
        yield played


@pytest.fixture(scope="session")
def deploy() -> Path:
    return ROOT / "deploy"
