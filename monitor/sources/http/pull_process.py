"""A child process for pulls. It starts when the pulls of several runs use half a core.

It ends when it has been idle for a while, or when its parent ends.
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
from monitor.model.runs import PullRequest
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.connection_pool import is_busy

_IDLE_S = 60.0
_LATE_S = 15
"""The parent kills a child that does not answer for this time after a deadline."""
_READY = b"."
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from monitor.sources.http.pull_process import "
    "answer_pulls; answer_pulls(int(sys.argv[2]))"
)


class PullProcess:
    """A child process. The parent sends it a socket for each pull."""

    def __init__(self) -> None:
        self._control, control_of_child = socket.socketpair()
        with control_of_child:
            descriptor = control_of_child.fileno()
            folder = str(Path(monitor.__file__).parents[1])
            # -P, because the working directory may contain another package named monitor.
            command = [sys.executable, "-P", "-c", _PROGRAM, folder, str(descriptor)]
            # In a new session, the child does not get Ctrl-C. It is for the parent.
            self._child = subprocess.Popen(  # noqa: S603 - the same program
                command,
                pass_fds=[descriptor],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended."""
        return self._child.poll() is not None

    def end(self) -> None:
        """Kill the child."""
        self._child.kill()
        self._child.wait()
        self._control.close()

    @property
    def is_ready(self) -> bool:
        """Whether the child can pull."""
        return bool(wait([self._control], 0))

    def pull(self, options: HttpSourceOptions, request: PullRequest) -> Pull:
        """Pull in the child. The error of the pull is raised here.

        Raises ConnectionError if the child has ended.
        """
        deadline = Deadline.after(request.timeout_s)
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _LATE_S, 0))
        try:
            with Connection(ours.detach()) as connection, theirs:
                socket.send_fds(self._control, [_READY], [theirs.fileno()])
                theirs.close()
                connection.send((options, replace(request, on_progress=str), deadline))
                while connection.poll(deadline.remaining_s + _LATE_S):
                    message = connection.recv()
                    if isinstance(message, Pull):
                        return message
                    if isinstance(message, Exception):
                        raise message
                    request.on_progress(message)
                self._child.kill()  # it was stopped, or the machine lacks memory
                raise SourceError("the process that pulls did not answer in time", permanent=False)
        except (EOFError, OSError):
            self._child.kill()
            raise ConnectionError from None


_lock = threading.Lock()
_current: PullProcess | None = None
_not_before_s = 0.0
"""No process is started before this time, because the last start failed. Monotonic clock."""
_pulled_here: list[str] = []
"""The hosts with limits and the runs whose pulls this process does at present.

Further pulls of these hosts and runs stay in this process. Limits are for all pulls of a host, and
the pulls of a run must stay together.
"""


def pull_in_place(
    options: HttpSourceOptions,
    request: PullRequest,
    pull_here: Callable[..., Pull],
) -> Pull:
    """Pull in the child process. If there is none or it ends, ``pull_here`` pulls."""
    deadline = Deadline.after(request.timeout_s)
    names = {options.host, request.together} - {""}
    process = None
    stays = list[str]()
    with _lock:
        # A child ends when it is idle. The count of a day's requests must last longer.
        if not options.requests_a_day and names.isdisjoint(_pulled_here):
            process = _ready_process()
        if process is None:
            stays = [name for name in names if options.is_limited or name == request.together]
        _pulled_here.extend(stays)
    try:
        if process is not None:
            with suppress(ConnectionError):
                return process.pull(options, request)
        return pull_here(options, replace(request, timeout_s=deadline.remaining_s))
    finally:
        with _lock:
            for name in stays:
                _pulled_here.remove(name)


def _ready_process() -> PullProcess | None:
    global _current, _not_before_s  # noqa: PLW0603 - each process has one
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
        with suppress(OSError, RuntimeError):  # no more processes, files or threads are possible
            _current = PullProcess()
    if _current is not None and _current.is_ready:
        return _current
    return None


def _forget() -> None:
    global _lock, _current  # noqa: PLW0603 - each process has one
    # The child process belongs to the process from which this process was forked.
    _lock = threading.Lock()
    _current = None
    _pulled_here.clear()


os.register_at_fork(after_in_child=_forget)


def answer_pulls(descriptor: int) -> None:
    """Do the pulls of the parent until the parent has ended, or has sent no pull for a while.

    The child process runs this function.
    """
    from monitor.sources.http.source import pull_here  # noqa: PLC0415 - it imports this module

    # A service manager sends SIGTERM to all processes. The last runs may still need pulls.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    control = socket.socket(fileno=descriptor)
    control.settimeout(_IDLE_S)
    control.send(_READY)
    threads = list[threading.Thread]()
    while True:
        threads = [thread for thread in threads if thread.is_alive()]
        try:
            data, descriptors, _, _ = socket.recv_fds(control, len(_READY), 1)
        except TimeoutError:
            if not threads:
                return
            continue
        if not data:  # the parent has ended
            os._exit(0)
        thread = threading.Thread(target=_answer, args=(descriptors[0], pull_here), daemon=True)
        thread.start()
        threads.append(thread)


def _answer(descriptor: int, pull_here: Callable[..., Pull]) -> None:
    # The parent may no longer wait.
    with suppress(EOFError, OSError), Connection(descriptor) as connection:
        options, request, deadline = connection.recv()
        request = replace(request, timeout_s=deadline.remaining_s, on_progress=connection.send)
        try:
            connection.send(pull_here(options, request))
        except SourceError as error:
            connection.send(error)
        except Exception as error:  # noqa: BLE001 - the parent raises it
            connection.send(RuntimeError(repr(error)))
