"""Faults of every kind of source in which other programs quote a user's id: how the source is asked, and what is said of it."""

import base64
import gzip
import json
import re
import socketserver
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as Asked
from urllib.request import urlopen

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from canary.marks import canary
from servers import free_port, listening
from servers.buckets import running_buckets
from servers.mariadb import running_mariadb
from servers.redis import emptied_redis, shared_redis
from servers.webhook import Reply, Request, answer, head, serve

USERS = [canary(f"user{letter}") for letter in "abcdefgh"]
USER = USERS[0]
JSON_LISTS = "".join(json.dumps({"user": user, "items": [1, 2]}) + "\n" for user in USERS)
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """``told``: pattern of the cause that was planted.

    ``users``: the source of users, if that has the fault.
    """

    name: str
    candidate: Given
    told: str
    users: Given | None = None


@dataclass(slots=True)
class Planter:
    """Writes what is broken, and starts what answers wrongly, until ``running`` ends."""

    folder: Path
    running: ExitStack
    count: int = 0
    faults: list[Fault] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, candidate: Given, told: str, users: Given | None = None) -> None:
        self.faults.append(Fault(name, candidate, told, users))

    def file(
        self, name: str, content: bytes | str, told: str, suffix: str = "jsonl", **columns: Any
    ) -> None:
        path = self.folder / f"{name}.{suffix}"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        named = columns or {"user": "user", "items": "items"}
        self.add(name, {"file": {"path": str(path), **named}}, told)

    def parquet(self, name: str, told: str, **columns: Any) -> None:
        pq.write_table(pa.table(columns), self.folder / f"{name}.parquet")
        self.add(
            name,
            {
                "file": {
                    "path": str(self.folder / f"{name}.parquet"),
                    "user": "user",
                    "items": "items",
                }
            },
            told,
        )

    def sql(self, name: str, url: str, query: str, told: str) -> None:
        self.add(name, {"sql": {"url": url, "query": query, "user": "who", "items": "what"}}, told)

    def http(self, name: str, respond: Callable[[Request], Reply], told: str, **more: Any) -> None:
        collector = self.running.enter_context(contextmanager(serve)())
        collector.respond = respond
        self.add(
            name,
            {"http": {"url": f"{collector.url}/{{user}}", "retries": 0, "timeout": "30s", **more}},
            told,
        )

    def replying(self, reply: bytes) -> str:
        """The address of what answers anything so, and ends the connection."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                while asked := self.request.recv(65536):
                    self.request.sendall(reply * max(1, len(re.findall(rb"\*\d+\r\n", asked))))

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.running.enter_context(listening(server))
        return f"127.0.0.1:{server.server_address[1]}"


def plant_in_files(planter: Planter) -> None:
    rows = [f'{user},"[1, 2]"' for user in USERS]
    csv = "\n".join(["user,items", *rows, ""])
    plant = partial(planter.file, suffix="csv")
    plant("csv-without-header", "\n".join([*rows, ""]), "has no column 'user'")
    plant(
        "csv-latin-1", csv.replace("a0", "\xe90").encode("latin-1"), r"is not UTF-8 \(byte 0xe9\)"
    )
    plant("csv-utf-16", csv.encode("utf-16"), "is written in UTF-16|begins with no header")
    plant(
        "csv-quote",
        f'user,items\n{USER},"[1, 2]\n{USERS[1]},"[1]"\n',
        "quote that ends too early or never",
    )
    plant("csv-footer", f"{csv}{USER}\n", "has 1 value, the header 2 columns")
    plant("csv-more-values", f"user,items\n{USER},1,2\n", "has 3 values, the header 2 columns")
    plant(
        "csv-line-ends",
        csv.replace("\n", "\r\n", 3),
        "line 4 of .* ends with LF, the header with CR LF",
    )
    plant(
        "csv-lists-of-text",
        "user,items\n" + "".join(f"{user},{user}\n" for user in USERS),
        "lists must be arrays of ids",
    )
    python = "".join(f"{user},\"['{user}']\"\n" for user in USERS)
    plant("csv-lists-of-python", f"user,items\n{python}", "Python")
    ranks = "".join(f"{user},1,{user}\n" for user in USERS)
    plant(
        "csv-ranks",
        f"user,item,rank\n{ranks}",
        "it must hold numbers",
        user="user",
        item="item",
        rank="rank",
    )
    served: dict[str, Any] = {
        "user": "user",
        "items": "items",
        "served": {"time": "at", "within": "1d"},
    }
    times = "".join(f'{user},"[1]",{user}\n' for user in USERS)
    plant("csv-times", f"user,items,at\n{times}", "times must be ISO 8601", **served)
    plant(
        "csv-columns-twice",
        csv.replace("user,items", "user,USER"),
        "no column 'items'|more than one column",
    )
    plant("tsv-values", f"user\titems\n{USER}\n", "has 1 value, the header 2 columns", suffix="tsv")
    plant(
        "csv-gz-cut",
        gzip.compress(csv.encode() * 99)[:-9],
        "its compressed data ends too early",
        suffix="csv.gz",
    )
    plant("csv-named-gz", csv, "holds no gzip data|is not a gzip|no gzip", suffix="csv.gz")
    plant("csv-named-parquet", csv, "is no Parquet file", suffix="parquet")
    plant = partial(planter.file)
    plant(
        "json-array",
        json.dumps([{"user": user, "items": [1]} for user in USERS]),
        "line 1 of .* holds an array",
    )
    plant(
        "json-values", "".join(f'"{user}"\n' for user in USERS), "line 1 of .* holds a single value"
    )
    plant("json-cut", JSON_LISTS[:-9], "the last line of .*, 8, is incomplete")
    plant(
        "json-broken",
        JSON_LISTS.replace(f'"{USERS[3]}"', USERS[3]),
        "line 4 of .* is no JSON from character",
    )
    plant(
        "json-key-twice",
        f'{{"user": "{USER}", "items": ["{USER}"], "items": [2]}}\n',
        "object with one key twice|no column 'items'",
    )
    plant(
        "json-latin-1",
        JSON_LISTS.replace("a0", "\xe90").encode("latin-1"),
        r"is not UTF-8 \(byte 0xe9\)",
    )
    plant(
        "json-by-user", "".join(f'{{"{user}": [1, 2]}}\n' for user in USERS), "has no column 'user'"
    )
    plant(
        "json-users-in-objects",
        JSON_LISTS.replace('"user": ', '"user": {"id": ').replace(', "items"', '}, "items"'),
        "objects",
    )
    plant(
        "json-text-lists", JSON_LISTS.replace("[1, 2]", f'"{USER}"'), "lists must be arrays of ids"
    )
    plant(
        "json-items-in-objects",
        JSON_LISTS.replace("[1, 2]", f'[{{"{USER}": 1}}]'),
        "an object|objects",
    )
    plant("json-fractions", JSON_LISTS.replace("[1, 2]", "[1.5]"), "cannot be read")
    plant(
        "json-named-gz", JSON_LISTS, "holds no gzip data|is not a gzip|no gzip", suffix="jsonl.gz"
    )
    parquet = planter.parquet
    odd = [user.encode() + b"\xff" for user in USERS]
    parquet("parquet-bytes", "not UTF-8", user=pa.array(odd), items=[[1]] * 8)
    parquet(
        "parquet-booleans",
        "booleans: ids must be integers or text",
        user=[True] * 8,
        items=[[1]] * 8,
    )
    parquet("parquet-text-lists", "lists must be arrays of ids", user=USERS, items=USERS)
    parquet("parquet-by-user", "has no column 'user'", **{user: [[1]] for user in USERS})
    parquet("parquet-no-lists", "holds .*, expected lists", user=USERS, items=[1.5] * 8)
    pq.write_table(pa.table({"user": USERS, "items": [[1]] * 8}), planter.folder / "whole.parquet")
    whole = (planter.folder / "whole.parquet").read_bytes()
    plant(
        "parquet-cut",
        whole[:-9],
        "has no end, it is cut off or still being written",
        suffix="parquet",
    )
    plant("parquet-empty", b"", "is empty: check the path", suffix="parquet")
    plant(
        "parquet-damaged",
        whole[:4] + b"\xff" * 300 + whole[304:],
        "cannot be decoded",
        suffix="parquet",
    )


def plant_in_sqlite(planter: Planter) -> str:
    url = f"sqlite:///{planter.folder / 'sources.db'}"
    _fill(url, "CREATE TABLE lists (who text, what text, bytes blob)")
    plant = planter.sql
    plant(
        "sqlite-json",
        url,
        "SELECT who, json_extract(who, '$') AS what FROM lists",
        "a text is no JSON",
    )
    plant(
        "sqlite-utf-8",
        url,
        "SELECT who, CAST(bytes AS text) AS what FROM lists",
        "a text is not UTF-8",
    )
    plant("sqlite-lists", url, "SELECT who, who AS what FROM lists", "lists must be arrays of ids")
    plant("sqlite-table", url, "SELECT who, what FROM list", r"there is no such table \(list\)")
    plant(
        "sqlite-column",
        url,
        "SELECT who, whta AS what FROM lists",
        r"there is no such column \(whta\)",
    )
    plant(
        "sqlite-syntax",
        url,
        f"SELECT who, what FROM lists WHERE who IN '{USER}",
        "no valid SQL of this database",
    )
    plant(
        "sqlite-overflow",
        url,
        "SELECT who, abs(-9223372036854775807 - 1) AS what FROM lists",
        "out of the range of its type",
    )
    plant(
        "sqlite-writes",
        url,
        "SELECT who, what FROM lists; DELETE FROM lists",
        "refused the statement|more than read",
    )
    plant("sqlite-columns", url, f"SELECT who AS {USER}, what FROM lists", "has no column 'who'")
    odd = planter.folder / "odd.db"
    odd.write_bytes(USER.encode() * 99)
    plant(
        "sqlite-file",
        f"sqlite:///{odd}",
        "SELECT who, what FROM lists",
        "the file is not a database of SQLite",
    )
    return url


def plant_in_postgres(planter: Planter, url: str) -> None:
    _fill(
        url,
        "CREATE TABLE lists (who text, what text, bytes bytea)",
        "CREATE TYPE shade AS ENUM ('red')",
    )
    value = "a value cannot be converted to the type that the query asks for"
    casts = (
        "int",
        "numeric",
        "boolean",
        "timestamptz",
        "uuid",
        "json",
        "int[]",
        "shade",
        "inet",
        "interval",
    )
    for kind in casts:
        name = f"postgresql-{kind.replace('[]', '-array')}"
        planter.sql(name, url, f"SELECT who, (who::{kind})::text AS what FROM lists", value)
    plant = planter.sql
    plant(
        "postgresql-range",
        url,
        "SELECT who, (3e9 * length(who))::int::text AS what FROM lists",
        "out of the range",
    )
    plant(
        "postgresql-zero",
        url,
        "SELECT who, (1 / (length(who) - 32))::text AS what FROM lists",
        "divides by zero",
    )
    plant(
        "postgresql-pattern",
        url,
        "SELECT who, (who ~ ('(' || who))::text AS what FROM lists",
        value,
    )
    plant(
        "postgresql-encoding",
        url,
        "SELECT who, convert_from(bytes, 'UTF8') AS what FROM lists",
        "not valid in the database",
    )
    plant(
        "postgresql-rows",
        url,
        "SELECT who, (SELECT who FROM lists) AS what FROM lists",
        "more than one row",
    )
    plant(
        "postgresql-operator",
        url,
        "SELECT who, who + 1 AS what FROM lists",
        "no function or operator takes values of these",
    )
    plant("postgresql-table", url, "SELECT who, what FROM list", r"there is no such table \(list\)")
    plant(
        "postgresql-column",
        url,
        "SELECT who, whta AS what FROM lists",
        r"there is no such column \(whta\)",
    )
    plant(
        "postgresql-syntax",
        url,
        f"SELECT who, what FROM lists WHERE who IN '{USER}'",
        "no valid SQL of this database",
    )
    plant(
        "postgresql-writes",
        url,
        "DELETE FROM lists RETURNING who, what",
        "more than read from it|no valid SQL",
    )
    plant(
        "postgresql-lists", url, "SELECT who, who AS what FROM lists", "lists must be arrays of ids"
    )
    other = sa.make_url(url).set(username=USER).render_as_string(hide_password=False)
    plant(
        "postgresql-login", other, "SELECT who, what FROM lists", "refused the user or the password"
    )
    gone = sa.make_url(url).set(port=free_port()).render_as_string(hide_password=False)
    plant("postgresql-away", gone, "SELECT who, what FROM lists", "the connection was refused")


def plant_in_mariadb(planter: Planter) -> None:
    url = planter.running.enter_context(running_mariadb())
    _fill(url, "CREATE TABLE lists (who varchar(99), what text, bytes blob)")
    plant = planter.sql
    json_table = "JSON_TABLE(who, '$[*]' COLUMNS (number int PATH '$')) AS numbers"
    plant(
        "mariadb-json",
        url,
        f"SELECT who, number AS what FROM lists, {json_table}",
        "a text is no JSON",
    )
    plant(
        "mariadb-rows",
        url,
        "SELECT who, (SELECT who FROM lists) AS what FROM lists",
        "more than one row",
    )
    plant(
        "mariadb-range",
        url,
        "SELECT who, exp(length(who) * 99) AS what FROM lists",
        "out of the range of its type",
    )
    plant(
        "mariadb-name",
        url,
        "SELECT who, get_lock(repeat(who, 9), 1) AS what FROM lists",
        r"\(error 1059\)",
    )
    plant(
        "mariadb-table",
        url,
        "SELECT who, what FROM list",
        r"there is no such table \(lists\.list\)",
    )
    plant(
        "mariadb-column",
        url,
        "SELECT who, whta AS what FROM lists",
        r"there is no such column \(whta\)",
    )
    plant(
        "mariadb-syntax",
        url,
        f"SELECT who, what FROM lists WHERE who IN '{USER}'",
        "no valid SQL of this database",
    )
    plant("mariadb-writes", url, "DELETE FROM lists RETURNING who, what", "more than read from it")
    plant("mariadb-lists", url, "SELECT who, who AS what FROM lists", "lists must be arrays of ids")
    plant("mariadb-bytes", url, "SELECT bytes AS who, what FROM lists", "not UTF-8")
    other = sa.make_url(url).set(username=USER).render_as_string(hide_password=False)
    plant("mariadb-login", other, "SELECT who, what FROM lists", "refused the user or the password")


def plant_in_store(planter: Planter) -> None:
    """Files in moto's buckets, and buckets whose errors quote a user."""
    address = planter.running.enter_context(running_buckets())
    collector = planter.running.enter_context(contextmanager(serve)())
    errors = {
        "denied": (
            403,
            f"<Error><Code>AccessDenied</Code><Message>not for {USER}</Message></Error>",
        ),
        "expired": (
            400,
            f"<Error><Code>ExpiredToken</Code><Message>{USER} ended</Message></Error>",
        ),
        "unknown": (400, f"<Error><Code>{USER}</Code><Message>{USER}</Message></Error>"),
        "garbage": (400, f"{USER} is no XML"),
    }

    def respond(request: Request) -> Reply:
        bucket = re.split("[/?]", request.path)[1]
        if bucket in errors:
            status, body = (404, "") if request.method == "HEAD" else errors[bucket]
            return answer(status, {"Content-Type": "application/xml"}, body.encode())
        asked = Asked(address + request.path, headers=request.headers, method=request.method)  # noqa: S310 - of loopback
        try:
            response = urlopen(asked, timeout=60)  # noqa: S310
        except HTTPError as error:
            response = error
        with response:
            return answer(response.status, dict(response.headers), response.read())

    collector.respond = respond
    keys = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    planter.environ = {"AWS_ENDPOINT_URL": collector.url, "AWS_MAX_ATTEMPTS": "1", **keys}
    store = fsspec.filesystem("s3", key="key", secret="secret", endpoint_url=address)  # noqa: S106 - of moto
    store.mkdir("lists")

    def plant(name: str, path: str, told: str) -> None:
        planter.add(
            name, {"file": {"path": f"s3://{path}", "user": "user", "items": "items"}}, told
        )

    for fault in (
        "parquet-bytes.parquet",
        "parquet-cut.parquet",
        "csv-latin-1.csv",
        "json-by-user.jsonl",
    ):
        store.put(str(planter.folder / fault), f"lists/{fault}")
        told = next(each.told for each in planter.faults if each.name == Path(fault).stem)
        plant(f"s3-{Path(fault).stem}", f"lists/{fault}", told)
    plant("s3-denied", "denied/*.csv", "does not let these credentials read it")
    plant("s3-expired", "expired/*.csv", "the credentials have expired")
    plant("s3-unknown", "unknown/*.csv", "the store answered 400")
    plant("s3-garbage", "garbage/*.csv", "the store answered 400")


def plant_in_redis(planter: Planter) -> None:
    with closing(emptied_redis()) as client:
        for user in USERS:
            client.set(f"text:{user}", user)
            client.set(f"object:{user}", json.dumps({user: [1, 2]}))
            client.set(f"fraction:{user}", "[1.5]")
            client.rpush(f"bytes:{user}", user.encode() + b"\xff")

    def plant(
        name: str, told: str, key: str = "text", kind: str = "string", at: str = "", **more: Any
    ) -> None:
        place = at or f"127.0.0.1:{shared_redis()}"
        options = {
            "url": f"redis://{place}",
            "type": kind,
            "key": f"{key}:{{user}}",
            "timeout": "2s",
            **more,
        }
        planter.add(name, {"redis": options}, told)

    plant("redis-text", "is no JSON")
    plant(
        "redis-object",
        "nothing where items says, in an object of \\.\\.\\.",
        "object",
        items="recs",
    )
    plant("redis-fractions", "a number that is not whole", "fraction")
    plant("redis-bytes", "not UTF-8", "bytes", "list")
    plant("redis-type", "another type than the option type says", "text", "zset")
    for name, line, told in (
        (
            "error",
            f"-ERR unknown user '{USER}'",
            r"the server refused the command \(ERR\)|redis reported ResponseError",
        ),
        ("login", f"-WRONGPASS {USER} is unknown", "refused the user or the password"),
        (
            "grant",
            f"-NOPERM User {USER} may not read recs:{USER}",
            "may not run this command or read this key",
        ),
        ("loading", f"-LOADING {USER}", "is loading its data"),
        ("memory", f"-OOM {USER}", "has used its maxmemory"),
        ("garbage", f"HTTP/1.1 400 {USER}", "what answers there is no Redis server"),
    ):
        plant(f"redis-{name}", told, at=planter.replying(f"{line}\r\n".encode()))
    plant("redis-away", "the connection was refused", at=f"127.0.0.1:{free_port()}")


def plant_in_http(planter: Planter) -> None:
    def user_of(request: Request) -> str:
        return request.path.strip("/")

    def says(found: Callable[[str], object], status: int = 200) -> Callable[[Request], Reply]:
        return lambda request: answer(status, body=json.dumps(found(user_of(request))).encode())

    def raw(request: Request) -> Reply:
        line = user_of(request).encode()
        data = head(200, {"Content-Length": "0"})[:-2] + b"no header but " + line + b"\r\n\r\n"
        return lambda _collector, sock: sock.sendall(data)

    plant = planter.http
    plant("http-error", says(lambda user: f"no {user}", 500), "answered 500")
    plant(
        "http-page",
        lambda request: answer(200, body=f"<html>{user_of(request)}".encode()),
        "not JSON",
    )
    plant(
        "http-by-user",
        says(lambda user: {user: [1]}),
        r"has nothing where items says \(recs\), in an object of \.\.\.",
        items="recs",
    )
    plant("http-tells", says(lambda user: {"error": user}), "tells of an error", error="error")
    plant(
        "http-another",
        says(lambda _: {"user": USERS[7][::-1], "items": [1]}),
        "another user",
        user="user",
        items="items",
    )
    plant("http-text", says(lambda user: user), "expected a list of ids, found a text")
    plant("http-objects", says(lambda user: [{"id": user}]), "a list with an object in it|objects")
    plant("http-header", raw, "not in HTTP|lost the connection")
    plant(
        "http-moved",
        lambda request: answer(302, {"Location": f"http://127.0.0.1/{user_of(request)}"}),
        "answered 302",
    )
    away = f"http://127.0.0.1:{free_port()}/{{user}}"
    planter.add(
        "http-away", {"http": {"url": away, "retries": 0}}, "refused or lost the connection"
    )


def plant_in_users(planter: Planter, url: str) -> None:
    """Faults of the source of users itself."""
    well = {
        "file": {"path": str(planter.folder / "baseline.jsonl"), "user": "user", "items": "items"}
    }
    by_user = "".join(f'{{"{user}": 1}}\n' for user in USERS)
    odd = {
        "keyed.jsonl": by_user,
        "array.jsonl": json.dumps(USERS),
        "latin.csv": "user\n\xe9" + USER,
    }
    for name, text in odd.items():
        (planter.folder / f"users-{name}").write_text(text, encoding="latin-1")
    told = {
        "keyed.jsonl": "has no column 'user'",
        "array.jsonl": "holds an array",
        "latin.csv": "is not UTF-8",
    }
    for name, pattern in told.items():
        users = {"file": {"path": str(planter.folder / f"users-{name}"), "user": "user"}}
        planter.add(f"users-{name.replace('.', '-')}", well, pattern, users)
    query = {
        "sql": {
            "url": url,
            "query": "SELECT json_extract(who, '$') AS user FROM lists",
            "user": "user",
        }
    }
    planter.add("users-sqlite", well, "a text is no JSON", query)
    collector = planter.running.enter_context(contextmanager(serve)())
    collector.respond = lambda _: answer(200, body=json.dumps(dict.fromkeys(USERS, 1)).encode())
    planter.add(
        "users-http",
        well,
        "has no array where users says",
        {"http": {"url": f"{collector.url}/users"}},
    )


def _fill(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        for user in USERS:
            row = {"who": user, "what": "[1, 2]", "bytes": user.encode() + b"\xff"}
            connection.execute(sa.text("INSERT INTO lists VALUES (:who, :what, :bytes)"), row)
    engine.dispose()


def write_config(
    folder: Path,
    faults: Sequence[Fault],
    database: str,
    hook: str,
    mail_ports: Mapping[str, int],
    name: str,
) -> Path:
    """A comparison a fault, users hidden, and receivers of several kinds.

    Some refuse and quote a user.
    """
    (folder / "baseline.jsonl").write_text(JSON_LISTS)
    (folder / "users.csv").write_text("\n".join(["user", *USERS, ""]))
    (folder / "key").write_bytes(base64.b64encode(b"k" * 48))
    (folder / "key").chmod(0o600)
    usual = {
        "every": "1d",
        "k": 2,
        "metrics": ["overlap"],
        "baseline": {"file": {"path": "baseline.jsonl", "user": "user", "items": "items"}},
        "users": {"file": {"path": "users.csv", "user": "user"}},
    }
    comparisons = [
        usual
        | {"name": fault.name, "candidate": fault.candidate}
        | ({"users": fault.users} if fault.users else {})
        for fault in faults
    ]
    receivers: list[dict[str, Any]] = [
        {"webhook": {"url": f"{hook}/hook"}},
        {"slack": {"url": f"{hook}/slack"}},
        {"alertmanager": {"urls": [f"{hook}/alerts"]}},
        {"pagerduty": {"url": f"{hook}/pager", "routing_key": "0" * 32}},
        {"webhook": {"name": "hook-refuse", "url": f"{hook}/refuse"}},
    ]
    for way in ("good", "refuse"):
        place = f"{hook.replace('http', 'json')}/{way}"
        receivers.append({"apprise": {"name": f"apprise-{way}", "urls": {"one": place}}})
        mail = {
            "host": "127.0.0.1",
            "port": mail_ports[way],
            "tls": "none",
            "sender": "r@x.test",
            "to": ["kim@x.test"],
        }
        receivers.append({"email": {"name": f"mail-{way}", **mail}})
    tree = {
        "database": database,
        "listen": "127.0.0.1:0",
        "log": {"level": "debug", "format": "json"},
        "privacy": {"users": "hmac", "key_file": "key"},
        "conditions": {"error": {"for": 1}},
        "receivers": receivers,
        "pings": [{"url": f"{hook}/ping"}],
        "comparisons": comparisons,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(tree))
    return path
