"""A recommender over real sockets. Each user has one behaviour: the right answer, or a fault.

    with running_recommender() as recommender:
        recommender.behaviour["u7"] = "bomb"

Fixture: ``recommender``. ``BEHAVIOURS`` names everything that it can do.
"""

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

import pytest

from monitor.sources import SourceOptions, open_source
from monitor.sources.http.hosts import HOSTS
from monitor.testing.contracts import request
from places import read_yaml
from servers.webhook import (
    Collector,
    answer,
    disconnect,
    gzip_bomb,
    hang,
    head,
    running_webhook,
    send_and_end,
    trickle_body,
)

CHUNKED = {"Transfer-Encoding": "chunked"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """One request."""

    user: str
    target: str
    headers: Mapping[str, str]
    attempt: int


@dataclass(kw_only=True)
class Recommender:
    """Its answers, and the requests to it. If ``lists`` has no list for a user, the list is ``[0, ..., k-1]``."""

    collector: Collector
    lists: dict[str, object] = field(default_factory=dict)
    behaviour: dict[str, str] = field(default_factory=dict)
    otherwise: str = "ok"
    asked: list[Asked] = field(default_factory=list)
    attempts: Counter[str] = field(default_factory=Counter)
    in_flight: set[Asked] = field(default_factory=set)
    most_at_once: int = 0

    @property
    def port(self):
        return int(self.collector.url.rpartition(":")[2])

    @property
    def url(self):
        return f"{self.collector.url}/recs/{{user}}?n={{k}}"

    def pull(self, *users, k=10, timeout_s=120, **options):
        """The lists of these users, from a source with these options."""
        source = open_source(SourceOptions.model_validate({"http": {"url": self.url, **options}}))
        return source.pull(request(*users, k=k, timeout_s=timeout_s))

    def list_of(self, asked):
        count = re.search(r"[?&]n=(\d+)", asked.target)
        return self.lists.get(asked.user, list(range(int(count[1]) if count else 10)))

    def body_of(self, asked):
        return json.dumps(self.list_of(asked)).encode()

    def respond(self, taken):
        """Choose the reply. The request is in flight for a moment, until the first byte of its answer is sent."""
        user = unquote(taken.path.split("?")[0].split("/")[2])
        self.attempts[user] += 1
        attempt, headers = self.attempts[user], taken.headers
        asked = Asked(user=user, target=taken.path, headers=headers, attempt=attempt)
        self.asked.append(asked)
        self.in_flight.add(asked)
        self.most_at_once = max(self.most_at_once, len(self.in_flight))
        answer_now = BEHAVIOURS[self.behaviour.get(user, self.otherwise)](self, asked)

        def reply(collector, sock):
            collector.rest(0.001)
            self.in_flight.discard(asked)
            answer_now(collector, sock)

        return reply


def _answer(body, status=200, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return answer(status, {"Content-Type": "application/json", **named}, body)


def _always(reply):
    return lambda *_: reply


def _json(make):
    return lambda self, asked: _answer(json.dumps(make(self.list_of(asked), asked)).encode())


def _cached(*, heeds_clients):
    """Each answer begins one item later. A cache repeats it, unless it ``heeds_clients`` that do not want that."""

    def behave(self, asked):
        wishes = {
            each.headers.get("cache-control") for each in self.asked if each.user == asked.user
        }
        is_hit = asked.attempt > 1 and not (heeds_clients and "no-cache, no-store" in wishes)
        items = list(range(10))[0 if is_hit else asked.attempt - 1 :]
        return _answer(json.dumps(items).encode(), X_Cache="HIT" if is_hit else "MISS")

    return behave


def _until(attempt, fault):
    """Answer with the fault up to this attempt, and rightly from then on."""
    return lambda self, asked: (fault if asked.attempt <= attempt else BEHAVIOURS["ok"])(
        self, asked
    )


def _stream_a_gigabyte(_collector, sock):
    """In chunks, without a declared length."""
    sock.sendall(head(200, CHUNKED))
    for _ in range(1024):
        sock.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
    sock.sendall(b"0\r\n\r\n")


def _cut(self, asked):
    body = self.body_of(asked)
    return send_and_end(head(200, {"Content-Length": str(len(body))}) + body[: len(body) // 2])


def _gzip(self, asked):
    return _answer(zlib.compress(self.body_of(asked), wbits=31), Content_Encoding="gzip")


def _chunked(self, asked):
    """The right answer, a few bytes in each packet."""
    body = self.body_of(asked)

    def reply(_collector, sock):
        sock.sendall(head(200, CHUNKED))
        for start in range(0, len(body), 7):
            part = body[start : start + 7]
            sock.sendall(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        sock.sendall(b"0\r\n\r\n")

    return reply


BEHAVIOURS = {
    "ok": _json(lambda items, _: items),
    "named": _json(lambda items, asked: {"user": asked.user, "items": items}),
    "cached": _cached(heeds_clients=True),
    "cached_for_all": _cached(heeds_clients=False),
    "wrong_user": _json(lambda items, _: {"user": "somebody-else", "items": items}),
    "gzip": _gzip,
    "chunked": _chunked,
    "slow": _always(hang),
    "trickle": _always(trickle_body),
    "huge": _always(_stream_a_gigabyte),
    "huge_declared": _always(_answer(b"[", Content_Length=str(2**30))),
    "bomb": _always(gzip_bomb),
    "cut_gzip": _always(
        _answer(zlib.compress(b"[1, 2, 3]", wbits=31)[:-4], Content_Encoding="gzip")
    ),
    "deep": _always(_answer(b"[" * 200_000)),
    "digits": _always(_answer(b"[" + b"9" * 10_000 + b"]")),
    "cut": _cut,
    "hang_up": _always(disconnect),
    "no_http": _always(send_and_end(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
}
for _name, _given in read_yaml("tests/servers/recommender.yaml").items():
    BEHAVIOURS[_name] = _always(_answer(_given.pop("body").encode("latin-1"), **_given))
BEHAVIOURS["unavailable_twice"] = _until(2, BEHAVIOURS["unavailable"])
BEHAVIOURS["limited_once"] = _until(1, _always(_answer(b"{}", 429, Retry_After="1")))


@contextmanager
def running_recommender(tls=None):
    """Start it on a random loopback port. At the end every connection is closed."""
    with running_webhook(tls) as collector:
        recommender = Recommender(collector=collector)
        collector.respond = recommender.respond
        yield recommender
    # Another server may get the port, and must not wait for a pause that this one asked for.
    HOSTS.pop(f"127.0.0.1:{recommender.port}", None)


@pytest.fixture
def recommender():
    with running_recommender() as server:
        yield server
