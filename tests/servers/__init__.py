"""Real servers on random loopback ports for tests, with one module for each server.

Each module stops what it started.
"""

import os
import secrets
import selectors
import shutil
import socket
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import pytest

from rings import is_first_ring

_START_S = 300.0  # a slow machine may need minutes to start Spark


def require(*names):
    """The path of the first program with one of these names.

    If there is none, the test is skipped. It fails if no test may be skipped.
    """
    if is_first_ring():
        pytest.fail(f"this test needs {' or '.join(names)}: mark it with pytest.mark.integration")
    places = [
        *os.environ.get("PATH", "").split(os.pathsep),
        *map(str, Path("/usr/lib/postgresql").glob("*/bin")),
    ]
    found = next(
        filter(None, (shutil.which(name, path=os.pathsep.join(places)) for name in names)), None
    )
    return found or missing(f"{' or '.join(names)} is not installed")


def missing(what) -> NoReturn:
    if os.environ.get("RANKWATCH_FORBID_SKIP"):
        pytest.fail(f"{what}, and RANKWATCH_FORBID_SKIP is set")
    pytest.skip(what, allow_module_level=True)


def await_start(ask, process, log=None, *, refusal=OSError):
    """Call ``ask`` until the server answers.

    If the server has ended or does not answer in time, the test fails with the end of its log.
    """
    ends_at = time.monotonic() + _START_S
    while True:
        try:
            ask()
        except refusal:
            if process.poll() is not None or time.monotonic() > ends_at:
                pytest.fail(
                    f"{process.args!r} did not start: "
                    f"{log.read_text(encoding='utf-8')[-2000:] if log else ''}"
                )
            time.sleep(0.05)
        else:
            return


def connect_to(port):
    """What `running` calls until this port of loopback accepts a connection."""
    return lambda: socket.create_connection(("127.0.0.1", port), timeout=5).close()


# The shell ends the server when its own standard input closes: also when pytest is killed.
_GUARD = 'signal=$1; shift; "$@" & server=$!; read _; kill -$signal $server; wait $server'


@contextmanager
def running(command, ask, home, *, account=None, signal="TERM", refusal=OSError):
    """Run a program until the block ends. The block begins when it answers. Its home, with its log, is removed."""
    log = home / "log"
    try:
        with log.open("wb") as output:
            guarded = ["/bin/sh", "-c", _GUARD, "sh", signal, *command]
            guard = subprocess.Popen(
                guarded,
                user=account,
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            await_start(ask, guard, log, refusal=refusal)
            yield
        finally:
            guard.communicate(timeout=120)
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def listening(server):
    """Serve in a thread until the block ends.

    The thread sleeps until a client connects, because a thread that looks for its end takes CPU time.
    """
    ours, theirs = socket.socketpair()

    def serve():
        with selectors.DefaultSelector() as selector:
            for each in (server, theirs):
                selector.register(each, selectors.EVENT_READ)
            while all(key.fileobj is server for key, _ in selector.select()):
                server._handle_request_noblock()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ours.close()
        thread.join(5)
        theirs.close()
        server.server_close()


@contextmanager
def hanging_name():
    """A host name for which DNS does not answer until the block ends."""
    name, ended, real = "hangs.invalid", threading.Event(), socket.getaddrinfo

    def hang_on(host, *args, **kwargs):
        if host == name:
            ended.wait(300)
        return real(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", hang_on)
        yield name
        ended.set()


def free_port():
    """A port that no process has. The system does not give it to a process that requests any port."""
    while True:
        port = 10_000 + secrets.randbelow(22_000)  # of `random` all workers have the same seed
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
