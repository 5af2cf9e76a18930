"""A process of its own for pulls, once those of several runs keep half a core busy.

It ends when idle, or with its parent.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path

import monitor
from monitor.deadline import Deadline
from monitor.errors import SourceError
from monitor.model.rankings import Pull
from monitor.model.runs import PullProgress, PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.connection_pool import is_busy

_IDLE_S = 60.0
_LATE_S = 15
"""A child that reads nothing, or does not answer for so long after a deadline, is ended."""
_WORD = b"."
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from monitor.sources.http.pull_process import "
    "answer_pulls; answer_pulls(int(sys.argv[2]))"
)


class PullProcess:
    """A child process, and a socket over which it is handed one of its own for each pull."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            # The folder that the caller stands in may hold another package of our name.
            command = [
                sys.executable,
                "-P",
                "-c",
                _PROGRAM,
                str(Path(monitor.__file__).parents[1]),
                str(theirs.fileno()),
            ]
            # A session of its own: Ctrl-C is the parent's to answer.
            self._child = subprocess.Popen(  # noqa: S603 - this very program
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""
        return self._child.poll() is not None

    def end(self) -> None:
        """Kill the child."""
        self._child.kill()
        self._child.wait()
        self._control.close()

    @property
    def is_ready(self) -> bool:
        """Whether it has said that it can pull."""
        return bool(wait([self._control], 0))

    def pull(self, options: HttpSourceOptions, request: PullRequest) -> Pull:
        """What the child pulls, or raises; ConnectionError where it did not live to answer."""
        deadline = Deadline.after(request.timeout_s)
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _LATE_S, 0))
        try:
            with Connection(ours.detach()) as connection, theirs:
                socket.send_fds(self._control, [_WORD], [theirs.fileno()])
                theirs.close()
                connection.send((options, replace(request, tell=str), deadline))
                while connection.poll(deadline.remaining_s + _LATE_S):
                    if not isinstance(said := connection.recv(), PullProgress):
                        pull, error = said
                        break
                    request.tell(said)
                else:
                    self._child.kill()  # it is stopped, or out of memory
                    raise SourceError(
                        "the process that pulls did not answer in time", permanent=False
                    )
        except (EOFError, OSError):
            self._child.kill()
            raise ConnectionError from None
        if error is not None:
            raise error
        answered: Pull = pull
        return answered


_lock = threading.Lock()
_current: PullProcess | None = None
_not_before_s = 0.0
"""One that cannot live is not begun again and again."""
_kept_here: list[str] = []
"""Hosts of pulls with limits under way in this process, since these are those of all, and their runs: others stay with them."""


def pull_in_place(
    options: HttpSourceOptions, request: PullRequest, pull_here: Callable[..., Pull]
) -> Pull:
    """The pull of a process of its own.

    ``pull_here`` where there is none that works, or it ended in the midst.
    """
    deadline, mine = Deadline.after(request.timeout_s), {options.host, request.together} - {""}
    with _lock:
        # What was counted of a day must outlive the other process, which ends when it is idle.
        process = None if options.requests_a_day or mine & {*_kept_here} else _living()
        kept = (
            []
            if process
            else [each for each in mine if options.is_limited or each == request.together]
        )
        _kept_here.extend(kept)
    try:
        if process is not None:
            with suppress(ConnectionError):
                return process.pull(options, request)
        return pull_here(options, replace(request, timeout_s=deadline.remaining_s))
    finally:
        with _lock:
            for each in kept:
                _kept_here.remove(each)


def _living() -> PullProcess | None:
    global _current, _not_before_s  # noqa: PLW0603 - one a process
    if _current is not None and _current.is_gone:
        _current.end()
        _current = None
    if (
        _current is None
        and is_busy()
        and (os.cpu_count() or 1) > 1
        and time.monotonic() >= _not_before_s
    ):
        _not_before_s = time.monotonic() + _IDLE_S
        with suppress(OSError, RuntimeError):  # no more processes, files or threads are to be had
            _current = PullProcess()
    return _current if _current is not None and _current.is_ready else None


def _forget() -> None:
    global _lock, _current
    # It is the child of the process that forked this one.
    _lock, _current = threading.Lock(), None
    _kept_here.clear()


os.register_at_fork(after_in_child=_forget)


def answer_pulls(descriptor: int) -> None:
    """Pull what is asked for until the parent is gone, or has asked for nothing for a while.

    For the child process.
    """
    from monitor.sources.http.source import pull_here  # noqa: PLC0415 - which imports this module

    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a service manager sends it to all: runs that end in time still pull

    def answer(descriptor: int) -> None:
        with (
            suppress(EOFError, OSError),
            Connection(descriptor) as connection,
        ):  # nobody may wait any more
            options, request, deadline = connection.recv()
            try:
                here = replace(request, timeout_s=deadline.remaining_s, tell=connection.send)
                connection.send((pull_here(options, here), None))
            except SourceError as error:
                connection.send((None, error))
            except Exception as fault:  # noqa: BLE001 - raised where it was asked for, whatever it holds
                connection.send((None, RuntimeError(repr(fault))))

    control, answering = socket.socket(fileno=descriptor), list[threading.Thread]()
    control.settimeout(_IDLE_S)
    control.send(_WORD)
    while True:
        answering = [each for each in answering if each.is_alive()]
        try:
            word, descriptors, _, _ = socket.recv_fds(control, len(_WORD), 1)
        except TimeoutError:
            if not answering:
                return
            continue
        if not word:
            os._exit(0)
        answering.append(threading.Thread(target=answer, args=descriptors, daemon=True))
        answering[-1].start()
