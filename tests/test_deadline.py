import threading
import time

import pytest

from monitor.deadline import BackgroundCall, Deadline, OverdueError


def test_a_deadline_says_what_is_left_and_when_it_has_passed() -> None:
    soon, past = Deadline.after(60), Deadline.after(-1)
    assert 59 < soon.remaining_s <= 60
    assert (soon.is_past, past.is_past, past.remaining_s) == (False, True, 0.0)
    soon.require_time()
    with pytest.raises(OverdueError):
        past.require_time()


def test_a_call_gives_its_result_or_the_exception_it_raised() -> None:
    def fail() -> None:
        msg = "no"
        raise ValueError(msg)

    assert BackgroundCall(lambda: 42, name="answer").wait(Deadline.after(10)) == 42
    with pytest.raises(ValueError, match=r"^no$"):
        BackgroundCall(fail, name="fail").wait(Deadline.after(10))


def test_a_call_that_hangs_is_given_up_at_the_deadline() -> None:
    release, started = threading.Event(), time.monotonic()
    with pytest.raises(OverdueError):
        BackgroundCall(lambda: release.wait(60), name="hang").wait(Deadline.after(0.1))
    release.set()
    assert time.monotonic() - started < 30
