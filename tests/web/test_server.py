"""Starting, stopping and sharing the server among clients of every kind, a thousand of which want nothing good."""

import gzip
import logging
import select
import signal
import socket
import threading
from contextlib import closing, suppress
from types import SimpleNamespace

import pytest
import yaml

import published
from monitor.model.errors import MonitorError
from monitor.web import app as web_app
from monitor.web.access import Access
from monitor.web.connections import Limits
from monitor.web.server import WebServer
from servers.daemon import wait_for
from web.sites import KIM, basic, running, serving

ASK = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
PROBE = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
OK = b"HTTP/1.1 200 OK"


def _has_ended(connection):
    """Wait until the server ends the connection, whatever it sends before.

    A time-out is an error.
    """
    with suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


def _is_answered(connection):
    connection.sendall(PROBE)
    received = b""
    while not received.endswith(b"healthy\n"):
        received += (part := connection.recv(1000))
        assert part, "the connection has ended"
    return received.startswith(OK)


ADDRESSES = yaml.safe_load("""
- [127.0.0.1, TAKEN, "address already in use; "]
- [192.0.2.1, 29108, cannot assign requested address; this machine does not]
- [no.such.host.invalid, 29108, the host is unknown; write listen as]
- [x23456789112345678921234567893123456789412345678951234567896123x, 29108, "the host is unknown; "]
""")


def test_an_address_that_cannot_be_used_is_named_in_the_error():
    for host, port, message in ADDRESSES:
        with socket.create_server(("127.0.0.1", 0)) as other:
            asked = other.getsockname()[1] if port == "TAKEN" else port
            with pytest.raises(MonitorError) as caught:
                WebServer(published.pages(), host, asked).start()
        assert str(caught.value).startswith(f"cannot listen on {host}:{asked}: {message}")
        assert caught.value.permanent is (port != "TAKEN")


def test_ipv6_is_served_and_written_in_brackets_and_an_empty_host_serves_both_families():
    for host, reached in [("::1", ["::1"]), ("", ["127.0.0.1", "::1"])]:
        with running(published.pages(), host) as site:
            assert site.server.url == f"http://[{host or '::'}]:{site.port}"
            for each in reached:
                with site.open(ASK, host=each) as raw:
                    assert raw.recv(15) == OK


def test_stopping_frees_the_port_and_may_be_done_twice_and_signal_handlers_stay_those_of_the_process():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    WebServer(published.pages(), "127.0.0.1", 0).stop()
    with running(published.pages()) as site:
        assert [
            signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ] == before
        site.server.stop()
    assert not site.server.is_alive
    with socket.create_server((site.host, site.port)):
        pass


class Hanging:
    """A page that comes once it is released."""

    def __init__(self, many):
        self.asked, self.release = threading.Event(), threading.Event()
        self.site = many.enter_context(running(published.pages(metrics=self.draw)))
        many.callback(self.release.set)  # before the server is stopped

    def draw(self, _accept, _encoding):
        self.asked.set()
        self.release.wait(300)
        return b"page", {}


def test_stopping_is_bounded_while_a_page_hangs_and_a_client_dawdles(many):
    page = Hanging(many)
    for data in (ASK, b"GET /met"):
        many.enter_context(page.site.open(data))
    assert page.asked.wait(60)
    page.site.server.stop(timeout_s=2)
    assert not page.site.server.is_alive


def test_scrapes_beyond_the_queue_are_turned_away_and_health_still_answers(many):
    page = Hanging(many)
    waiting = [many.enter_context(page.site.open(ASK)) for _ in range(40)]
    with page.site.open(PROBE) as probe:
        assert probe.recv(15) == OK
    wait_for(lambda: len(select.select(waiting, [], [], 0)[0]) == 8, "eight turned away")
    page.release.set()
    first_lines = [raw.recv(12) for raw in waiting]
    assert (first_lines.count(b"HTTP/1.1 200"), first_lines.count(b"HTTP/1.1 503")) == (32, 8)


def test_a_page_that_breaks_is_an_error_500_and_the_server_lives(caplog):
    def broken(_accept, _encoding):
        raise ZeroDivisionError

    with (
        running(published.pages(metrics=broken)) as site,
        site.open(ASK) as raw,
        caplog.at_level("ERROR"),
    ):
        answer = raw.recv(4096)
        assert site.status("/-/healthy") == 200
    assert answer.startswith(b"HTTP/1.1 500")
    assert b"ZeroDivisionError" not in answer


def test_requests_leave_no_line_in_the_log(client, caplog):
    with caplog.at_level(logging.DEBUG):
        client.get("/metrics?token=canary")
        with client.open(b"not http at all\r\n\r\n") as raw:
            assert raw.recv(12) == b"HTTP/1.1 400"
    assert not [record for record in caplog.records if record.name.startswith("uvicorn")]


@pytest.mark.parametrize("limits", [Limits(exchange_s=0.5)])
@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET /metrics HTTP/1.1\r\nX: ",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n",
    ],
)
def test_a_request_that_does_not_come_is_cut_off_at_the_deadline_though_bytes_trickle(client, head):
    trickle = b"x" if head else b""
    with client.open(head) as raw, suppress(ConnectionError):
        while not select.select([raw], [], [], 0.05)[0] or raw.recv(65536):
            raw.sendall(trickle)


def test_an_idle_connection_outlives_the_deadline_and_is_used_again(client):
    with client.open() as raw:
        assert _is_answered(raw)
        (connection,) = client.server._front.connections
        wait_for(lambda: not connection._is_busy, "the end of the exchange")
        connection.loop.call_soon_threadsafe(connection._abort_if_busy)  # the deadline has come
        assert _is_answered(raw)


@pytest.mark.parametrize("limits", [Limits(keep_alive_s=1)])
def test_an_idle_connection_ends_after_its_keep_alive(client):
    with client.open(ASK) as raw:
        assert _has_ended(raw)


def test_requests_sent_ahead_are_all_answered(client):
    with client.open(
        PROBE * 5 + b"GET /-/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    ) as raw:
        received = b"".join(iter(lambda: raw.recv(65536), b""))
    assert received.count(OK) == 6


@pytest.mark.parametrize("limits", [Limits(header_bytes=2048)])
def test_headers_beyond_the_limit_are_refused(client):
    with client.open(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 4096) as raw:
        assert raw.recv(12) == b"HTTP/1.1 400"  # its end never came
        assert _has_ended(raw)


def test_metrics_come_packed_and_as_openmetrics_when_asked(client):
    accept = {"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
    status, headers, body = client.get("/metrics", **accept)
    assert (status, headers["content-encoding"]) == (200, "gzip")
    assert headers["content-type"].startswith("application/openmetrics-text")
    assert gzip.decompress(body).endswith(b"# EOF\n")


def test_other_paths_and_methods_get_their_plain_answer_and_none_names_the_server_software(client):
    wanted = {
        ("GET", "/nowhere"): 404,
        ("POST", "/metrics"): 405,
        ("HEAD", "/metrics"): 200,
        ("GET", "/"): 200,
    }
    answers = {(method, path): client.get(path, method=method) for method, path in wanted}
    assert {key: status for key, (status, _, _) in answers.items()} == wanted
    assert not any("server" in headers for _, headers, _ in answers.values())


def test_a_readiness_that_does_not_answer_counts_as_not_ready(many, monkeypatch):
    monkeypatch.setattr(web_app, "_HEALTH_S", 2)
    release = threading.Event()
    slow = SimpleNamespace(unhealthy=lambda: None, unready=lambda: release.wait(10))
    site = many.enter_context(running(published.pages(health=slow)))
    many.callback(release.set)
    assert site.get("/-/ready")[::2] == (503, b"not ready: no answer within 2 s\n")
    assert site.status("/-/healthy") == 200


SLOW = (
    b"",
    b"GET /metrics HTTP/1.1\r\nX: ",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n",
    PROBE,
)


@pytest.mark.slow
def test_scrapers_are_answered_each_time_among_a_thousand_slow_connections(many):
    """A scraper that connects each time, and one that keeps its connection."""
    with serving(limits=Limits(connections=128)) as site, closing(site.connect()) as regular:
        used = set()
        for _ in range(10):
            regular.request("GET", "/metrics", headers={"Authorization": basic(*KIM)})
            assert regular.getresponse().read() == b"page\n"
            used.add(regular.sock)
            for start in SLOW * 25:
                many.enter_context(site.open(start, is_small=True))
            assert site.get("/metrics", KIM)[::2] == (200, b"page\n")
        assert len(used) == 1
        assert len(site.server._front.connections) <= 128
        many.close()
        assert site.status("/metrics", KIM) == 200


def test_readers_that_take_no_answer_make_room_for_one_that_does(many):
    page = b"x" * 400_000
    with serving(access=Access(), page=page, limits=Limits(connections=32)) as site:
        for _ in range(5):
            for _ in range(40):
                reader = many.enter_context(site.open(ASK, is_small=True))
                assert reader.recv(
                    1, socket.MSG_PEEK
                )  # is being answered: as many at once would not make room but be answered
            assert site.get("/metrics")[::2] == (200, page)
