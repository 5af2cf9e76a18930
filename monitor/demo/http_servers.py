"""HTTP servers in threads of their own, and the demo's on-call, which receives webhooks and checks their signatures."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue

from aiohttp import web

from monitor.receivers.webhook import verify

HOST = "127.0.0.1"
_START_S = 10.0
_STOP_S = 5.0


@contextmanager
def serve(app: web.Application, *, name: str, host: str = HOST, port: int = 0) -> Iterator[str]:
    """Serve the application while the block lasts; gives its address, such as ``http://127.0.0.1:41234``.

    Port 0 stands for any that is free. OSError when the address cannot be had.
    """
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started: SimpleQueue[int | Exception] = SimpleQueue()
    thread = threading.Thread(
        target=_run_loop, args=(loop, _serve(app, (host, port), stop, started)), name=f"demo-{name}", daemon=True
    )
    thread.start()
    got = started.get(timeout=_START_S)
    if isinstance(got, Exception):
        raise got
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{got}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)


def _run_loop(loop: asyncio.AbstractEventLoop, serving: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)


async def _serve(app: web.Application, at: tuple[str, int], stop: asyncio.Event, started: SimpleQueue[int | Exception]) -> None:
    # A client that keeps its connection open must not hold up the end.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    try:
        await runner.setup()
        await web.TCPSite(runner, *at).start()
        started.put(int(runner.addresses[0][1]))
        await stop.wait()
    except OSError as error:
        started.put(error)
    finally:
        await runner.cleanup()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAlert:
    """One alert that a webhook told as new. ``status`` is ``firing`` or ``resolved``; all is None in what is not signed."""

    at: datetime
    is_signed: bool
    status: str | None = None
    alert: str | None = None
    segment: str | None = None


class OnCallServer:
    """Collects notices; ``notices`` may be read from any thread."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._notices: list[ReceivedAlert] = []
        self._told: dict[str, str] = {}

    @property
    def notices(self) -> tuple[ReceivedAlert, ...]:
        """All so far, oldest first."""
        with self._lock:
            return tuple(self._notices)

    def app(self) -> web.Application:
        """The web application: takes a POST on ``/page``."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/page", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        body, now = await request.read(), datetime.now(UTC)
        is_signed = verify(self._secret, request.headers, body, now=now)
        with self._lock:
            self._notices += self._news(body, now) if is_signed else [ReceivedAlert(at=now, is_signed=False)]
        return web.Response(status=204 if is_signed else 401)

    def _news(self, body: bytes, now: datetime) -> list[ReceivedAlert]:
        """What was not known yet: a message lists all that fires, and names each firing by a key of its own."""
        news = []
        for alert in json.loads(body)["alerts"]:
            key, status, labels = alert["annotations"]["dedup_key"], alert["status"], alert["labels"]
            if self._told.get(key) != status:
                news.append(
                    ReceivedAlert(at=now, is_signed=True, status=status, alert=labels["alertname"], segment=labels["segment"])
                )
            self._told[key] = status
        return news
