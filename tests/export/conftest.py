import pytest

from factories import HeldClock
from monitor.export.publisher import PrometheusPublisher


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def publisher() -> PrometheusPublisher:
    return PrometheusPublisher(version="1.2.3")
