"""A recommender in a separate process. It answers from memory."""

import asyncio
import json
import multiprocessing
from contextlib import contextmanager
from urllib.parse import unquote
from zlib import crc32


class Lists(asyncio.Protocol):
    """Returns ten items for each user, some of them in both arms. Does not answer below ``/hanging``."""

    answers: dict[bytes, bytes] = {}  # noqa: RUF012 - one process, one loop

    def connection_made(self, transport):
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._rest = transport, b""

    def data_received(self, data):
        *whole, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for request in whole:
            path = request.split(b" ", 2)[1]
            if not path.startswith(b"/hanging"):
                self._transport.write(self.answers.get(path) or self._answer(path))

    def _answer(self, path):
        _, _, arm, user = unquote(path.decode()).partition("?")[0].split("/")
        body = json.dumps(_list_of(user, arm)).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.answers[path] = head.encode() + body
        return self.answers[path]


def _list_of(user, arm):
    first = crc32(user.encode()) % 5000
    return [
        first + place + 5000 * (arm == "candidate" and crc32(f"{user}{place}".encode()) % 3 == 0)
        for place in range(10)
    ]


def _serve(port):
    async def main():
        server = await asyncio.get_running_loop().create_server(Lists, "127.0.0.1", 0, backlog=512)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@contextmanager
def canned_server():
    """Run the recommender. Yields its address."""
    ours, theirs = multiprocessing.Pipe()
    spawning = multiprocessing.get_context("spawn")
    process = spawning.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        if not ours.poll(30):
            msg = "the server did not start"
            raise RuntimeError(msg)
        yield f"http://127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join(10)
