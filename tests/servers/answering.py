"""A server that answers each request as a function says.

with answering(lambda path, body: (200, [1, 2])) as server:
    ... server.url, server.requests
"""

import json
from contextlib import contextmanager

from servers.webhook import answer, running_webhook


@contextmanager
def answering(respond):
    """``respond`` takes the path and the posted body, JSON or text. It returns the status and the answer as JSON."""

    def reply(request):
        is_text = not request.body or "form" in request.headers.get("content-type", "")
        body = request.body.decode() if is_text else request.json()
        status, found = respond(request.path, body)
        return answer(status, body=json.dumps(found).encode())

    with running_webhook() as server:
        server.respond = reply
        yield server
