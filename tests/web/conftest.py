"""A running web server over pages that a test can change."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

import published
from monitor.web.connections import Limits
from web.sites import Site, running


class Health:
    """Health as a test sets it."""

    def __init__(self) -> None:
        self.sick: str | None = None
        self.lacking: str | None = None
        self.release = threading.Event()
        self.release.set()

    def unhealthy(self) -> str | None:
        return self.sick

    def unready(self) -> str | None:
        self.release.wait(10)
        return self.lacking


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def many() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def limits() -> Limits:
    return Limits()


@pytest.fixture
def client(health: Health, limits: Limits) -> Iterator[Site]:
    with running(published.pages(metrics=published.filled().render, health=health), limits=limits) as site:
        yield site
