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

from monitor.errors import ConfigError
from monitor.receivers.webhook import verify

HOST = "127.0.0.1"
_START_S = 10.0
_STOP_S = 5.0


@contextmanager
def serve_app(app: web.Application, host: str = HOST, port: int = 0) -> Iterator[str]:
    """Serve the application while the block lasts; gives its address, such as ``http://127.0.0.1:41234``.

    Port 0 stands for any that is free. ConfigError when the address cannot be used.
    """
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started: SimpleQueue[int | OSError] = SimpleQueue()
    serving = _serve(app, (host, port), stop, started)
    thread = threading.Thread(target=_run_loop, args=(loop, serving), name="demo-http", daemon=True)
    thread.start()
    got = started.get(timeout=_START_S)
    if isinstance(got, OSError):
        msg = f"cannot serve at {host}:{port}: {got.strerror}; choose another address"
        raise ConfigError(msg)
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{got}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)


def _run_loop(loop: asyncio.AbstractEventLoop, serving: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(serving)


async def _serve(app: web.Application, at: tuple[str, int], stop: asyncio.Event, started: SimpleQueue[int | OSError]) -> None:
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
    """One alert that a webhook reported as new. ``status`` is ``firing`` or ``resolved``; all is None in what is not signed."""

    at: datetime
    is_signed: bool
    status: str | None = None
    alert: str | None = None
    segment: str | None = None


class OnCallServer:
    """Collects the alerts of webhooks; ``received`` may be read from any thread."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._lock = threading.Lock()
        self._received: list[ReceivedAlert] = []
        self._statuses: dict[str, str] = {}

    @property
    def received(self) -> tuple[ReceivedAlert, ...]:
        """All so far, oldest first."""
        with self._lock:
            return tuple(self._received)

    def app(self) -> web.Application:
        """The web application: takes a POST on ``/page``."""
        app = web.Application(client_max_size=1024 * 1024)
        app.router.add_post("/page", self._take)
        return app

    async def _take(self, request: web.Request) -> web.Response:
        body, now = await request.read(), datetime.now(UTC)
        is_signed = verify(self._secret, request.headers, body, now=now)
        with self._lock:
            self._received += self._new_alerts(body, now) if is_signed else [ReceivedAlert(at=now, is_signed=False)]
        return web.Response(status=204 if is_signed else 401)

    def _new_alerts(self, body: bytes, now: datetime) -> list[ReceivedAlert]:
        """Alerts that were not known yet: a message lists all that fires, and names each firing by a key of its own."""
        found = []
        for alert in json.loads(body)["alerts"]:
            key, status, labels = alert["annotations"]["dedup_key"], alert["status"], alert["labels"]
            if self._statuses.get(key) != status:
                found.append(
                    ReceivedAlert(at=now, is_signed=True, status=status, alert=labels["alertname"], segment=labels["segment"])
                )
            self._statuses[key] = status
        return found
