"""Pulls in a process of its own, where those of many runs at once would leave the rest of this one too little of its core.

One interpreter keeps one core busy, and asking takes as much of it as all else that a run does. Once pulls of several runs
keep half a core busy, a child process takes the next ones; it ends when nobody has pulled for a minute, or with its parent.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection

from monitor.model import Pull, PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.connection_pool import is_busy

_IDLE_S = 60.0
_LATE_S = 15.0
"""How long after its deadline an answer is waited for, while the process starts for instance."""
_MOST_AT_ONCE = 512


class PullProcess:
    """A child process and the pulls that wait for it; ConnectionError for one that it did not live to answer."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__, str(theirs.fileno())]
            # A session of its own: Ctrl-C is the parent's to answer.
            self._child = subprocess.Popen(  # noqa: S603 - this very program
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._connection = Connection(ours.detach())
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Pull]] = {}
        self.is_gone = False
        threading.Thread(target=self._receive, name="pull-process", daemon=True).start()

    def pull(self, options: HttpSourceOptions, request: PullRequest) -> Pull:
        """What the child pulls, or raises."""
        answer = Future[Pull]()
        with self._lock:
            if self.is_gone:
                raise ConnectionError
            self._waiting[id(answer)] = answer
            self._connection.send((id(answer), options, request))
        try:
            return answer.result(request.timeout_s + _LATE_S)
        except TimeoutError:
            self._child.kill()  # it was stopped, or its machine is out of memory
            raise ConnectionError from None

    def _receive(self) -> None:
        try:
            while True:
                key, pull, error = self._connection.recv()
                with self._lock:
                    answer = self._waiting.pop(key)
                if error is None:
                    answer.set_result(pull)
                else:
                    answer.set_exception(error)
        except (EOFError, OSError):
            with self._lock:
                self.is_gone = True
                self._connection.close()
            for answer in self._waiting.values():
                answer.set_exception(ConnectionError())
            self._child.wait()


_lock = threading.Lock()
_current: PullProcess | None = None


def pull_elsewhere(options: HttpSourceOptions, request: PullRequest) -> Pull | None:
    """The pull of a process of its own; None where there is none, or it ended in the midst."""
    global _current  # noqa: PLW0603 - one a process
    with _lock:
        if _current is None or _current.is_gone:
            _current = PullProcess() if is_busy() and len(os.sched_getaffinity(0)) > 1 else None
        process = _current
    if process is None:
        return None
    try:
        return process.pull(options, request)
    except ConnectionError:
        return None


def _forget() -> None:
    global _lock, _current
    # The process that forked this one has the thread that receives answers.
    _lock, _current = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def _serve(connection: Connection) -> None:
    """Pull what is asked for until the parent is gone, or has asked for nothing for a while."""
    from monitor.sources.http.source import pull_here  # noqa: PLC0415 - which imports this module

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a service manager sends it to all: runs that end in time still pull
    under_way, sending = set[int](), threading.Lock()

    def answer(key: int, options: HttpSourceOptions, request: PullRequest) -> None:
        pull = error = None
        try:
            pull = pull_here(options, request)
        except Exception as raised:  # noqa: BLE001 - raised where it was asked for
            error = raised
        with sending:
            under_way.discard(key)
            connection.send((key, pull, error))

    threads = ThreadPoolExecutor(_MOST_AT_ONCE)
    try:
        while connection.poll(_IDLE_S) or under_way:
            if connection.poll():
                key, options, request = connection.recv()
                under_way.add(key)
                threads.submit(answer, key, options, request)
    except (EOFError, OSError):
        os._exit(0)  # nobody waits for what is under way


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
