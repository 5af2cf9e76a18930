"""Deadlines, and calls that are abandoned when their deadline has passed.

Calls into vendors' code run in a separate daemon thread. Loops check the deadline between steps.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from types import FrameType
from typing import Any, Generic, Self, TypeVar

_T = TypeVar("_T")
SignalHandler = Callable[[int, FrameType | None], object]

_AGAIN_S = 0.5
"""How many seconds pass before the interrupt is repeated. An interrupt has no effect if it comes
between two statements."""


class OverdueError(Exception):
    """The deadline has passed. The caller's message says what was late."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A time ``at`` on the monotonic clock. Sockets, statements and disks take real time."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline that is this many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """How many seconds are left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_past(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() >= self.at

    def require_time(self) -> None:
        """Raise OverdueError if the deadline has passed."""
        if self.is_past:
            raise OverdueError


def start_daemon(work: Callable[[], _T], name: str) -> Future[_T]:
    """Call the function in a new daemon thread. If it hangs, the process can still end."""
    future: Future[_T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            future.set_exception(error)

    # The thread uses the caller's context, so that its log lines name the same run.
    threading.Thread(target=copy_context().run, args=(run,), name=name, daemon=True).start()
    return future


class BackgroundCall(Generic[_T]):
    """A running call in a daemon thread. If it hangs, its caller and the process can still end.

    If the call fails, the calls ``later`` are abandoned, because nobody waits for their results.
    """

    def __init__(
        self, work: Callable[[], _T], *, name: str, later: Sequence["BackgroundCall[Any]"] = ()
    ) -> None:
        self._later = later
        self._is_abandoned = threading.Event()
        self._interrupts: list[Callable[[], object]] = []
        self._outcome = start_daemon(partial(self._run, work), name)

    def _run(self, work: Callable[[], _T]) -> _T:
        _CALL.set(self)
        try:
            return work()
        except BaseException:
            for call in self._later:
                call.abandon()
            raise

    def wait(self, deadline: Deadline) -> _T:
        """Return the result of the call, or raise its exception.

        Raises OverdueError at the deadline.
        """
        is_done = False
        try:
            is_done = bool(wait([self._outcome], deadline.remaining_s).done)
        finally:
            if not is_done:  # the deadline has passed, or Ctrl-C
                self.abandon()
        if not is_done:
            raise OverdueError
        return self._outcome.result()

    def abandon(self) -> None:
        """Interrupt the call."""
        self._is_abandoned.set()
        if self._interrupts:
            threading.Thread(
                target=self._interrupt_until_end,
                name="interrupt",
                daemon=True,
            ).start()

    def _interrupt_until_end(self) -> None:
        while self._interrupts:
            for interrupt in tuple(self._interrupts):
                _interrupt(interrupt)
            time.sleep(_AGAIN_S)

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call ``interrupt`` if the caller abandons the call during the block."""
        self._interrupts.append(interrupt)
        try:
            if self._is_abandoned.is_set():
                raise OverdueError
            yield
        finally:
            self._interrupts.remove(interrupt)


def call_in_time(work: Callable[[], _T], limit: timedelta, *, name: str) -> _T:
    """Return the result of the call. After the limit, abandon the call and raise OverdueError."""
    return BackgroundCall(work, name=name).wait(Deadline.after(limit.total_seconds()))


@contextmanager
def interrupted_at(deadline: Deadline | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """If the deadline passes during the block, call ``interrupt`` again and again.

    Without a deadline, it is never called.
    """
    ended = threading.Event()

    def interrupt_when_due(deadline: Deadline) -> None:
        wait_s = deadline.remaining_s
        while not ended.wait(wait_s):
            _interrupt(interrupt)
            wait_s = _AGAIN_S

    if deadline is not None:
        threading.Thread(
            target=interrupt_when_due, args=(deadline,), name="deadline", daemon=True
        ).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def signals_handled(
    handle: Callable[[SignalHandler, int, FrameType | None], object],
) -> Iterator[None]:
    """Call ``handle`` for SIGINT and SIGTERM during the block, in the main thread.

    The first argument of ``handle`` is the handler that the signal has outside of the block.
    """
    handlers: dict[signal.Signals, SignalHandler] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, partial(handle, handler))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def interrupted_by_signals(interrupt: Callable[[], object]) -> AbstractContextManager[None]:
    """During the block, SIGINT and SIGTERM also call ``interrupt``.

    Use it for libraries that ignore or delay exceptions of signal handlers.
    """

    def handle(before: SignalHandler, number: int, frame: FrameType | None) -> None:
        _interrupt(interrupt)
        before(number, frame)

    return signals_handled(handle)


def _interrupt(interrupt: Callable[[], object]) -> None:
    # If the work has just ended, it cannot be interrupted, and ``interrupt`` may raise any error.
    with suppress(Exception):
        interrupt()


_CALL: ContextVar[BackgroundCall[Any] | None] = ContextVar("call", default=None)


def interrupt_when_given_up(interrupt: Callable[[], object]) -> AbstractContextManager[None]:
    """Call ``interrupt`` if the background call that runs the block is abandoned."""
    call = _CALL.get()
    if call is None:
        return nullcontext()
    return call.interrupting(interrupt)
