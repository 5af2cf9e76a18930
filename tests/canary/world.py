"""A configuration with a canary in every place of a secret, and hostile servers that have received all of them."""

import base64
import json
import os
import ssl
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, Literal
from urllib.parse import quote

import bcrypt
from psycopg import sql
from sqlalchemy import make_url

from canary.marks import MARK, canary, owners_in
from places import read_yaml
from servers import free_port
from servers.smtp import MailServer, running_mail_server
from servers.webhook import Collector, answer, hang, head, running_webhook, send_and_end
from service.lists_world import APART, SIMILAR, write_lists

Way = Literal["direct", "file", "environment"]
SINGER = "singer"
LOOKER = ("kim", canary("webpassword"))
"""The login of a user who may see the pages."""
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
"""The behaviours of bad servers. The last four never receive the request."""
UNHEARD = FAULTS[-4:]


def all_of(request):
    """Everything that was sent."""
    lines = [request.path, *(f"{name}: {value}" for name, value in request.headers.items())]
    return "\n".join(lines).encode() + b"\n" + request.body


def reply_to(request):
    """Answer by the first part of the path. A fault repeats the request in all parts of the answer."""
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
        "odd": send_and_end(
            head(200, {"Content-Length": "0"})[:-2]
            + b"no header but "
            + line.encode()
            + b"\r\n\r\n"
        ),
        "cookie": answer(401, {"Set-Cookie": f"{line} {line}=1"}, echo),
        "garbage": send_and_end(told),
        "lie": answer(200, headers, echo),
    }[behaviour]


def _welcome(request):
    if "/recs/" in request.path:
        return answer(200, body=json.dumps(SIMILAR).encode())
    return answer(
        200, body=b'{"status": "success"}' if request.path.endswith("/v2/enqueue") else b"ok"
    )


@dataclass
class World:
    """Servers that listen. ``environ`` has the secrets that are not in the configuration itself."""

    folder: Path
    hook: Collector
    secure: Collector
    mail: MailServer
    hostile_mail: MailServer
    certificate: Path
    closed: int = field(default_factory=free_port)
    environ: Any = field(default_factory=dict)
    heard: Any = field(default_factory=list)

    def given(self, tree, way):
        """The same configuration with every secret given in this way."""
        if isinstance(tree, list):
            return [self.given(each, way) for each in tree]
        if way == "direct" or not isinstance(tree, dict):
            return tree
        found = {}
        for key, value in tree.items():
            if key in {"body", "with"}:  # values of the user's own
                found[key] = value
            elif isinstance(value, str) and MARK in value:
                found |= self._given_aside(key, value, way)
            else:
                found[key] = self.given(value, way)
        return found

    def _given_aside(self, key, secret, way):
        name = f"S{len(self.environ)}"
        self.environ[name] = secret
        if way == "environment":
            return {key: f"${{{name}}}"}
        (self.folder / name).write_text(f"{secret}\n")
        return {f"{key}_file": name}

    def listen(self, request):
        """Remember which secrets a request contained, and answer it."""
        if request.path.startswith("/"):  # not the greeting of TLS
            self.heard.append((request.path, owners_in(all_of(request))))
        return reply_to(request)

    def place(self, behaviour):
        """The address of a server with this behaviour, or of no server."""
        return {
            "plain": f"{self.hook.url.replace('http', 'https')}/plain",
            "untrusted": f"{self.secure.url}/untrusted",
            "nowhere": "http://nowhere.invalid/nowhere",
            "closed": f"http://127.0.0.1:{self.closed}/closed",
        }.get(behaviour, f"{self.hook.url}/{behaviour}")

    def write_web(self):
        """Who may look: one whose password is a canary, and one whose hash is."""
        known = bcrypt.hashpw(canary("webpassword").encode(), bcrypt.gensalt(4)).decode()
        users = {LOOKER[0]: known, "nobody": f"$2b$04${'.' * 22}{canary('webhash')[:31]}"}
        path = self.folder / "web.yaml"
        path.write_text(json.dumps({"basic_auth_users": users}))
        return path

    def write(self, way, *, database):
        """The configuration with every secret given in this way."""
        write_lists(self.folder / "baseline.jsonl", SIMILAR)
        names = Names(world=self, **self.databases(database))
        document = read_yaml("tests/canary/world.yaml")
        tree = {
            key: [*spread(part)] if isinstance(part, list) else part
            for key, part in document.items()
        }
        path = self.folder / f"{way}.yaml"
        path.write_text(json.dumps(self.given(filled(tree, names), way)))
        return path

    def databases(self, source):
        """Addresses of the database, of faulty ones, and of other servers that are away."""
        url = make_url(source)
        away = url.set(
            host="127.0.0.1",
            port=self.closed,
            drivername="postgresql",
            username="me",
            password=canary("sqlaway"),
        )
        urls = {"away": away, "wrong": url.set(password=canary("sqlwrong"))}
        urls["odd"] = url.update_query_dict({"keepalives_idle": canary("sqlquery")})
        texts = {
            f"url_{name}": each.render_as_string(hide_password=False) for name, each in urls.items()
        }
        remote = f"sc://127.0.0.1:{self.closed}/;use_ssl=true;token={canary('spark')}"
        redis = f"redis://me:{canary('redispassword')}@127.0.0.1:{self.closed}/0"
        return texts | {"url_source": source, "url_spark": remote, "url_redis": redis}


class Names(dict[str, str]):
    """The value of each $name in world.yaml."""

    def __init__(self, world, **given):
        super().__init__(
            given, file_web=str(world.write_web()), file_certificate=str(world.certificate)
        )
        self.update(port_good=str(world.mail.port), port_refuse=str(world.hostile_mail.port))
        self.update(at_nobody=f"127.0.0.1:{world.closed}")
        self._world = world

    def __missing__(self, name):
        kind, _, behaviour = name.partition("_")
        if not behaviour:
            return canary(name)
        place = self._world.place(behaviour)
        if kind == "login":
            return place.replace("://", f"://me:{canary('sourcepassword')}@")
        return place.replace("http", "json") if kind == "apprise" else place


def filled(tree, names):
    return json.loads(Template(json.dumps(tree)).substitute(names))


def spread(entries):
    """Each entry once for each of its ways."""
    for entry in entries:
        text = json.dumps(entry | {"ways": None})
        for way in str(entry.get("ways") or "once").split():
            found = json.loads(text.replace("WAY", way))
            del found["ways"]
            yield found


def fill(connection):
    """The tables that sources read."""
    connection.execute(TABLES)
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO items VALUES (%s, 1, %s)",
            [(item, f"title {item}") for item in (*APART, *SIMILAR)],
        )
    connection.execute("UPDATE lists SET items = %s", [APART])


TABLES = """
CREATE TABLE users AS SELECT 'u' || n AS user_id FROM generate_series(0, 29) AS n;
CREATE TABLE lists AS SELECT user_id, ARRAY[0] AS items FROM users;
CREATE TABLE items (item int, weight float, title text);
CREATE TABLE bought (user_id text, item int)
"""


@contextmanager
def singer(server, database):
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


def _refuse_mail(server):
    told = canary("mail")
    server.plan("AUTH", *[f"535 5.7.8 {told} is wrong", f"435 {told}"] * 50)


@contextmanager
def hostile_world(folder, certificate):
    """All servers that get requests or messages. Most of them are hostile."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    with ExitStack() as opened:
        enter = opened.enter_context
        hook = enter(running_webhook())
        secure = enter(running_webhook(tls))
        mails = [enter(running_mail_server(certificate)) for _ in range(2)]
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
