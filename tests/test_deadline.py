import threading
from types import SimpleNamespace

import pytest

from monitor.boundary import deadline
from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError


def test_a_deadline_says_what_is_left_and_when_it_has_passed(monkeypatch):
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: 100.0))
    soon, now, past = (Deadline.after(seconds) for seconds in (60, 0, -1))
    assert [each.remaining_s for each in (soon, now, past)] == [60.0, 0.0, 0.0]
    assert [each.is_past for each in (soon, now, past)] == [False, True, True]
    soon.require_time()
    with pytest.raises(OverdueError):
        past.require_time()


def test_a_call_gives_its_result_or_the_exception_it_raised():
    assert BackgroundCall(lambda: 42, name="answer").wait(Deadline.after(60)) == 42
    with pytest.raises(ZeroDivisionError):
        BackgroundCall(lambda: 1 / 0, name="fail").wait(Deadline.after(60))


def test_a_call_that_hangs_is_given_up_at_the_deadline():
    release = threading.Event()
    with pytest.raises(OverdueError):
        BackgroundCall(lambda: release.wait(60), name="hang").wait(Deadline.after(0.01))
    release.set()
