"""Looking up host names with a deadline, which the system's resolver has not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

Addresses = Sequence[tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]]
"""What ``socket.getaddrinfo`` gives."""

_LOCK = threading.Lock()
_UNDER_WAY: dict[tuple[str, int], Future[Addresses]] = {}


def addresses_of(host: str, port: int, timeout_s: float) -> Addresses:
    """TCP addresses of the host in the order in which to try them; TimeoutError in time, socket.gaierror where there are none.

    A resolver that hangs keeps one thread a name, however often that name is asked for.
    """
    with _LOCK:
        looked_up = _UNDER_WAY.get((host, port))
        if looked_up is None:
            looked_up = _UNDER_WAY[host, port] = Future()
            threading.Thread(target=_look_up, args=(host, port, looked_up), name="resolve", daemon=True).start()
    return looked_up.result(max(timeout_s, 0.0))


def _look_up(host: str, port: int, looked_up: Future[Addresses]) -> None:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait
        looked_up.set_exception(error)
    else:
        looked_up.set_result(found)
    finally:
        with _LOCK:
            del _UNDER_WAY[host, port]
