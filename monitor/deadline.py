"""Deadlines: a point in time by which work must be over, and calls that are given up when it has passed.

Calls to vendors run in a daemon thread of their own; what they loop over asks the same deadline between its steps.
"""

import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Generic, NoReturn, Self, TypeVar

T = TypeVar("T")
SignalHandler = Callable[[int, FrameType | None], object]

_AGAIN_S = 0.5
"""What was interrupted while no statement was under way is interrupted again."""


class OverdueError(Exception):
    """The deadline has passed; the caller says whose."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """``at`` on the monotonic clock.

    Real time, because what it bounds (sockets, statements, disks) runs on real time.
    """

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_past(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self.at

    def require_time(self) -> None:
        """Return while there is time left, else OverdueError."""
        if self.is_past:
            raise OverdueError


class BackgroundCall(Generic[T]):
    """A call under way in a daemon thread: a hung call holds up neither its caller nor the end of the process."""

    def __init__(self, work: Callable[[], T], *, name: str) -> None:
        self._done: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        self._given_up = threading.Event()
        self._interrupts: list[Callable[[], object]] = []
        # In the caller's context, so that lines of the log name the same run.
        context = copy_context()
        threading.Thread(target=context.run, args=(self._run, work), name=name, daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        _CALL.set(self)
        try:
            value = work()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._done.put(partial(_raise, error))
        else:
            self._done.put(lambda: value)

    def wait(self, deadline: Deadline) -> T:
        """Result of the call, or the exception it raised.

        OverdueError at the deadline. To be called once.
        """
        try:
            outcome = self._done.get(timeout=deadline.remaining_s)
        except queue.Empty:
            self._give_up()
            raise OverdueError from None
        except BaseException:  # Ctrl-C and the like
            self._give_up()
            raise
        return outcome()

    def _give_up(self) -> None:
        self._given_up.set()
        if self._interrupts:
            threading.Thread(
                target=self._interrupt_to_the_end, name="interrupt", daemon=True
            ).start()

    def _interrupt_to_the_end(self) -> None:
        while self._interrupts:
            for interrupt in tuple(self._interrupts):
                _interrupt(interrupt)
            time.sleep(_AGAIN_S)

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Have the call's work interrupted by this once nobody waits for it any more."""
        self._interrupts.append(interrupt)
        try:
            if self._given_up.is_set():
                raise OverdueError
            yield
        finally:
            self._interrupts.remove(interrupt)


@contextmanager
def interrupted_at(deadline: Deadline | None, interrupt: Callable[[], object]) -> Iterator[None]:
    """What is done inside is interrupted once the deadline has passed: an interrupt between two statements stops neither."""
    ended = threading.Event()

    def watch(deadline: Deadline) -> None:
        wait_s = deadline.remaining_s
        while not ended.wait(wait_s):
            _interrupt(interrupt)
            wait_s = _AGAIN_S

    if deadline is not None:
        threading.Thread(target=watch, args=(deadline,), name="deadline", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def signals_handled(
    handle: Callable[[SignalHandler, int, FrameType | None], object],
) -> Iterator[None]:
    """SIGINT and SIGTERM of the main thread are handled so inside.

    The first argument is what handles them outside.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {
        number: handler for number, handler in before.items() if is_main and callable(handler)
    }
    for number, handler in handlers.items():
        signal.signal(number, partial(handle, handler))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def interrupted_by_signals(interrupt: Callable[[], object]) -> AbstractContextManager[None]:
    """SIGINT and SIGTERM interrupt the main thread inside, in libraries that would drop or delay what handlers raise."""

    def handle(before: SignalHandler, number: int, frame: FrameType | None) -> None:
        _interrupt(interrupt)
        before(number, frame)

    return signals_handled(handle)


def _interrupt(interrupt: Callable[[], object]) -> None:
    # What has just ended cannot be interrupted.
    with suppress(Exception):
        interrupt()


_CALL: ContextVar[BackgroundCall[Any] | None] = ContextVar("call", default=None)


def interrupt_when_given_up(interrupt: Callable[[], object]) -> AbstractContextManager[None]:
    """What a background call does inside is interrupted by this once nobody waits for the call any more."""
    call = _CALL.get()
    return nullcontext() if call is None else call.interrupting(interrupt)


def _raise(error: BaseException) -> NoReturn:
    raise error
