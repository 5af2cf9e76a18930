"""Certificates that change under a running server."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from monitor.web.access.options import TlsOptions
from monitor.web.access.tls import open_context

_LOOK_EVERY_S = 1.0
_Stamp = tuple[tuple[int, ...] | None, ...]

log = structlog.get_logger(__name__)


class Certificates:
    """The context for new connections: read again once a file that it was read from has changed.

    Files that cannot be used, as while only one of two has been replaced, leave the old ones in force and are tried again; that
    is logged once for each change. ConfigError when they cannot be used to begin with.
    """

    def __init__(self, options: TlsOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options, self._clock = options, clock
        self._seen = self._stamp()
        self._failed: _Stamp | None = None
        self._context = open_context(options)
        self._looked_at = clock()

    def current(self) -> ssl.SSLContext:
        """The context to be used now."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        return self._context

    def _look(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        try:
            self._context = open_context(self._options)
        except Exception as error:  # noqa: BLE001 - nothing that goes wrong here may end connections that the old one serves
            if stamp == self._failed:
                return
            self._failed = stamp
            log.error("certificate not read again; the old one stays in force", reason=str(error) or repr(error))  # noqa: TRY400 - says all
        else:
            self._seen, self._failed = stamp, None
            log.info("certificate read again")

    def _stamp(self) -> _Stamp:
        files = (self._options.cert_file, self._options.key_file, self._options.client_ca_file)
        return tuple(_state_of(path) for path in files if path is not None)


def _state_of(path: str) -> tuple[int, ...] | None:
    """What changes with the file, its owner or its mode."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
