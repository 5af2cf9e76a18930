"""A thousand connections that want nothing good, while somebody scrapes."""

import socket
import ssl
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from monitor.web.access import Access
from monitor.web.connections import Limits
from servers.certificates import Authority, Pair, authority, server_pair  # noqa: F401 - fixtures
from web.sites import KIM, Site, basic, serving

# ruff: noqa: F811 - fixtures are imported

ASK = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
HALF_HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
SLOW = {
    "silent": b"",
    "half a head": b"GET /metrics HTTP/1.1\r\nX: ",
    "half a body": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n",
    "idle after an answer": b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a handshake": HALF_HELLO,
}
THOUSAND, ROUNDS = 1000, 10


def _open(site: Site, sent: bytes) -> socket.socket:
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.settimeout(20)
    raw.connect(("127.0.0.1", site.port))
    raw.sendall(sent)
    return raw


def _own_ends(port: int) -> int:
    """Connections that the server holds open, as the kernel counts them."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "encrypted"])
def test_a_scraper_is_answered_each_time_among_a_thousand_slow_connections(
    health: Any, many: ExitStack, authority: Authority, server_pair: Pair, is_encrypted: bool
) -> None:
    tls: ssl.SSLContext | None = None
    configured: dict[str, Any] = {}
    if is_encrypted:
        tls = authority.client_context()
        configured = {"tls_server_config": {"cert_file": str(server_pair.cert), "key_file": str(server_pair.key)}}
    with serving(health, tls=tls, limits=Limits(connections=128), **configured) as site:
        kinds = list(SLOW.values())
        found = []
        for turn in range(ROUNDS):
            for number in range(THOUSAND // ROUNDS):
                many.enter_context(_open(site, kinds[number % len(kinds)]))
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
                many.enter_context(_open(site, kinds[number % len(kinds)]))
        assert len(used) == 1


def test_readers_that_take_no_answer_make_room_for_one_that_does(health: Any, many: ExitStack) -> None:
    page = b"x" * 400_000
    with serving(health, Access(), page=page, limits=Limits(connections=32)) as site:
        for _ in range(5):
            for _ in range(40):
                reader = many.enter_context(_open(site, ASK))
                assert reader.recv(1, socket.MSG_PEEK)  # is being answered: as many at once would not make room but be answered
            assert site.get("/metrics")[::2] == (200, page)
