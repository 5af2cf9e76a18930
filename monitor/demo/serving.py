"""An aiohttp application in a thread of its own, on a random loopback port unless told otherwise."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

from aiohttp import web

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
        target=_run, args=(loop, _serve(app, (host, port), stop, started)), name=f"demo-{name}", daemon=True
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


def _run(loop: asyncio.AbstractEventLoop, serving: Coroutine[None, None, None]) -> None:
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
