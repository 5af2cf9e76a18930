"""What hangs is noticed by the steady clock and begun anew, and costs the others nothing: which runs get a place."""

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import published
from factories import HOUR
from logs import captured
from monitor.model.runs import RunStatus
from monitor.service.daemon import scheduler
from monitor.service.daemon.scheduler import STUCK_S, JobPlan
from monitor.service.daemon.threads import Places, Ticket, next_runs, took_whole_deadline
from monitor.service.daemon.watchdog import SILENT_S, Watchdog
from monitor.settings.schedule import Every
from servers.daemon import wait_for
from service.stepped_daemon import SteppedClock, scheduling, watching
from service.test_clock import NOON, world
from tables import rows

pytestmark = pytest.mark.usefixtures("url")
LONG = timedelta(minutes=20)
"""Longer than the deadline of 10 minutes with all that is granted beside it."""


def test_a_hung_run_is_given_up_and_run_again_with_new_sources_and_its_late_result_is_refused(
    tmp_path,
):
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._wiring.watched["feed"]
        hung.in_use.acquire()
        watched.let_pass(HOUR)
        wait_for(lambda: watched.daemon._runner.claims, "the hung run's claim")
        assert watched.runs()[NOON + HOUR].status is RunStatus.RUNNING
        watched.let_pass(LONG)
        again = watched.await_run(NOON + HOUR, attempt=3)
        assert watched.daemon._wiring.watched["feed"] is not hung
        assert watched.value('runs_total{comparison="feed",status="abandoned"}') == 1
        assert watched.value('watchdog_restarts_total{part="run"}') == 1
        wait_for(lambda: watched.status_of("/-/healthy") == 200, "the watchdog's next look")
        hung.in_use.release()
        wait_for(
            lambda: not [each for each in threading.enumerate() if each.name == "job-feed"],
            "the end of the hung run",
        )
        assert watched.runs()[NOON + HOUR] == again
        watched.let_pass(HOUR - LONG)
        watched.await_run(NOON + 2 * HOUR)


@pytest.mark.integration
def test_a_scheduler_that_begins_nothing_any_more_is_begun_anew(tmp_path):
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        watched.daemon._scheduler._scheduler.pause()
        watched.let_pass(HOUR)
        wait_for(lambda: watched.daemon._scheduler._asked_s, "that it is asked")
        assert NOON + HOUR not in watched.runs()
        watched.let_pass(timedelta(seconds=STUCK_S + 1))
        watched.await_run(NOON + HOUR)
        assert watched.value('watchdog_restarts_total{part="scheduler"}') == 1


def daily(call: Callable[[], object]) -> JobPlan:
    return JobPlan(
        call=call, when=Every(timedelta(days=1)), limit=timedelta(seconds=60), is_run=True
    )


def test_one_of_a_name_is_at_work_at_a_time_until_it_is_abandoned():
    clock, ended, count = SteppedClock(), threading.Event(), []

    def work():
        count.append(1)
        ended.wait(20)

    with scheduling(clock) as jobs:
        jobs.follow({"one": daily(work)})
        wait_for(lambda: count, "its begin")
        jobs.run_now("one")
        wait_for(lambda: jobs._repeated, "that it is still at work")
        assert jobs.overdue() == ()
        clock.let_pass(timedelta(seconds=61))
        assert jobs.overdue() == ("one",)
        assert count == [1]
        jobs.abandon("one")
        jobs.begin_repeated()
        wait_for(lambda: len(count) == 2, "the begin of its successor")
        ended.set()
        wait_for(lambda: not jobs._at_work, "the end of all")


def test_a_job_that_raises_is_logged_and_can_be_begun_again(monkeypatch):
    lines, count = captured(monkeypatch, scheduler), []

    def fail():
        count.append(1)
        raise ZeroDivisionError

    with scheduling(SteppedClock()) as jobs:
        jobs.follow({"bad": daily(fail)})
        wait_for(lambda: lines.entries, "its end")
        jobs.run_now("bad")
        wait_for(lambda: len(count) == 2, "its second begin")
    assert [(line["event"], line["job"]) for line in lines.entries][:1] == [("job failed", "bad")]


def watchdog(clock: SteppedClock, look: Callable[[], object]) -> Watchdog:
    """Over jobs whose looks take as long as a test wants, or fail."""
    rest: Any = dict.fromkeys(("publisher", "database", "renew_sources", "renew_store"))
    runner: Any = SimpleNamespace(clock=clock)
    jobs: Any = SimpleNamespace(
        begin_repeated=look, wake_up=lambda: None, overdue=lambda: (), is_stuck=lambda: False
    )
    return Watchdog(jobs=jobs, runner=runner, **rest)


@pytest.mark.parametrize("how", ["held up", "failing"])
def test_a_watchdog_that_is_held_up_or_whose_looks_fail_goes_on_and_does_not_count_as_looking_meanwhile(
    how,
):
    clock, over, looks = SteppedClock(), threading.Event(), []

    def look():
        looks.append(1)
        if how == "failing" and not over.is_set():
            raise ZeroDivisionError
        if len(looks) > 1:
            over.wait(20)

    dog = watchdog(clock, look)
    dog.loop.start()
    wait_for(lambda: len(looks) >= 2, "the second look")
    clock.let_pass(timedelta(seconds=SILENT_S))
    assert not dog.is_looking
    over.set()
    wait_for(lambda: dog.is_looking, "the next look")
    dog.loop.stop(20)


def ticket(
    name: str = "healthy", *, is_suspect: bool = False, begun_s: float | None = None
) -> Ticket:
    return Ticket(name=name, is_suspect=is_suspect, slow_after_s=12.0, begun_s=begun_s)


def tickets(kinds: str) -> list[Ticket]:
    """``h`` is healthy, ``s`` suspect."""
    return [ticket(is_suspect=kind == "s") for kind in kinds]


ADMITTED = """
hhh  | -          | 2 | 0 1
hhh  | h          | 2 | 0
hh   | hh         | 2 | -
h    | hhh        | 2 | -
sssh | -          | 1 | 0 3
sh   | s          | 1 | 1
ssss | hh         | 8 | 0 1
ssss | s          | 8 | 0
hs   | hhhhhhhhss | 8 | -
-    | -          | 8 | -
"""
"""Who waits, who has a place, the most at once (a reload may lower it), and which of the waiting are admitted."""


@pytest.mark.parametrize(("queue", "held", "most", "admitted"), rows(ADMITTED))
def test_healthy_runs_and_those_after_a_hang_have_places_of_their_own(queue, held, most, admitted):
    waiting = tickets(queue.strip("-"))
    found = next_runs(waiting, tickets(held.strip("-")), int(most), now_s=0.0)
    assert found == [waiting[int(place)] for place in admitted.strip("-").split()]


def test_what_is_at_work_for_long_keeps_nobody_waiting_any_more():
    held, waiting = [ticket(begun_s=100.0), ticket(begun_s=101.0)], tickets("hh")
    assert next_runs(waiting, held, 2, now_s=111.9) == []
    assert next_runs(waiting, held, 2, now_s=112.0) == waiting[:1]
    slow_suspect = [ticket(is_suspect=True, begun_s=0.0)]
    assert next_runs(tickets("s"), slow_suspect, 2, now_s=99.0) == []


def test_a_run_that_took_its_whole_deadline_is_expected_to_hang_again():
    run, deadline = published.run(), timedelta(seconds=4)
    assert took_whole_deadline(run, deadline)
    assert not took_whole_deadline(run, deadline + timedelta(microseconds=1))
    assert not took_whole_deadline(published.run(finished_at=None), deadline)


def taken(held: Places, one: Ticket) -> threading.Thread:
    thread = threading.Thread(target=held.take, args=(one,), daemon=True)
    thread.start()
    return thread


def test_who_waits_is_counted_and_begins_when_a_place_is_free():
    now_s = [0.0]
    held = Places(lambda: 1, lambda: now_s[0])
    first, second, third = (ticket(name) for name in ("first", "second", "third"))
    held.take(first)
    waiting = [taken(held, second)]
    wait_for(lambda: held.waiting == 1, "the second")
    waiting.append(taken(held, third))
    wait_for(lambda: held.waiting == 2, "both")

    held.give_back(first)
    waiting[0].join(60)
    assert (second.begun_s, held.waiting) == (0.0, 1)

    now_s[0] = 12.0
    held.look_again()
    waiting[1].join(60)
    assert (third.begun_s, held.waiting) == (12.0, 0)
