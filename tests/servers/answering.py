"""A server that answers each request as a function says, and keeps what it was asked.

with answering(lambda path, body: (200, [1, 2])) as url:
    ...
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from servers.recommender import Asked

Respond = Callable[[str, Any], tuple[int, object]]
"""From the path and the body that was posted, JSON or text, to the status and the answer."""


@contextmanager
def answering(respond: Respond, seen: list[Asked] | None = None) -> Iterator[str]:
    """The address of a server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def log_message(self, *_: object) -> None:
            pass

        def _answer(self, content: bytes) -> None:
            if seen is not None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                attempt = len(seen) + 1
                seen.append(
                    Asked(user="", method=self.command, target=self.path, headers=headers, body=content, attempt=attempt)
                )
            is_form = "form" in self.headers.get("Content-Type", "")
            status, answer = respond(self.path, content.decode() if is_form or not content else json.loads(content))
            answered = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answered)))
            self.end_headers()
            self.wfile.write(answered)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()  # which is how long it takes to end
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
