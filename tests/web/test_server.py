"""Starting, stopping and sharing the server among clients of every kind, a thousand of which want nothing good."""

import gzip
import inspect
import logging
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

import published
from monitor.errors import MonitorError
from monitor.web import app as web_app
from monitor.web.access import Access
from monitor.web.connections import Limits
from monitor.web.server import WebServer
from servers.certificates import Authority, Pair, authority, server_pair  # noqa: F401 - fixtures
from servers.daemon import wait_for
from web.sites import KIM, basic, running, serving
from web.test_tls import tls_of

ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def _application(health: Any, metrics: Callable[[str, str], Any] | None = None) -> Any:
    return published.pages(metrics=metrics or published.filled().render, health=health)


def _ends_within(connection: socket.socket, seconds: float) -> bool:
    """Whether the server ends the connection in time, whatever it sends before."""
    deadline = time.monotonic() + seconds
    try:
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(65536):
                return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return False


def test_a_taken_port_is_refused_by_name_and_may_be_free_later(health: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(MonitorError, match=rf"cannot listen on 127\.0\.0\.1:{port}: address already in use; ") as caught:
            WebServer(_application(health), "127.0.0.1", port).start()

    assert caught.value.permanent is False


@pytest.mark.parametrize(
    ("host", "port", "message"),
    [
        ("192.0.2.1", 29108, r"cannot listen on 192\.0\.2\.1:29108: cannot assign requested address; this machine has no such"),
        ("no.such.host.invalid", 29108, r"cannot listen on no\.such\.host\.invalid:29108: no such host; write listen as"),
        ("127.0.0.1", 70000, r"cannot listen on 127\.0\.0\.1:70000: no such port; choose one from 1 to 65535"),
        ("x" * 64, 29108, r"cannot listen on x{64}:29108: no such host; "),
    ],
)
def test_an_address_that_cannot_be_had_is_refused_by_name(health: Any, host: str, port: int, message: str) -> None:
    with pytest.raises(MonitorError, match=message) as caught:
        WebServer(_application(health), host, port).start()

    assert caught.value.permanent is True


@pytest.mark.parametrize(("host", "reached"), [("::1", ["::1"]), ("", ["127.0.0.1", "::1"])])
def test_ipv6_is_served_and_written_in_brackets_and_an_empty_host_serves_both_families(
    health: Any, host: str, reached: list[str]
) -> None:
    with running(_application(health), host) as site:
        assert site.server.url == f"http://[{host or '::'}]:{site.port}"
        for each in reached:
            with site.open(ASK, host=each) as raw:
                assert raw.recv(15) == b"HTTP/1.1 200 OK"


def test_stopping_frees_the_port_and_may_be_done_twice_and_signal_handlers_stay_those_of_the_process(health: Any) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    WebServer(_application(health), "127.0.0.1", 0).stop()
    with running(_application(health)) as site:
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
        site.server.stop()
    assert not site.server.is_alive
    with socket.create_server((site.host, site.port)):
        pass


def test_stopping_is_bounded_while_a_page_hangs_and_a_client_dawdles(health: Any, many: ExitStack) -> None:
    release, asked = threading.Event(), threading.Event()
    many.callback(release.set)

    def hang(_accept: str, _encoding: str) -> Any:
        asked.set()
        release.wait(30)
        return b"", {}

    site = many.enter_context(running(_application(health, hang)))
    many.callback(release.set)  # before the server is stopped, if the test fails
    for data in (ASK, b"GET /met"):
        many.enter_context(site.open(data))
    assert asked.wait(60)

    started = time.monotonic()
    site.server.stop(timeout_s=2)

    assert time.monotonic() - started < 20
    assert not site.server.is_alive


def test_a_page_that_breaks_is_an_error_500_and_the_server_lives(health: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(_accept: str, _encoding: str) -> Any:
        raise ZeroDivisionError

    with running(_application(health, broken)) as site, site.open(ASK) as raw, caplog.at_level("ERROR"):
        answer = raw.recv(4096)

    assert answer.startswith(b"HTTP/1.1 500")
    assert b"ZeroDivisionError" not in answer


def test_requests_leave_no_line_in_the_log(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client.get("/metrics?token=canary")
        with client.open(b"not http at all\r\n\r\n") as raw:
            assert raw.recv(12) == b"HTTP/1.1 400"

    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


@pytest.mark.parametrize("limits", [Limits(connections=2)])
def test_who_has_asked_before_stays_when_connections_must_give_way(client: Any, many: ExitStack) -> None:
    regular = many.enter_context(client.open(ASK))
    assert regular.recv(15) == b"HTTP/1.1 200 OK"
    silent = many.enter_context(client.open())

    assert client.get("/-/healthy")[0] == 200

    assert _ends_within(silent, 20)
    regular.sendall(ASK)
    assert not _ends_within(regular, 0.2)


@pytest.mark.parametrize("limits", [Limits(exchange_s=0.5)])
@pytest.mark.parametrize(
    "head", [b"", b"GET /metrics HTTP/1.1\r\nX: ", b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n"]
)
def test_a_request_that_does_not_come_is_cut_off_at_the_deadline_though_bytes_trickle(client: Any, head: bytes) -> None:
    started = time.monotonic()
    with client.open(head) as raw, suppress(ConnectionError):
        while head and time.monotonic() - started < 30:
            raw.sendall(b"x")
            time.sleep(0.05)  # the trickle itself
        assert _ends_within(raw, 20)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("limits", [Limits(exchange_s=1.5)])
def test_an_idle_connection_outlives_the_deadline_and_is_used_again(client: Any) -> None:
    with client.open(ASK) as raw:
        assert not _ends_within(raw, 2)
        raw.settimeout(20)
        raw.sendall(ASK)
        assert raw.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("limits", [Limits(keep_alive_s=1)])
def test_an_idle_connection_ends_after_its_keep_alive(client: Any) -> None:
    with client.open(ASK) as raw:
        assert _ends_within(raw, 20)


def test_requests_sent_ahead_are_all_answered(client: Any) -> None:
    health = b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"
    with client.open(health * 5 + b"GET /-/ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as raw:
        received = b"".join(iter(lambda: raw.recv(65536), b""))

    assert received.count(b"HTTP/1.1 200 OK") == 6


@pytest.mark.parametrize("limits", [Limits(header_bytes=2048)])
def test_headers_beyond_the_limit_are_refused(client: Any) -> None:
    with client.open(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 4096) as raw:
        assert raw.recv(12) == b"HTTP/1.1 400"  # its end never came
        assert _ends_within(raw, 20)


def test_scrapes_beyond_the_queue_are_turned_away_and_health_still_answers(health: Any, many: ExitStack) -> None:
    release = threading.Event()
    many.callback(release.set)

    def slow(_accept: str, _encoding: str) -> Any:
        release.wait(30)
        return b"page", {}

    site = many.enter_context(running(_application(health, slow)))
    many.callback(release.set)  # before the server is stopped
    waiting = [many.enter_context(site.open(ASK)) for _ in range(40)]
    with site.open(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n") as probe:
        assert probe.recv(15) == b"HTTP/1.1 200 OK"
    wait_for(lambda: len(select.select(waiting, [], [], 0)[0]) == 8, "eight turned away")
    release.set()
    first_lines = [raw.recv(12) for raw in waiting]

    assert first_lines.count(b"HTTP/1.1 200") == 32
    assert first_lines.count(b"HTTP/1.1 503") == 8


def test_metrics_come_packed_and_as_openmetrics_when_asked(client: Any) -> None:
    accept = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}

    status, headers, body = client.get("/metrics", **accept)

    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert gzip.decompress(body).endswith(b"# EOF\n")


def test_probes_say_so_and_why_when_not_and_pages_are_served_all_the_same(client: Any, health: Any) -> None:
    for path, word in (("/-/healthy", b"healthy"), ("/-/ready", b"ready")):
        assert client.get(path)[::2] == (200, word + b"\n")

    health.sick, health.lacking = "the scheduler has not moved for 90 s", "the database is away"

    assert client.get("/-/healthy")[::2] == (503, b"not healthy: the scheduler has not moved for 90 s\n")
    assert client.get("/-/ready")[::2] == (503, b"not ready: the database is away\n")
    assert client.get("/metrics")[0] == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_other_paths_and_methods_get_their_plain_answer(client: Any, method: str, path: str, status: int) -> None:
    assert client.status(path, method=method) == status


def test_no_answer_names_the_server_software(client: Any) -> None:
    for path in ("/", "/metrics", "/-/healthy", "/nowhere"):
        assert "server" not in client.get(path)[1]


def test_a_readiness_that_does_not_answer_counts_as_not_ready(
    client: Any, health: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "_HEALTH_S", 2)
    health.release = threading.Event()
    try:
        status, _, body = client.get("/-/ready")
        healthy, *_ = client.get("/-/healthy")
    finally:
        health.release.set()

    assert (status, body) == (503, b"not ready: no answer within 2 s\n")
    assert healthy == 200


def test_no_data_of_a_page_has_a_default_that_would_hide_that_nobody_hands_it_over() -> None:
    parameters = inspect.signature(web_app.create_app).parameters
    assert [name for name, each in parameters.items() if each.default is not each.empty] == []


# ruff: noqa: F811 - fixtures are imported

SLOW = {
    "silent": b"",
    "half a head": b"GET /metrics HTTP/1.1\r\nX: ",
    "half a body": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n",
    "idle after an answer": b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a handshake": b"\x16\x03\x01\x02\x00\x01\x00",
}
THOUSAND, ROUNDS = 1000, 10


def _own_ends(port: int) -> int:
    """Connections that the server holds open, as the kernel counts them."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_scraper_is_answered_each_time_among_a_thousand_slow_connections(
    health: Any, many: ExitStack, authority: Authority, server_pair: Pair, is_encrypted: bool
) -> None:
    tls = authority.client_context() if is_encrypted else None
    configured: dict[str, Any] = {"tls_server_config": tls_of(server_pair)} if is_encrypted else {}
    with serving(health, tls=tls, limits=Limits(connections=128), **configured) as site:
        kinds = list(SLOW.values())
        found = []
        for turn in range(ROUNDS):
            for number in range(THOUSAND // ROUNDS):
                many.enter_context(site.open(kinds[number % len(kinds)], is_small=True))
            found.append(site.get("/metrics", KIM)[::2])
            if turn == ROUNDS - 1:
                assert _own_ends(site.port) <= 128 + 128  # and what waits to be accepted
        assert found == [(200, b"page\n")] * ROUNDS
        many.close()
        assert site.status("/metrics", KIM) == 200


def test_a_kept_connection_of_who_has_a_password_outlives_a_thousand_of_strangers(health: Any, many: ExitStack) -> None:
    with serving(health, limits=Limits(connections=64)) as site, closing(site.connect()) as regular:
        kinds = [sent for name, sent in SLOW.items() if name != "half a handshake"]
        used = set()
        for _ in range(ROUNDS):
            regular.request("GET", "/metrics", headers={"Authorization": basic(*KIM)})
            assert regular.getresponse().read() == b"page\n"
            used.add(regular.sock)
            for number in range(THOUSAND // ROUNDS):
                many.enter_context(site.open(kinds[number % len(kinds)], is_small=True))
        assert len(used) == 1


def test_readers_that_take_no_answer_make_room_for_one_that_does(health: Any, many: ExitStack) -> None:
    page = b"x" * 400_000
    with serving(health, Access(), page=page, limits=Limits(connections=32)) as site:
        for _ in range(5):
            for _ in range(40):
                reader = many.enter_context(site.open(ASK, is_small=True))
                assert reader.recv(1, socket.MSG_PEEK)  # is being answered: as many at once would not make room but be answered
            assert site.get("/metrics")[::2] == (200, page)
