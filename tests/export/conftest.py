import pytest

from factories import HeldClock
from monitor.export.publisher import PrometheusPublisher


@pytest.fixture
def clock():
    return HeldClock()


@pytest.fixture
def publisher():
    return PrometheusPublisher(version="1.2.3")
