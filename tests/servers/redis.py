"""Redis or Valkey without files, on a random loopback port: one for all tests of a process, others as they are needed."""

import atexit
import tempfile
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import redis

from servers import connect_to, free_port, require, running

PASSWORD = "canary-redis-51"  # noqa: S105 - of servers that live as long as a test


@contextmanager
def running_redis(*arguments):
    """The port of a server with these arguments before its own."""
    program, port = require("redis-server", "valkey-server"), free_port()
    home = Path(tempfile.mkdtemp(prefix="rankwatch-redis-"))
    own = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(home)]
    with running([program, *arguments, *own], connect_to(port), home):
        yield port


@cache
def shared_redis():
    """The port of one that runs until this process ends."""
    kept = ExitStack()
    atexit.register(kept.close)
    return kept.enter_context(running_redis())


def emptied_redis():
    """A client of the shared server, which is now empty."""
    client = redis.Redis(port=shared_redis(), protocol=2)
    client.flushall()
    return client
