"""A server that asks for passwords, and a client that has some."""

import base64
import http.client
import socket
from contextlib import closing, contextmanager

import bcrypt
from pydantic import SecretStr

import published
from monitor.web.access import read_access
from monitor.web.access_options import AccessOptions
from monitor.web.server import WebServer

KIM = ("kim", "correct horse")


def hashed(password, prefix="2b"):
    made = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    return SecretStr(f"${prefix}{made[3:]}")


class Site:
    """A server and its client."""

    def __init__(self, server, tls=None, host="127.0.0.1"):
        self.server, self.tls, self.host = server, tls, host
        self.port = int(server.url.rpartition(":")[2])

    def connect(self):
        if self.tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.tls)

    def open(self, sent=b"", *, host=None, is_small=False):
        """A connection for raw bytes, which has sent these.

        A small one receives little at a time.
        """
        raw = socket.socket(socket.AF_INET6 if ":" in (host or self.host) else socket.AF_INET)
        if is_small:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(20)
        raw.connect((host or self.host, self.port))
        raw.sendall(sent)
        return raw

    def get(self, path="/metrics", user=None, method="GET", body=None, **headers):
        if user is not None:
            headers["Authorization"] = basic(*user)
        with closing(self.connect()) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return (
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read(),
            )

    def status(self, path="/metrics", user=None, method="GET", **headers):
        return self.get(path, user, method, None, **headers)[0]


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def access_of(*, old=None, **options):
    """In force: Kim's password, and these options of a web configuration file."""
    return read_access(
        AccessOptions.model_validate({"basic_auth_users": {KIM[0]: hashed(KIM[1])}, **options}),
        old=old,
    )


def tls_of(pair, **options):
    """TLS with this certificate and its key, as a web configuration file describes it."""
    return {"cert_file": str(pair.cert), "key_file": str(pair.key), **options}


@contextmanager
def running(app, host="127.0.0.1", *, tls=None, **options):
    """A server of this application, stopped at the end; ``options`` are its own."""
    server = WebServer(app, host, 0, **options)
    server.start()
    try:
        yield Site(server, tls, host)
    finally:
        server.stop()


@contextmanager
def serving(health=None, access=None, tls=None, **options):
    """A server; its client uses ``tls``.

    ``limits``, ``page`` and ``reload`` are the server's, other options the file's.
    """
    limits, page = options.pop("limits", None), options.pop("page", b"page\n")
    reload = options.pop("reload", lambda: False)
    app = published.pages(
        metrics=lambda _accept, _encoding: (page, {}),
        health=health or published.WELL,
        reload=reload,
    )
    with running(app, tls=tls, access=access or access_of(**options), limits=limits) as site:
        yield site
