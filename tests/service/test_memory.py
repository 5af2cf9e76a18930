"""What the daemon replaces is freed at once: no run and no connection waits for the garbage collector."""

import gc
from collections.abc import Iterator
from http import HTTPStatus

import pytest

import published
from monitor.export.publisher import PrometheusPublisher, RunSeries
from monitor.web.connections import Connection
from servers.daemon import wait_for
from web.sites import running


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing collects cyclic garbage."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive(kind: type) -> int:
    return sum(isinstance(each, kind) for each in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
def test_the_series_of_a_run_are_freed_when_another_run_is_published():
    before = alive(RunSeries)
    publisher = PrometheusPublisher(version="1")
    for _ in range(3):
        publisher.publish([published.latest()])
        publisher.render()
    assert alive(RunSeries) - before == 1


@pytest.mark.usefixtures("uncollected")
def test_a_connection_is_freed_when_it_ends():
    before = alive(Connection)
    with running(published.pages(metrics=published.filled().render)) as site:
        for _ in range(3):
            assert site.get()[0] == HTTPStatus.OK
        wait_for(lambda: alive(Connection) == before, "the connections to end")
