"""A publisher, and its page as text and as parsed samples."""

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from factories import HeldClock
from monitor.export import PrometheusPublisher

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def publisher() -> PrometheusPublisher:
    return PrometheusPublisher(version="1.2.3")


@pytest.fixture
def scrape() -> Callable[[PrometheusPublisher], "Page"]:
    return lambda publisher: Page(publisher.render()[0].decode())


class Page:
    """A scraped page: ask for one sample's value (None when absent), or whether a series shows at all."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.samples: Samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        return self.samples.get((f"rankwatch_{name}", frozenset(labels.items())))

    def names(self) -> set[str]:
        return {name for name, _ in self.samples if name.startswith("rankwatch_")}

    def labelled(self, name: str) -> list[dict[str, str]]:
        return [dict(labels) for found, labels in self.samples if found == f"rankwatch_{name}"]
