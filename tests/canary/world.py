"""A configuration with a canary in every place where a secret can stand, and a hostile world that has heard them all."""

import base64
import json
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import bcrypt
import psycopg
from psycopg import sql
from sqlalchemy import make_url

from canary.marks import MARK, canary, owners_in
from servers import free_port
from servers.postgres import PostgresServer
from servers.smtp import MailServer
from servers.smtp import serve as serve_mail
from servers.webhook import Collector, Reply, Request, answer, hang, head
from servers.webhook import serve as serve_hook
from service.lists_world import APART, SIMILAR, write_lists

Way = Literal["direct", "file", "environment"]
SINGER = "singer"
LOOKER = ("kim", canary("webpassword"))
"""Who may look at the pages."""
FAULTS = (
    "refuse",
    "fail",
    "redirect",
    "hang",
    "odd",
    "cookie",
    "garbage",
    "lie",
    "plain",
    "untrusted",
    "nowhere",
    "closed",
)
"""How a place answers that is not good: the last four by never hearing of the request."""
UNHEARD = FAULTS[-4:]


def all_of(request: Request) -> bytes:
    """Everything that was sent."""
    lines = [request.path, *(f"{name}: {value}" for name, value in request.headers.items())]
    return "\n".join(lines).encode() + b"\n" + request.body


def _send(data: bytes) -> Reply:
    def reply(_collector: Collector, sock: socket.socket) -> None:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_RDWR)

    return reply


def reply_to(request: Request) -> Reply:
    """Answer by the first part of the path.

    A fault repeats what it was told wherever an answer has room.
    """
    behaviour = request.path.split("/")[1]
    told, line = all_of(request)[:4000], request.path
    coded = [
        base64.b64encode(request.body[:100]).decode(),
        quote(request.body[:100]),
        told.decode("latin-1"),
    ]
    echo = json.dumps({"message": line, "errors": coded, "status": "invalid event"}).encode()
    headers = {"X-Echo": line, "Set-Cookie": f"{line}=1; {line}"}
    if behaviour == "good":
        return _welcome(request)
    return {
        "refuse": answer(400, headers, echo),
        "fail": answer(500, headers, echo),
        "redirect": answer(302, headers | {"Location": f"http://127.0.0.1:1{line}"}, echo),
        "hang": hang,
        "odd": _send(
            head(200, {"Content-Length": "0"})[:-2]
            + b"no header but "
            + line.encode()
            + b"\r\n\r\n"
        ),
        "cookie": answer(401, {"Set-Cookie": f"{line} {line}=1"}, echo),
        "garbage": _send(told),
        "lie": answer(200, headers, echo),
    }[behaviour]


def _welcome(request: Request) -> Reply:
    if "/recs/" in request.path:
        return answer(200, body=json.dumps(SIMILAR).encode())
    return answer(
        200, body=b'{"status": "success"}' if request.path.endswith("/v2/enqueue") else b"ok"
    )


@dataclass
class World:
    """Servers that listen.

    ``environ`` holds the secrets that do not stand in a configuration itself.
    """

    folder: Path
    hook: Collector
    secure: Collector
    mail: MailServer
    hostile_mail: MailServer
    certificate: Path
    closed: int = field(default_factory=free_port)
    environ: dict[str, str] = field(default_factory=dict)
    heard: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def given(self, tree: Any, way: Way) -> Any:
        """The same configuration with every secret given in this way."""
        if isinstance(tree, list):
            return [self.given(each, way) for each in tree]
        if way == "direct" or not isinstance(tree, dict):
            return tree
        found: dict[str, Any] = {}
        for key, value in tree.items():
            if key in {"body", "with"}:  # values of the user's own
                found[key] = value
            elif isinstance(value, str) and MARK in value:
                found |= self._given_aside(key, value, way)
            else:
                found[key] = self.given(value, way)
        return found

    def _given_aside(self, key: str, secret: str, way: Way) -> dict[str, str]:
        name = f"S{len(self.environ)}"
        self.environ[name] = secret
        if way == "environment":
            return {key: f"${{{name}}}"}
        (self.folder / name).write_text(secret + "\n")
        return {f"{key}_file": name}

    def listen(self, request: Request) -> Reply:
        """Remember whose secrets a request held, and answer it."""
        if request.path.startswith("/"):  # not the greeting of TLS
            self.heard.append((request.path, owners_in(all_of(request))))
        return reply_to(request)

    def place(self, behaviour: str) -> str:
        """Where somebody answers so, or nobody."""
        return {
            "plain": f"{self.hook.url.replace('http', 'https')}/plain",
            "untrusted": f"{self.secure.url}/untrusted",
            "nowhere": "http://nowhere.invalid/nowhere",
            "closed": f"http://127.0.0.1:{self.closed}/closed",
        }.get(behaviour, f"{self.hook.url}/{behaviour}")

    def url(self, behaviour: str, what: str) -> str:
        return f"{self.place(behaviour)}/{canary(what + 'path')}?k={canary(what + 'query')}"

    def receivers(self) -> Iterator[dict[str, Any]]:
        for way in ("good", *FAULTS):
            headers, secret = {"X-Key": canary(f"hook{way}header")}, canary(f"hook{way}secret")
            told = {"name": f"hook-{way}", "timeout": "500ms", "headers": headers, "secret": secret}
            told |= self.proxied("hook") if way == "closed" else {}
            yield {"webhook": told | {"url": self.url(way, f"hook{way}")}}
        for way in ("good", "refuse", "fail", "redirect", "odd", "garbage", "lie"):
            yield {
                "slack": {
                    "name": f"slack-{way}",
                    "timeout": "500ms",
                    "url": self.url(way, f"slack{way}"),
                }
            }
            told = {"name": f"pager-{way}", "timeout": "500ms", "url": self.place(way)}
            yield {"pagerduty": told | {"routing_key": canary(f"pager{way}")}}
        basic: dict[str, Any] = {"basic_auth": {"username": "me", "password": canary("basic")}}
        for way, auth in {"good": basic, "refuse": {"bearer_token": canary("bearer")}}.items():
            yield {
                "alertmanager": {
                    "name": f"peer-{way}",
                    "urls": [self.place(way)],
                    "timeout": "500ms",
                    **auth,
                }
            }
        good = self.place("good")
        places: dict[str, dict[str, Any]] = {
            "slack": {"url": good},
            "pagerduty": {"url": good, "routing_key": "0" * 32},
        }
        for kind, its_place in (places | {"alertmanager": {"urls": [good]}}).items():
            yield {
                kind: {
                    "name": f"{kind}-proxy",
                    "timeout": "500ms",
                    **its_place,
                    **self.proxied(kind),
                }
            }
        for name, server in (("mail-good", self.mail), ("mail-refuse", self.hostile_mail)):
            login = {"username": "me", "password": canary("mail")}
            where = {
                "host": "127.0.0.1",
                "port": server.port,
                "ca_file": str(self.certificate),
                "timeout": "1s",
            }
            yield {
                "email": {
                    "name": name,
                    "sender": "r@x.test",
                    "to": ["kim@x.test"],
                    **where,
                    **login,
                }
            }
        for way in ("good", "refuse", "garbage"):
            place = f"{self.hook.url.replace('http', 'json')}/{way}"
            url = f"{place}/{canary(f'apprise{way}path')}?-k={canary(f'apprise{way}query')}"
            yield {"apprise": {"name": f"apprise-{way}", "timeout": "1s", "urls": {"one": url}}}

    def proxied(self, what: str) -> dict[str, str]:
        """A proxy that nobody answers at, whose password is a canary."""
        return {"proxy": f"http://me:{canary(what + 'proxy')}@127.0.0.1:{self.closed}"}

    def pings(self) -> list[dict[str, Any]]:
        ways = ("good", "refuse", "odd", "garbage", "untrusted", "nowhere")
        pings = [
            {"name": f"ping-{way}", "timeout": "500ms", "url": self.url(way, f"ping{way}")}
            for way in ways
        ]
        return [
            *pings,
            {
                "name": "ping-proxy",
                "timeout": "500ms",
                "url": self.place("good"),
                **self.proxied("ping"),
            },
        ]

    def http(self, url: str, **options: Any) -> dict[str, Any]:
        return {"http": {"timeout": "500ms", "retries": 0, "concurrency": 4, "url": url, **options}}

    def lists_url(self, behaviour: str, what: str) -> str:
        return f"{self.place(behaviour)}/recs/{{user}}/{canary(what + 'path')}?k={canary(what + 'query')}"

    def feed(self, source: str, every: str) -> dict[str, Any]:
        """The comparison that works."""
        body = {"key": canary("sourcebody"), "deep": [{"key": canary("sourcedeep")}]}
        secrets = {
            "token": canary("sourcetoken"),
            "headers": {"X-Key": canary("sourceheader")},
            "body": body,
        }

        def sql_of(**rest: str) -> dict[str, Any]:
            return {"sql": {"url": source, **rest}}

        return {
            "name": "feed",
            "every": every,
            "k": 5,
            "baseline": self.http(self.lists_url("good", "source"), method="POST", **secrets),
            "candidate": sql_of(table="lists", user="user_id", items="items"),
            "users": sql_of(table="users", user="user_id"),
            "metrics": ["extended_tau", "rbo"],
            "item_weights": sql_of(table="items", item="item", weight="weight"),
            "item_titles": sql_of(table="items", item="item", title="title"),
            "relevance": sql_of(table="bought", user="user_id", item="item"),
            "noise_floor": {"retrain": sql_of(table="lists", user="user_id", items="items")},
            "rules": [
                {
                    "alert": "SimilarityLow",
                    "metric": "extended_tau",
                    "below": 0.35,
                    "severity": "critical",
                }
            ],
        }

    def broken(self, source: str) -> Iterator[dict[str, Any]]:
        """Comparisons whose candidates or users cannot be had."""
        url, columns = make_url(source), {"user": "user_id", "items": "items"}
        away = url.set(
            host="127.0.0.1",
            port=self.closed,
            drivername="postgresql",
            username="me",
            password=canary("sqlaway"),
        )
        wrong = url.set(password=canary("sqlwrong"))
        odd = url.update_query_dict({"keepalives_idle": canary("sqlquery")})
        for name, place in {"away": away, "wrong": wrong, "odd": odd}.items():
            text = place.render_as_string(hide_password=False)
            yield comparison_of(f"sql-{name}", {"sql": {"url": text, "table": "lists", **columns}})
        for way in FAULTS:
            proxied = self.proxied("source") if way == "closed" else {}
            yield comparison_of(
                f"http-{way}", self.http(self.lists_url(way, f"source{way}"), **proxied)
            )
        remote = f"sc://127.0.0.1:{self.closed}/;use_ssl=true;token={canary('spark')}"
        spark = {"remote": remote, "conf": {"spark.key": canary("sparkconf")}}
        rows = {"spark": {**spark, "table": "lists", **columns}}
        yield comparison_of(
            "spark", rows, {"spark": {**spark, "table": "users", "user": "user_id"}}
        ) | {"baseline": rows}
        redis = {"url": f"redis://me:{canary('redispassword')}@127.0.0.1:{self.closed}/0"}
        lists = {"redis": {**redis, "type": "list", "key": "recs:{user}"}}
        yield comparison_of("redis", lists, {"redis": {**redis, "key": "users"}})
        headers = {"X-Key": canary("peopleheader")}
        people = {
            "timeout": "500ms",
            "url": self.url("good", "people"),
            "token": canary("peopletoken"),
            "headers": headers,
        }
        yield comparison_of("http-users", lists, {"http": people})
        proxied = {"timeout": "500ms", "url": self.place("good"), **self.proxied("people")}
        yield comparison_of("http-proxied-users", lists, {"http": proxied})
        where = self.place("refuse").replace("://", f"://me:{canary('sourcepassword')}@")
        yield comparison_of("http-user", self.http(f"{where}/{{user}}"))
        keys = {"region": "r", "access_key": canary("awstoken"), "secret_key": canary("awssecret")}
        for name, auth in {"hmac": {"secret": canary("hmacsecret")}, "aws": keys}.items():
            variables = {"model": name, "request": {"of": "{user}", "key": canary(f"{name}body")}}
            options: dict[str, Any] = {
                "profile": "torchserve",
                "auth": {name: auth},
                "with": variables,
            }
            yield comparison_of(f"http-{name}", self.http(self.place("good"), **options))
        client = {
            "token_url": self.url("refuse", "oauth"),
            "client_id": "me",
            "client_secret": canary("oauthheader"),
        }
        yield comparison_of(
            "http-oauth", self.http(f"{self.place('good')}/{{user}}", auth={"oauth2": client})
        )

    def write_web(self) -> Path:
        """Who may look: one whose password is a canary, and one whose hash is."""
        known = bcrypt.hashpw(canary("webpassword").encode(), bcrypt.gensalt(4)).decode()
        users = {LOOKER[0]: known, "nobody": f"$2b$04${'.' * 22}{canary('webhash')[:31]}"}
        path = self.folder / "web.yaml"
        path.write_text(json.dumps({"basic_auth_users": users}))
        return path

    def write(self, way: Way, *, database: str, every: str) -> Path:
        """The configuration with every secret given in this way."""
        write_lists(self.folder / "baseline.jsonl", SIMILAR)
        tree = {
            "listen": "127.0.0.1:0",
            "web_config_file": str(self.write_web()),
            "log": {"level": "debug", "format": "json"},
            "database": database,
            "comparisons": [self.feed(database, every), *self.broken(database)],
            "receivers": [*self.receivers()],
            "pings": self.pings(),
        }
        path = self.folder / f"{way}.yaml"
        path.write_text(json.dumps(self.given(tree, way)))
        return path


def comparison_of(
    name: str, candidate: dict[str, Any], users: dict[str, Any] | None = None
) -> dict[str, Any]:
    lists = {"file": {"path": "baseline.jsonl", "user": "user_id", "items": "items"}}
    least = {"deadline": "30s", "users": users or {"all": True, "sample": 4}, "metrics": ["rbo"]}
    return {"name": name, "every": "5m", "k": 5, "baseline": lists, "candidate": candidate, **least}


def fill(connection: psycopg.Connection) -> None:
    """The tables that sources read."""
    connection.execute("CREATE TABLE lists (user_id text, items int[])")
    connection.execute("CREATE TABLE users (user_id text)")
    connection.execute("CREATE TABLE items (item int, weight float, title text)")
    connection.execute("CREATE TABLE bought (user_id text, item int)")
    users = [f"u{number}" for number in range(20)]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO lists VALUES (%s, %s)", [(user, APART) for user in users])
        cursor.executemany("INSERT INTO users VALUES (%s)", [(user,) for user in users])
        cursor.executemany(
            "INSERT INTO items VALUES (%s, 1, %s)",
            [(item, f"title {item}") for item in (*APART, *SIMILAR)],
        )


@contextmanager
def singer(server: PostgresServer, database: str) -> Iterator[str]:
    """URL of that database for a user whose password is a canary."""
    url = make_url(database)
    name = f"{SINGER}_{os.getpid()}_{threading.get_ident()}"
    role, password = sql.Identifier(name), canary("database")
    with server.connect(str(url.database)) as admin:
        admin.execute(
            sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(
                role, sql.Literal(password)
            )
        )
    try:
        yield url.set(username=name, password=password).render_as_string(hide_password=False)
    finally:
        with server.connect(str(url.database)) as admin:
            admin.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(role))
            admin.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(role, role))


def _refuse_mail(server: MailServer) -> None:
    told = canary("mail")
    server.plan("AUTH", *[f"535 5.7.8 {told} is wrong", f"435 {told}"] * 50)


@contextmanager
def hostile_world(folder: Path, certificate: Path) -> Iterator[World]:
    """Everybody who is told or asked, most of them hostile."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with ExitStack() as opened:
        enter = opened.enter_context
        hook = enter(contextmanager(serve_hook)())
        secure = enter(contextmanager(serve_hook)(tls))
        mails = [enter(contextmanager(serve_mail)(certificate)) for _ in range(2)]
        for mail in mails:
            mail.login = ("me", canary("mail"))
        _refuse_mail(mails[1])
        world = World(
            folder=folder,
            hook=hook,
            secure=secure,
            mail=mails[0],
            hostile_mail=mails[1],
            certificate=certificate,
        )
        hook.respond = world.listen
        yield world
