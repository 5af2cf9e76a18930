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

from canary.marks import canary, owners_in
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
FAULTS = ("refuse", "fail", "redirect", "hang", "odd", "cookie", "garbage", "lie", "plain", "untrusted", "nowhere", "closed")
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
    """Answer by the first part of the path; a fault repeats what it was told wherever an answer has room."""
    behaviour = request.path.split("/")[1]
    told, line = all_of(request)[:4000], request.path
    coded = [base64.b64encode(request.body[:100]).decode(), quote(request.body[:100]), told.decode("latin-1")]
    echo = json.dumps({"message": line, "errors": coded, "status": "invalid event"}).encode()
    headers = {"X-Echo": line, "Set-Cookie": f"{line}=1; {line}"}
    if behaviour == "good":
        return _welcome(request)
    return {
        "refuse": answer(400, headers, echo),
        "fail": answer(500, headers, echo),
        "redirect": answer(302, headers | {"Location": f"http://127.0.0.1:1{line}"}, echo),
        "hang": hang,
        "odd": _send(head(200, {"Content-Length": "0"})[:-2] + b"no header but " + line.encode() + b"\r\n\r\n"),
        "cookie": answer(401, {"Set-Cookie": f"{line} {line}=1"}, echo),
        "garbage": _send(told),
        "lie": answer(200, headers, echo),
    }[behaviour]


def _welcome(request: Request) -> Reply:
    if "/recs/" in request.path:
        return answer(200, body=json.dumps(SIMILAR).encode())
    return answer(200, body=b'{"status": "success"}' if request.path.endswith("/v2/enqueue") else b"ok")


@dataclass
class World:
    """Servers that listen, and where secrets are to stand when they are not in the configuration itself."""

    folder: Path
    hook: Collector
    secure: Collector
    mail: MailServer
    hostile_mail: MailServer
    certificate: Path
    closed: int = field(default_factory=free_port)
    environ: dict[str, str] = field(default_factory=dict)
    way: Way = "direct"
    heard: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def given(self, key: str, text: str) -> dict[str, str]:
        """The secret under this key, given in the way of the day."""
        if self.way == "direct":
            return {key: text}
        name = f"S{len(self.environ)}"
        self.environ[name] = text
        if self.way == "environment":
            return {key: f"${{{name}}}"}
        (self.folder / name).write_text(text + "\n")
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

    def receivers(self) -> list[dict[str, Any]]:
        given = self.given
        found: list[dict[str, Any]] = []
        for way in ("good", *FAULTS):
            base = {"name": f"hook-{way}", "timeout": "500ms", "headers": given("X-Key", canary(f"hook{way}header"))}
            secret = given("secret", canary(f"hook{way}secret"))
            found.append({"webhook": base | given("url", self.url(way, f"hook{way}")) | secret})
        for way in ("good", "refuse", "fail", "redirect", "odd", "garbage", "lie"):
            told = {"name": f"slack-{way}", "timeout": "500ms"}
            found.append({"slack": told | given("url", self.url(way, f"slack{way}"))})
            told = {"name": f"pager-{way}", "timeout": "500ms", "url": self.place(way)}
            found.append({"pagerduty": told | given("routing_key", canary(f"pager{way}"))})
        for way, auth in (
            ("good", {"basic_auth": {"username": "me", **given("password", canary("basic"))}}),
            ("refuse", given("bearer_token", canary("bearer"))),
        ):
            found.append({"alertmanager": {"name": f"peer-{way}", "urls": [self.place(way)], "timeout": "500ms", **auth}})
        for name, server in (("mail-good", self.mail), ("mail-refuse", self.hostile_mail)):
            login = {"username": "me", **given("password", canary("mail"))}
            where = {"host": "127.0.0.1", "port": server.port, "ca_file": str(self.certificate), "timeout": "1s"}
            found.append({"email": {"name": name, "sender": "r@x.test", "to": ["kim@x.test"], **where, **login}})
        place = self.hook.url.replace("http", "json")
        for way in ("good", "refuse", "garbage"):
            url = f"{place}/{way}/{canary(f'apprise{way}path')}?-k={canary(f'apprise{way}query')}"
            found.append({"apprise": {"name": f"apprise-{way}", "timeout": "1s", "urls": given("one", url)}})
        return found

    def pings(self) -> list[dict[str, Any]]:
        ways = ("good", "refuse", "odd", "garbage", "untrusted", "nowhere")
        return [{"name": f"ping-{way}", "timeout": "500ms", **self.given("url", self.url(way, f"ping{way}"))} for way in ways]

    def http(self, behaviour: str, what: str) -> dict[str, Any]:
        return self.asking(f"{self.place(behaviour)}/recs/{{user}}/{canary(what + 'path')}?k={canary(what + 'query')}")

    def asking(self, url: str) -> dict[str, Any]:
        return {"http": {"timeout": "500ms", "retries": 0, "concurrency": 4} | self.given("url", url)}

    def comparisons(self, source: str, every: str) -> list[dict[str, Any]]:
        given = self.given
        asked = self.http("good", "source")
        asked["http"] |= given("token", canary("sourcetoken")) | {
            "method": "POST",
            "body": {"key": canary("sourcebody"), "deep": [{"key": canary("sourcedeep")}]},
            "headers": given("X-Key", canary("sourceheader")),
        }

        def sql_of(**rest: str) -> dict[str, Any]:
            return {"sql": given("url", source) | rest}

        feed = {
            "name": "feed",
            "every": every,
            "k": 5,
            "baseline": asked,
            "candidate": sql_of(table="lists", user="user_id", items="items"),
            "users": sql_of(table="users", user="user_id"),
            "metrics": ["extended_tau", "rbo"],
            "item_weights": sql_of(table="items", item="item", weight="weight"),
            "item_titles": sql_of(table="items", item="item", title="title"),
            "relevance": sql_of(table="bought", user="user_id", item="item"),
            "noise_floor": {"retrain": sql_of(table="lists", user="user_id", items="items")},
            "rules": [{"alert": "SimilarityLow", "metric": "extended_tau", "below": 0.35, "severity": "critical"}],
        }
        return [feed, *self.broken(source)]

    def broken(self, source: str) -> Iterator[dict[str, Any]]:
        url = make_url(source)
        away = url.set(host="127.0.0.1", port=self.closed, drivername="postgresql")
        odd = url.update_query_dict({"keepalives_idle": canary("sqlquery")})
        wrong = url.set(password=canary("sqlwrong")) if url.password else url.set(database=f"{url.database}-not-there")
        others = {
            "away": away.set(username="me", password=canary("sqlaway")),
            "wrong": wrong,
            **({"odd": odd} if url.password else {}),
        }
        given = self.given
        for name, place in others.items():
            text = place.render_as_string(hide_password=False)
            options = self.given("url", text) | {"table": "lists", "user": "user_id", "items": "items"}
            yield comparison_of(f"sql-{name}", {"sql": options})
        for way in FAULTS:
            yield comparison_of(f"http-{way}", self.http(way, f"source{way}"))
        remote = f"sc://127.0.0.1:{self.closed}/;use_ssl=true;token={canary('spark')}"
        spark = self.given("remote", remote) | {"conf": self.given("spark.key", canary("sparkconf"))}
        rows = {"spark": spark | {"table": "lists", "user": "user_id", "items": "items"}}
        users = {"spark": spark | {"table": "users", "user": "user_id"}}
        yield comparison_of("spark", rows) | {"baseline": rows, "users": users}
        kept = given("url", f"redis://me:{canary('redispassword')}@127.0.0.1:{self.closed}/0")
        lists = {"redis": kept | {"type": "list", "key": "recs:{user}"}}
        yield comparison_of("redis", lists) | {"users": {"redis": kept | {"key": "users"}}}
        asked = {"timeout": "500ms", "headers": given("X-Key", canary("peopleheader"))} | given("token", canary("peopletoken"))
        yield comparison_of("http-users", lists) | {"users": {"http": asked | given("url", self.url("good", "people"))}}
        where = self.place("refuse").replace("://", f"://me:{canary('sourcepassword')}@")
        yield comparison_of("http-user", self.asking(f"{where}/{{user}}"))
        keys = given("access_key", canary("awstoken")) | given("secret_key", canary("awssecret"))
        for name, auth in {"hmac": given("secret", canary("hmacsecret")), "aws": {"region": "r"} | keys}.items():
            asked = self.asking(self.place("good"))["http"] | {"profile": "torchserve", "auth": {name: auth}}
            variables = {"model": name, "request": {"of": "{user}", "key": canary(f"{name}body")}}
            yield comparison_of(f"http-{name}", {"http": asked | {"with": variables}})
        client = {"client_id": "me", **given("client_secret", canary("oauthheader"))}
        client |= given("token_url", self.url("refuse", "oauth"))
        asked = self.asking(f"{self.place('good')}/{{user}}")["http"] | {"auth": {"oauth2": client}}
        yield comparison_of("http-oauth", {"http": asked})

    def write_web(self) -> Path:
        """Who may look: one whose password is a canary, and one whose hash is."""
        known = bcrypt.hashpw(canary("webpassword").encode(), bcrypt.gensalt(4)).decode()
        users = {LOOKER[0]: known, "nobody": f"$2b$04${'.' * 22}{canary('webhash')[:31]}"}
        path = self.folder / "web.yaml"
        path.write_text(json.dumps({"basic_auth_users": users}))
        return path

    def write(self, way: Way, *, database: str, source: str, every: str = "1h") -> Path:
        """The configuration with every secret given in this way."""
        self.way = way
        write_lists(self.folder / "baseline.jsonl", SIMILAR)
        tree = {
            "listen": "127.0.0.1:0",
            "web_config_file": str(self.write_web()),
            "log": {"level": "debug", "format": "json"},
            **self.given("database", database),
            "comparisons": self.comparisons(source, every),
            "receivers": self.receivers(),
            "pings": self.pings(),
        }
        path = self.folder / f"{way}.yaml"
        path.write_text(json.dumps(tree))
        return path


def comparison_of(name: str, candidate: dict[str, Any]) -> dict[str, Any]:
    lists = {"file": {"path": "baseline.jsonl", "user": "user_id", "items": "items"}}
    least = {"deadline": "30s", "users": {"all": True, "sample": 4}, "metrics": ["rbo"]}
    return {"name": name, "every": "5m", "k": 5, "baseline": lists, "candidate": candidate, **least}


def write_small(folder: Path, database: str) -> Path:
    """A configuration of a database and little else."""
    tree = {"database": database, "comparisons": [comparison_of("feed", {"file": {"path": "x", "user": "u", "items": "i"}})]}
    path = folder / "small.yaml"
    path.write_text(json.dumps(tree))
    return path


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
        cursor.executemany("INSERT INTO items VALUES (%s, 1, %s)", [(item, f"title {item}") for item in (*APART, *SIMILAR)])


@contextmanager
def singer(server: PostgresServer, database: str) -> Iterator[str]:
    """URL of that database for a user whose password is a canary."""
    url = make_url(database)
    name = f"{SINGER}_{os.getpid()}_{threading.get_ident()}"
    role, password = sql.Identifier(name), canary("database")
    with server.connect(str(url.database)) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(role, sql.Literal(password)))
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
        world = World(folder=folder, hook=hook, secure=secure, mail=mails[0], hostile_mail=mails[1], certificate=certificate)
        hook.respond = world.listen
        yield world
