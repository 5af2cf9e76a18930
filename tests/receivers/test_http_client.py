import gc
import socket
import threading
import tracemalloc
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import pytest

from factories import SLOT
from monitor.boundary import link_local
from monitor.model.errors import DeliveryError
from monitor.model.instants import retry_after_s
from monitor.receivers.http_client import HttpAnswer, HttpClient, require_accepted
from monitor.receivers.http_transport import KEPT_BODY_BYTES
from servers import hanging_name, webhook
from servers.daemon import wait_for
from tables import parsed


def post(url, body=b"", timeout_s=5.0, ca_file=None):
    return HttpClient(url, who="hook", timeout_s=timeout_s, ca_file=ca_file).post(
        body, {"X-One": "1"}
    )


def failure(url, body=b"{}", **options):
    with pytest.raises(DeliveryError) as caught:
        post(url, body, **options)
    assert not caught.value.permanent
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return caught.value


def test_nothing_is_sent_to_where_clouds_give_out_credentials(collector, monkeypatch):
    monkeypatch.setattr(link_local, "_METADATA", {"127.0.0.1"})
    assert (
        "link-local address or the address of a cloud's metadata, and rankwatch sends nothing"
        in str(failure(collector.url))
    )
    assert not collector.requests


def trickle_chunk_size(collector, sock):
    sock.sendall(webhook.head(200, {"Transfer-Encoding": "chunked", "Connection": "close"}))
    for _ in range(10_000):
        sock.sendall(b"0")
        collector.rest(0.02)


@pytest.fixture(autouse=True)
def end_of_threads():
    """No thread of the client outlives its request for long."""
    yield
    wait_for(
        lambda: not [each for each in threading.enumerate() if each.name == "http"],
        "its threads' end",
    )


def test_the_status_counts_and_of_the_body_the_start_where_it_came_to_its_end_in_time(collector):
    large, huge = (webhook.answer(200, {}, b"x" * size) for size in (100_000, 300_000))
    collector.replies.extend([webhook.answer(400, {}, b"invalid"), large, huge])
    answers = [post(collector.url) for _ in range(3)]
    collector.replies.extend([webhook.trickle_body, trickle_chunk_size])
    answers += [post(collector.url, timeout_s=1) for _ in range(2)]
    bounded = (200, b"x" * KEPT_BODY_BYTES)
    found = [(each.status, each.body) for each in answers]
    assert found == [(400, b"invalid"), bounded, *[(200, None)] * 3]


def test_a_request_without_an_answer_may_have_arrived(collector):
    late = "did not answer within 0.5 s"
    for collector.default, said in (
        (webhook.hang, late),
        (webhook.trickle_headers, late),
        (webhook.disconnect, "closed the connection or did not answer in HTTP"),
    ):
        error = failure(collector.url, timeout_s=0.5)
        assert (str(error), error.may_be_known) == (f"hook at {collector.url} {said}", True)


def test_a_request_that_was_not_sent_did_not_arrive_and_its_error_does_not_show_the_path():
    unknown = "has a host name that cannot be resolved: check it"
    for place, said in (
        ("a..b:9", unknown),
        (f"{'x' * 64}.invalid:9", unknown),
        # Nobody listens at a port that only root may take.
        ("127.0.0.1:1", "refused the connection: check that the receiver runs on this port"),
    ):
        error = failure(f"http://{place}/canary-path?canary=1")
        assert (str(error), error.may_be_known) == (f"hook at http://{place} {said}", False)


def test_a_handshake_a_reader_or_a_resolver_that_hangs_is_cut_at_the_deadline(collector):
    assert not failure(collector.url.replace("http:", "https:"), timeout_s=0.3).may_be_known
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert not failure(url, bytes(64 * 1024 * 1024), timeout_s=0.3).may_be_known
    with hanging_name() as name:
        assert "did not answer within" in str(failure(f"http://{name}:1/", timeout_s=0.3))


@pytest.mark.parametrize(
    "reply, is_taken",
    [(webhook.gzip_bomb, True), (webhook.flood_chunk_size, True), (webhook.flood_headers, False)],
)
def test_an_answer_of_any_size_costs_little_memory_and_ends_at_the_deadline(
    collector, reply, is_taken
):
    collector.default = reply
    webhook.bomb()  # what is made to be sent is not counted
    gc.collect()
    tracemalloc.start()
    if is_taken:
        assert post(collector.url, timeout_s=0.5).status == 200
    else:
        assert failure(collector.url, timeout_s=0.1).may_be_known
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * 1024 * 1024


@pytest.fixture
def tls_collector(certificate):
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with webhook.running_webhook(context) as server:
        yield server


@pytest.mark.integration
def test_tls_obeys_the_deadline_and_a_certificate_nobody_vouches_for_is_refused_unless_its_authority_is_given(
    tls_collector, certificate
):
    assert "has a certificate of an unknown authority" in str(failure(tls_collector.url))
    assert not tls_collector.requests
    assert post(tls_collector.url, b"hi", ca_file=str(certificate)).status == 200
    tls_collector.default = webhook.trickle_headers
    assert "did not answer within 1 s" in str(
        failure(tls_collector.url, timeout_s=1, ca_file=str(certificate))
    )


def test_a_name_with_a_dead_address_before_a_live_one_is_reached(collector, monkeypatch):
    collector.default = webhook.answer(204)
    port = int(collector.url.rpartition(":")[2])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = unused.getsockname()
        found = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", place)
            for place in (dead, ("127.0.0.1", port))
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        assert post("http://two.test/").status == 204


PERMANENT, PASSING = (
    "400 401 402 403 404 405 410 413 414 422",
    "301 302 307 308 408 425 429 500 502 503 504 599",
)


def test_2xx_is_taken_and_each_other_status_is_permanent_or_may_pass():
    for status in (200, 201, 202, 204):
        require_accepted(HttpAnswer(status=status, headers={}), who="hook", now=SLOT)
    for status in map(int, f"{PERMANENT} {PASSING}".split()):
        answer = HttpAnswer(status=status, headers={"Retry-After": "7"})
        with pytest.raises(DeliveryError) as caught:
            require_accepted(answer, who="hook", now=SLOT)
        error = caught.value
        assert (error.permanent, error.retry_after_s) == (str(status) in PERMANENT, 7.0)
        assert error.may_be_known is (status >= 500)
        assert error.of_message is (status in {400, 413, 422})


def test_retry_after_is_seconds_or_a_date_or_nothing():
    for text, seconds in parsed("""
        ["120", 120.0]
        [" 1.5 ", 1.5]
        ["-3", 0.0]
        ["Mon, 08 Jan 2024 00:01:30 GMT", 90.0]
        ["Sun, 07 Jan 2024 00:00:00 GMT", 0.0]
    """):
        assert retry_after_s(text, SLOT) == seconds, text
    for unread in ("soon", "nan", "inf", "Mon, 01 Jan 99999999999 06:00:00 GMT", "", None):
        assert retry_after_s(unread, SLOT) is None, unread
