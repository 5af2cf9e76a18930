"""Pulls in a process of its own, where those of many runs at once would leave the rest of this one too little of its core.

One interpreter keeps one core busy, and asking takes as much of it as all else that a run does. Once pulls of several runs
keep half a core busy, a child process takes the next ones; it ends when nobody has pulled for a minute, or with its parent.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import monitor
from monitor.deadline import Deadline
from monitor.errors import SourceError
from monitor.model import Pull, PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.connection_pool import is_busy

_IDLE_S = 60.0
_LATE_S = 15
"""A child that reads nothing, or answers nobody for so long after a deadline, is ended."""
_READY = 0
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from monitor.sources.http.pull_process import serve; serve(int(sys.argv[2]))"
)


class PullProcess:
    """A child process and the pulls that wait for it; ConnectionError for those that it did not live to answer."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _LATE_S, 0))
            # The folder that the caller stands in may hold another package of our name.
            command = [sys.executable, "-P", "-c", _PROGRAM, str(Path(monitor.__file__).parents[1]), str(theirs.fileno())]
            # A session of its own: Ctrl-C is the parent's to answer.
            self._child = subprocess.Popen(  # noqa: S603 - this very program
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
            self._connection = Connection(ours.detach())
        self._sending, self._lock = threading.Lock(), threading.Lock()
        self._waiting: dict[int, Future[Pull]] = {}
        self._heard_s = time.monotonic()
        self.is_ready = self.is_gone = False
        threading.Thread(target=self._receive, name="pull-process", daemon=True).start()

    def pull(self, options: HttpSourceOptions, request: PullRequest) -> Pull:
        """What the child pulls, or raises."""
        deadline, answer = Deadline.after(request.timeout_s), Future[Pull]()
        with self._lock:
            if self.is_gone:
                raise ConnectionError
            self._waiting[id(answer)] = answer
        try:
            self._send((id(answer), options, request, deadline))
            return answer.result(deadline.remaining_s + _LATE_S)
        except TimeoutError:
            if time.monotonic() - self._heard_s > _LATE_S:
                self._child.kill()  # it is stopped, or out of memory
            msg = "the process that pulls did not answer in time"
            raise SourceError(msg, permanent=False) from None
        finally:
            with self._lock:
                self._waiting.pop(id(answer), None)

    def _send(self, asked: object) -> None:
        try:
            with self._sending:
                self._connection.send(asked)
        except OSError:  # what was sent in part cannot be taken back
            self._child.kill()
            raise ConnectionError from None

    def _receive(self) -> None:
        # It ends when the child does, or says what cannot be read: another version may have been installed meanwhile.
        with suppress(Exception):
            while True:
                key, pull, error = self._connection.recv()
                self.is_ready, self._heard_s = True, time.monotonic()
                with self._lock:
                    answer = self._waiting.pop(key, None)
                if answer is not None and error is None:
                    answer.set_result(pull)
                elif answer is not None:
                    answer.set_exception(error)
        self._child.kill()
        with self._lock:
            self.is_gone = True
            left = list(self._waiting.values())
        for answer in left:
            answer.set_exception(ConnectionError())
        with self._sending:
            self._connection.close()
        self._child.wait()


_lock = threading.Lock()
_current: PullProcess | None = None
_not_before_s = 0.0
"""One that cannot live is not begun again and again."""


def pull_elsewhere(options: HttpSourceOptions, request: PullRequest) -> Pull | None:
    """The pull of a process of its own; None where there is none that works, or it ended in the midst."""
    with _lock:
        process = _living()
    if process is None or not process.is_ready:
        return None
    try:
        return process.pull(options, request)
    except ConnectionError:
        return None


def _living() -> PullProcess | None:
    global _current, _not_before_s  # noqa: PLW0603 - one a process
    if _current is not None and _current.is_gone:
        _current = None
    if _current is None and is_busy() and (os.cpu_count() or 1) > 1 and time.monotonic() >= _not_before_s:
        _not_before_s = time.monotonic() + _IDLE_S
        with suppress(OSError, RuntimeError):  # no more processes, files or threads are to be had
            _current = PullProcess()
    return _current


def _forget() -> None:
    global _lock, _current
    # The process that forked this one has the thread that receives answers.
    _lock, _current = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def serve(descriptor: int) -> None:
    """Pull what is asked for until the parent is gone, or has asked for nothing for a while. For the child process."""
    from monitor.sources.http.source import pull_here  # noqa: PLC0415 - which imports this module

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service manager sends it to all: runs that end in time still pull
    connection, sending, under_way = Connection(descriptor), threading.Lock(), set[int]()

    def say(key: int, pull: Pull | None, error: Exception | None) -> None:
        with sending:
            under_way.discard(key)
            try:
                connection.send((key, pull, error))
            except OSError:
                os._exit(0)  # nobody waits
            except Exception as fault:  # noqa: BLE001 - what cannot be sent is said at least
                connection.send((key, None, RuntimeError(repr(fault))))

    def answer(key: int, options: HttpSourceOptions, request: PullRequest, deadline: Deadline) -> None:
        try:
            say(key, pull_here(options, replace(request, timeout_s=deadline.remaining_s)), None)
        except Exception as error:  # noqa: BLE001 - raised where it was asked for
            say(key, None, error)

    say(_READY, None, None)
    try:
        while connection.poll(_IDLE_S) or under_way:
            if connection.poll():
                asked: tuple[Any, ...] = connection.recv()
                under_way.add(asked[0])
                threading.Thread(target=answer, args=asked, daemon=True).start()
    except (EOFError, OSError):
        os._exit(0)
