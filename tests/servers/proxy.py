"""A TCP proxy before a real server, to make its network fail: refused, cut, silent, slow.

Knows no protocol.
"""

import socket
import threading
from contextlib import contextmanager, suppress

from servers import free_port


class Proxy:
    """Listens on ``port`` of loopback.

    Begins by passing everything on; each fault lasts until `resume`.
    """

    def __init__(self, target):
        self.target = target
        self.port = free_port()
        self._lock = threading.Lock()
        self._open = set()
        self._flows, self._ended = threading.Event(), threading.Event()
        self._flows.set()
        self._delay_s = 0.0
        self._listener: socket.socket | None = None
        self.resume()

    def refuse(self):
        """Refuse new connections and cut all open ones, as when the server is down."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.cut()

    def cut(self):
        """Reset every connection; new ones are welcome."""
        with self._lock:
            sockets, self._open = self._open, set()
        for sock in sockets:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def hang(self):
        """Accept and keep connections, and pass nothing on, as when the network swallows packets."""
        self._flows.clear()

    def slow(self, delay_s):
        """Delay every piece by this time."""
        self._delay_s = delay_s

    def resume(self):
        """Pass everything on, including delayed data."""
        self._delay_s = 0.0
        self._flows.set()
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self):
        """End."""
        self._ended.set()
        self._flows.set()
        self.refuse()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._open |= {client, server}
            for source, sink in ((client, server), (server, client)):
                source.setsockopt(
                    socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
                )  # else small pieces wait for each other
                threading.Thread(target=self._pass_on, args=(source, sink), daemon=True).start()

    def _pass_on(self, source, sink):
        """One direction.

        Each closes the socket that it reads from, and lets the other end by the shutdown.
        """
        with suppress(OSError):
            while piece := source.recv(65536):
                self._flows.wait()
                if self._ended.wait(self._delay_s) if self._delay_s else self._ended.is_set():
                    break
                sink.sendall(piece)
        for sock in (source, sink):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()


@contextmanager
def proxying(target):
    """A proxy before this port of loopback, ended with all its connections."""
    proxy = Proxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
