"""An HTTP proxy: CONNECT for https, whole URLs for http, perhaps only with credentials.

It keeps what it was asked.

with web_proxy(login="me:secret") as proxy:
    ...
"""

import base64
import select
import socket
import socketserver
from contextlib import contextmanager
from urllib.parse import urlsplit

from servers import listening


class WebProxy(socketserver.ThreadingTCPServer):
    """Listens on a random port of loopback. ``asked``: first lines of requests, in order."""

    daemon_threads = True

    def __init__(self, login):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.login = login
        self.asked = []

    @property
    def url(self):
        login = f"{self.login}@" if self.login else ""
        return f"http://{login}127.0.0.1:{self.server_address[1]}"


class _Handler(socketserver.StreamRequestHandler):
    server: WebProxy
    rbufsize = 0

    def handle(self):
        first = self.rfile.readline().decode().strip()
        headers = []
        while (line := self.rfile.readline()).strip():
            headers.append(line)
        if not first:
            return
        self.server.asked.append(first)
        method, target, version = first.split()
        if not self._is_welcome(headers):
            self.wfile.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        try:
            upstream = socket.create_connection((parts.hostname, parts.port or 80), timeout=10)
        except OSError:
            self.wfile.write(
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            return
        with upstream:
            if method == "CONNECT":
                self.wfile.write(f"{version} 200 Connection established\r\n\r\n".encode())
            else:
                path = parts._replace(scheme="", netloc="").geturl() or "/"
                kept = [
                    each
                    for each in headers
                    if not each.lower().startswith((b"proxy-", b"connection:"))
                ]
                head = (
                    f"{method} {path} {version}\r\n".encode()
                    + b"".join(kept)
                    + b"Connection: close\r\n\r\n"
                )
                upstream.sendall(head)
            self._pass_on(upstream)

    def _is_welcome(self, headers):
        if self.server.login is None:
            return True
        wanted = (
            b"proxy-authorization: basic " + base64.b64encode(self.server.login.encode()).lower()
        )
        return any(each.strip().lower() == wanted for each in headers)

    def _pass_on(self, upstream):
        """Both directions, until one side ends."""
        sockets = {self.connection: upstream, upstream: self.connection}
        while True:
            for ready in select.select(list(sockets), [], [], 10)[0]:
                try:
                    piece = ready.recv(65536)
                    sockets[ready].sendall(piece)
                except OSError:
                    return
                if not piece:
                    return


@contextmanager
def web_proxy(login=None):
    """A proxy, ended with the block; with ``login`` it wants these credentials."""
    proxy = WebProxy(login)
    with listening(proxy):
        yield proxy
