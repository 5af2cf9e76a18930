import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from monitor.errors import DeliveryError
from monitor.receivers import http_client
from monitor.receivers.http_client import HttpClient
from servers.webhook import Collector, answer, collector  # noqa: F401 - a fixture


@pytest.fixture
def hung_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The system's resolver, as it is when no name server answers: no answer before the end of the test."""
    asked: list[str] = []
    ended = threading.Event()
    real = socket.getaddrinfo

    def hang(host: str, *args: object, **kwargs: object) -> object:
        if host != "slow.test":
            return real(host, *args, **kwargs)  # type: ignore[arg-type]
        asked.append(host)
        ended.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield asked
    ended.set()
    while http_client._UNDER_WAY:
        time.sleep(0.01)


def test_a_resolver_that_hangs_is_cut_at_the_deadline_and_keeps_one_thread_a_name(hung_resolver: list[str]) -> None:
    with closing(HttpClient("http://slow.test:1/", who="hook", timeout_s=0.3)) as guard:
        for _ in range(3):
            started = time.monotonic()
            with pytest.raises(DeliveryError, match="did not answer within") as caught:
                guard.post(b"", {})
            assert time.monotonic() - started < 3
            assert not caught.value.permanent
    assert hung_resolver == ["slow.test"]


def test_a_name_with_a_dead_address_before_a_live_one_is_reached(
    collector: Collector,  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector.default = answer(204)
    port = int(collector.url.rpartition(":")[2])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = unused.getsockname()
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in (dead, ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with closing(HttpClient("http://two.test/", who="hook", timeout_s=5)) as guard:
            assert guard.post(b"", {}).status == 204
