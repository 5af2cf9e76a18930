"""An aiohttp application in a thread of its own on a random loopback port."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from aiohttp import web

HOST = "127.0.0.1"
_START_S = 10.0
_STOP_S = 5.0


@contextmanager
def serve(app: web.Application, *, name: str) -> Iterator[str]:
    """Serve the application while the block lasts; gives its address, such as ``http://127.0.0.1:41234``."""
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    started: SimpleQueue[int | Exception] = SimpleQueue()
    thread = threading.Thread(target=_run, args=(loop, app, stop, started), name=f"demo-{name}", daemon=True)
    thread.start()
    port = started.get(timeout=_START_S)
    if isinstance(port, Exception):
        raise port
    try:
        yield f"http://{HOST}:{port}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_STOP_S)


def _run(
    loop: asyncio.AbstractEventLoop, app: web.Application, stop: asyncio.Event, started: SimpleQueue[int | Exception]
) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(_serve(app, stop, started))


async def _serve(app: web.Application, stop: asyncio.Event, started: SimpleQueue[int | Exception]) -> None:
    # A client that keeps its connection open must not hold up the end.
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    try:
        await runner.setup()
        await web.TCPSite(runner, HOST, 0).start()
        started.put(int(runner.addresses[0][1]))
        await stop.wait()
    except OSError as error:
        started.put(error)
    finally:
        await runner.cleanup()
