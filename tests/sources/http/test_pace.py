"""What was too slow if the deadline of a pull passes: the source, or rankwatch and its machine."""

from types import SimpleNamespace

import pytest

from monitor.sources.http import pace
from monitor.sources.http.pace import PullPace
from tables import parsed


@pytest.fixture
def clock(monkeypatch):
    """Both clocks of a pull. They have the times that a test sets."""
    now = SimpleNamespace(wall=100.0, worked=0.0, waited=0.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now.wall))
    monkeypatch.setattr(pace, "_processor_s", lambda: (now.worked, now.waited))
    return now


PASSED = "after 10.0 s, when the run's deadline passed"
OTHERS = "; the others were answered after 0.02 s (median)"
QUICK = (
    f"answered quickly, but had not answered all users {PASSED}: raise deadline or concurrency, "
    f"or sample fewer users{OTHERS}"
)


@pytest.mark.parametrize(
    "took_s, reason, note",
    [
        ([0.02] * 500, "too_slow", QUICK),
        ([0.02] * 100 + [9.9], "timeout", f"had not answered {PASSED}{OTHERS}"),
        ([], "timeout", "was not asked: the run's deadline had passed"),
    ],
)
def test_a_deadline_is_the_fault_of_the_source_only_where_it_was_slow(took_s, reason, note, clock):
    pull = PullPace()
    clock.wall += 10
    for seconds in took_s:
        pull.add(seconds, answered=seconds < 1)

    assert (pull.late().reason, pull.late().note) == (reason, note)


@pytest.mark.parametrize(
    "worked, waited, is_too_slow_to_ask, is_too_slow_to_hear",
    parsed("""
        [8.0, 0.0, true, false]
        [2.0, 6.0, true, true]
        [0.5, 4.0, false, false]
    """),
)
def test_a_thread_without_a_processor_is_at_fault_itself_and_one_at_work_only_where_users_were_not_asked(
    worked, waited, clock, is_too_slow_to_ask, is_too_slow_to_hear
):
    pull = PullPace()
    clock.wall, clock.worked, clock.waited = 110.0, worked, waited
    pull.add(9.0)
    words = "is not at fault: rankwatch or its machine was too busy, for 8.0 of 10.0 s"

    assert (pull.late().note == words) is is_too_slow_to_ask
    assert (pull.late().reason == "too_slow") is is_too_slow_to_ask
    assert (pull.busy(with_own_work=False) is not None) is is_too_slow_to_hear


def test_time_outs_of_a_busy_machine_are_not_the_sources(recommender, monkeypatch):
    monkeypatch.setattr(PullPace, "busy", lambda _, **__: "too busy")
    recommender.behaviour.update(b="slow", c="unavailable")

    pull = recommender.pull("a", "b", "c", timeout="1s", retries=0)

    assert pull.failures == {"b": "too_slow", "c": "server_error"}
    assert pull.notes["too_slow"].endswith(" too busy")
