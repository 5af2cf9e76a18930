"""Who was slow where a pull's deadline passed: the source, or rankwatch and its machine."""

from types import SimpleNamespace

import pytest

from monitor.model import CoverageReason
from monitor.sources.http import pace
from monitor.sources.http.pace import PullPace, describe_busy
from servers.lists import request, source_of
from servers.recommender import Recommender


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Both clocks of a pull, which stand still at what a test sets."""
    now = SimpleNamespace(wall=100.0, worked=0.0)
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: now.wall))
    monkeypatch.setattr(pace, "_worked_s", lambda: now.worked)
    return now


@pytest.mark.parametrize(
    ("took_s", "reason", "words"),
    [
        (
            [0.02] * 500,
            CoverageReason.TOO_SLOW,
            "quick (0.02 s a user, 500 were asked), but the run's deadline came first: raise",
        ),
        (
            [0.02] * 100 + [9.9],
            CoverageReason.TIMEOUT,
            "slow (0.12 s a user, 101 were asked), so that the run's deadline passed",
        ),
        ([], CoverageReason.TIMEOUT, "the run had no time left to ask"),
    ],
)
def test_a_deadline_is_the_fault_of_the_source_only_where_it_was_slow(
    took_s: list[float], reason: CoverageReason, words: str, clock: SimpleNamespace
) -> None:
    pull = PullPace()
    clock.wall += 10
    for seconds in took_s:
        pull.add(seconds)

    assert (pull.late().reason, words in pull.late().note) == (reason, True), pull.late()


def test_a_thread_that_worked_or_waited_for_a_processor_most_of_the_time_is_at_fault_itself(clock: SimpleNamespace) -> None:
    pull = PullPace()
    clock.wall, clock.worked = 110.0, 8.0
    assert pull.own_fault() == "not at fault: rankwatch or its machine was too busy, for 8.0 of 10.0 s"
    assert describe_busy(4.9, 10) is None


def test_time_outs_of_a_busy_machine_are_not_the_sources(recommender: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PullPace, "own_fault", lambda _: describe_busy(8, 10))
    recommender.behaviour.update(b="slow", c="unavailable")

    pull = source_of(http={"url": recommender.url, "timeout": "300ms", "retries": 0}).pull(request("a", "b", "c"))

    assert pull.failures == {"b": CoverageReason.TOO_SLOW, "c": CoverageReason.SERVER_ERROR}
    assert pull.notes[CoverageReason.TOO_SLOW].endswith("rankwatch or its machine was too busy, for 8.0 of 10.0 s; such as b")
