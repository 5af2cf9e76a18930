"""Faults of every kind of source in which other programs quote a user's id: the options of the source, and the message."""

import base64
import gzip
import json
import re
import socketserver
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from canary.marks import canary
from monitor.service import message_pictures
from places import read_yaml
from servers import free_port, listening
from servers.buckets import forgotten_stores
from servers.mariadb import running_mariadb
from servers.redis import emptied_redis, shared_redis
from servers.webhook import answer, head, running_webhook, send_and_end

USERS = [canary(f"user{letter}") for letter in "abcdefgh"]
USER = USERS[0]
JSON_LISTS = "".join(json.dumps({"user": user, "items": [1, 2]}) + "\n" for user in USERS)
WIDE = {"user": "user", "items": "items"}
PLANTED = read_yaml("tests/canary/private_faults.yaml")
Given = Mapping[str, Any]


@dataclass(frozen=True)
class Fault:
    """``told`` is a pattern of the planted cause. ``users`` is the source of users, if that has the fault."""

    name: str
    candidate: Given
    told: str
    users: Given | None = None


def filled(text, user=USER):
    return Template(text).safe_substitute(user=user, other=USERS[1])


def content_of(planted):
    """The content of a file."""
    text = filled(planted.get("text", "")) + "".join(
        filled(planted.get("each", ""), user) for user in USERS
    )
    content = text.encode(planted.get("encoding", "latin-1"))
    return gzip.compress(content * 99)[:-9] if planted.get("is_cut") else content


@dataclass
class Planter:
    """Writes what is broken, and starts what answers wrongly, until ``running`` ends."""

    folder: Path
    running: ExitStack
    faults: Any = field(default_factory=list)
    environ: Any = field(default_factory=dict)

    def add(self, name, candidate, told, users=None):
        self.faults.append(Fault(name, candidate, told, users))

    def file(self, name, content, told, suffix, columns=WIDE):
        path = self.folder / f"{name}.{suffix}"
        path.write_bytes(content)
        self.add(name, {"file": {"path": str(path), **columns}}, told)

    def parquet(self, name, told, **columns):
        pq.write_table(pa.table(columns), self.folder / "table")
        self.file(f"parquet-{name}", (self.folder / "table").read_bytes(), told, "parquet")

    def sql(self, name, url, told, query="SELECT who, what FROM lists"):
        options = {"url": url, "query": filled(query), "user": "who", "items": "what"}
        self.add(name, {"sql": options}, told)

    def http(self, name, respond, told, **more):
        options = {"url": f"{self.serve(respond)}/{{user}}", "retries": 0, "timeout": "30s"}
        self.add(f"http-{name}", {"http": {**options, **more}}, told)

    def serve(self, respond):
        collector = self.running.enter_context(running_webhook())
        collector.respond = respond
        return collector.url

    def replying(self, reply):
        """The address of what answers anything so, and ends the connection."""

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                while asked := self.request.recv(65536):
                    self.request.sendall(reply * max(1, len(re.findall(rb"\*\d+\r\n", asked))))

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.running.enter_context(listening(server))
        return f"127.0.0.1:{server.server_address[1]}"


def plant_in_files(planter):
    for name, planted in PLANTED["files"].items():
        suffix = planted.get("suffix", "jsonl" if "json" in name else "csv")
        planter.file(
            name, content_of(planted), planted["told"], suffix, planted.get("columns", WIDE)
        )
    parquet, lists = planter.parquet, [[1]] * 8
    parquet(
        "bytes",
        "not UTF-8",
        user=pa.array([user.encode() + b"\xff" for user in USERS]),
        items=lists,
    )
    parquet("booleans", "booleans: ids must be integers or text", user=[True] * 8, items=lists)
    parquet("text-lists", "lists must be arrays of ids", user=USERS, items=USERS)
    parquet("by-user", "has no column 'user'", **{user: [[1]] for user in USERS})
    parquet("no-lists", "has .* and no lists", user=USERS, items=[1.5] * 8)
    pq.write_table(pa.table({"user": USERS, "items": lists}), planter.folder / "table")
    whole = (planter.folder / "table").read_bytes()
    planter.file(
        "parquet-cut",
        whole[:-9],
        "is incomplete, because it is cut off or still being written",
        "parquet",
    )
    planter.file("parquet-empty", b"", "is empty: check the path", "parquet")
    planter.file(
        "parquet-damaged", whole[:4] + b"\xff" * 300 + whole[304:], "cannot be decoded", "parquet"
    )


def plant_in_database(planter, kind, url):
    for name, (query, told) in PLANTED[kind].items():
        planter.sql(f"{kind}-{name}", url, told, query)


def plant_in_sqlite(planter):
    url = f"sqlite:///{planter.folder / 'sources.db'}"
    _fill(url, "CREATE TABLE lists (who text, what text, bytes blob)")
    plant_in_database(planter, "sqlite", url)
    odd = planter.folder / "odd.db"
    odd.write_bytes(USER.encode() * 99)
    planter.sql("sqlite-file", f"sqlite:///{odd}", "the file is not a database of SQLite")
    return url


def plant_in_postgres(planter, url):
    _fill(
        url,
        "CREATE TABLE lists (who text, what text, bytes bytea)",
        "CREATE TYPE shade AS ENUM ('red')",
    )
    plant_in_database(planter, "postgresql", url)
    for name, told, change in (
        ("login", "refused the user or the password", {"username": USER}),
        ("away", "the connection was refused", {"port": free_port()}),
    ):
        other = sa.make_url(url).set(**change)
        planter.sql(f"postgresql-{name}", other.render_as_string(hide_password=False), told)


def plant_in_mariadb(planter):
    url = planter.running.enter_context(running_mariadb())
    _fill(url, "CREATE TABLE lists (who varchar(99), what text, bytes blob)")
    plant_in_database(planter, "mariadb", url)
    other = sa.make_url(url).set(username=USER).render_as_string(hide_password=False)
    planter.sql("mariadb-login", other, "refused the user or the password")


def plant_in_store(planter):
    """Buckets whose errors quote a user."""
    errors = PLANTED["stores"]

    def respond(request):
        status, body, _ = errors[re.split("[/?]", request.path)[1]]
        if request.method == "HEAD":
            status, body = 404, ""
        return answer(status, {"Content-Type": "application/xml"}, filled(body).encode())

    planter.running.enter_context(forgotten_stores())
    planter.environ = {
        "AWS_ENDPOINT_URL": planter.serve(respond),
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, (_, _, told) in errors.items():
        planter.add(f"s3-{name}", {"file": {"path": f"s3://{name}/*.csv", **WIDE}}, told)


def plant_in_redis(planter):
    with closing(emptied_redis()) as client:
        for user in USERS:
            client.set(f"text:{user}", user)
            client.set(f"object:{user}", json.dumps({user: [1, 2]}))
            client.set(f"fraction:{user}", "[1.5]")
            client.rpush(f"bytes:{user}", user.encode() + b"\xff")
    away = {
        "reply": "",
        "told": "the connection was refused",
        "url": f"redis://127.0.0.1:{free_port()}",
    }
    for name, given in {**PLANTED["redis"], "away": away}.items():
        options = {
            "url": f"redis://127.0.0.1:{shared_redis()}",
            "type": "string",
            "key": "text:{user}",
            "timeout": "2s",
            **given,
        }
        told, reply = options.pop("told"), filled(options.pop("reply", ""))
        if reply:
            options["url"] = f"redis://{planter.replying(reply.encode())}"
        planter.add(f"redis-{name}", {"redis": options}, told)


def plant_in_http(planter):
    def respond_as(planted):
        def respond(request):
            user = request.path.strip("/")
            headers = {
                name: filled(value, user) for name, value in planted.get("headers", {}).items()
            }
            return answer(
                planted.get("status", 200), headers, filled(planted.get("body", ""), user).encode()
            )

        return respond

    def raw(request):
        line = request.path.strip("/").encode()
        no_header = b"no header but " + line + b"\r\n\r\n"
        return send_and_end(head(200, {"Content-Length": "0"})[:-2] + no_header)

    for name, planted in PLANTED["http"].items():
        planter.http(name, respond_as(planted), planted["told"], **planted.get("options", {}))
    planter.http("header", raw, "not HTTP|lost the connection")
    away = f"http://127.0.0.1:{free_port()}/{{user}}"
    planter.add(
        "http-away", {"http": {"url": away, "retries": 0}}, "refused or lost the connection"
    )


def plant_in_users(planter, url):
    """Faults of the source of users itself."""
    well = {"file": {"path": f"{planter.folder}/baseline.jsonl", **WIDE}}
    for name, planted in PLANTED["users"].items():
        path = planter.folder / f"users-{name}"
        path.write_bytes(content_of(planted))
        users = {"file": {"path": str(path), "user": "user"}}
        planter.add(f"users-{name.replace('.', '-')}", well, planted["told"], users)
    query = {
        "sql": {
            "url": url,
            "query": "SELECT json_extract(who, '$') AS user FROM lists",
            "user": "user",
        }
    }
    planter.add("users-sqlite", well, "a text is no JSON", query)
    place = planter.serve(lambda _: answer(200, body=json.dumps(dict.fromkeys(USERS, 1)).encode()))
    planter.add(
        "users-http",
        well,
        "has no array at the path that `users` gives",
        {"http": {"url": f"{place}/users"}},
    )


def _fill(url, *statements):
    engine = sa.create_engine(url)
    rows = [{"who": user, "what": "[1, 2]", "bytes": user.encode() + b"\xff"} for user in USERS]
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
        connection.execute(sa.text("INSERT INTO lists VALUES (:who, :what, :bytes)"), rows)
    engine.dispose()


def send_pictures_as_text():
    """Send the text that a picture is drawn from: a test can search it, and no process draws."""
    message_pictures._draw_png = lambda *parts: "".join(parts).encode()  # type: ignore[assignment]


def write_config(folder, faults, database, hook, mail_ports, receivers=None):
    """A comparison for each fault, users hidden, and so many receivers, or all: some refuse and quote a user."""
    (folder / "users.csv").write_text("\n".join(["user", *USERS, ""]))
    (folder / "key").write_bytes(base64.b64encode(b"k" * 48))
    (folder / "key").chmod(0o600)
    comparisons = []
    for fault in faults:
        changes = {"name": fault.name, "candidate": fault.candidate}
        users = {"users": fault.users} if fault.users else {}
        comparisons.append({**PLANTED["comparison"], **changes, **users})
    names = {"hook": hook, "json": hook.replace("http", "json")}
    names |= {f"mail_{way}": str(port) for way, port in mail_ports.items()}
    tree = json.loads(Template(json.dumps(PLANTED["configuration"])).substitute(names))
    tree |= {"database": database, "comparisons": comparisons}
    tree["receivers"] = tree["receivers"][:receivers]
    path = folder / "rankwatch.yaml"
    path.write_text(json.dumps(tree))
    return path
