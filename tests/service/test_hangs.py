"""Runs and jobs that hang are found by the monotonic clock and started again, and do not delay the others."""

import threading
from datetime import timedelta

import pytest

import published
from factories import DAY, HOUR, MINUTE, SECOND
from logs import captured
from monitor.model.runs import RunStatus
from monitor.service import runner
from monitor.service.daemon import jobs, scheduler as scheduler_module
from monitor.service.daemon.scheduler import SILENT_S, JobPlan
from monitor.service.daemon.threads import Places, Ticket, next_runs, took_whole_deadline
from monitor.settings.schedule import Every
from servers.daemon import wait_for
from service.stepped_daemon import SteppedClock, scheduling, watching
from service.test_clock import NOON, world
from tables import rows

pytestmark = pytest.mark.usefixtures("url")


def sources(watched):
    return watched.daemon._wiring.watched["feed"]


def await_rescue(watched, hung):
    """Wait until the sources of the run that hangs were replaced, which comes after it was counted."""
    wait_for(lambda: sources(watched) is not hung, "the rescue")
    assert watched.value('watchdog_restarts_total{part="run"}')


def test_a_run_that_hangs_loses_its_slot_and_the_next_run_gets_new_sources(tmp_path, monkeypatch):
    with watching(world(tmp_path, "deadline: 4s")) as watched:
        watched.await_run(NOON)
        hung = sources(watched)
        monkeypatch.setattr(runner, "FINISHING_S", 0.0)
        with hung.in_use:
            watched.let_pass(HOUR)
            await_rescue(watched, hung)
            monkeypatch.undo()
            watched.let_pass(HOUR)
            watched.await_run(NOON + 2 * HOUR)
        lost = watched.runs()[NOON + HOUR]
        assert lost.status is RunStatus.FAILED
        assert "its deadline of 4s plus 0 s: its work was left behind" in lost.reason


def test_a_run_whose_database_hangs_is_abandoned_and_its_slot_runs_again(tmp_path, monkeypatch):
    ended = threading.Event()
    with watching(world(tmp_path, "deadline: 4s")) as watched:
        watched.await_run(NOON)
        hung = sources(watched)
        store = watched.daemon.store
        finish = store.runs.finish
        results = []

        def hang(*arguments, **options):
            monkeypatch.undo()
            ended.wait(60)
            results.append(finish(*arguments, **options))

        for name in ("STORING_TIME", "DATABASE_WAIT"):
            monkeypatch.setattr(jobs, name, timedelta(0))
        monkeypatch.setattr(store.runs, "finish", hang)
        watched.let_pass(HOUR)
        await_rescue(watched, hung)
        watched.let_pass(2 * MINUTE + 5 * MINUTE)
        run = watched.await_run(NOON + HOUR, attempt=2)
        ended.set()
        wait_for(lambda: results, "the late result")
        assert results == [None]
        assert watched.runs()[NOON + HOUR] == run


def daily(call, limit=MINUTE):
    return JobPlan(call=call, when=Every(DAY), limit=limit)


def waiting_work():
    """Work that waits until it is ended, and a list that has an entry for each call."""
    ended, count = threading.Event(), []

    def work():
        count.append(1)
        ended.wait(20)

    return ended, count, work


def test_a_job_runs_once_at_a_time_and_starts_again_after_its_end():
    ended, count, work = waiting_work()
    with scheduling(SteppedClock()) as scheduler:
        scheduler.follow({"one": daily(work)})
        wait_for(lambda: count, "its begin")
        scheduler.run_now("one")
        wait_for(lambda: (scheduler.next_at("one") or NOON) < NOON + HOUR, "that it is due")
        assert count == [1]
        ended.set()
        wait_for(lambda: len(count) == 2, "its second begin")


def test_a_job_that_raises_is_logged_and_can_be_started_again(monkeypatch):
    lines = captured(monkeypatch, scheduler_module)
    count = []

    def fail():
        count.append(1)
        raise ZeroDivisionError

    with scheduling(SteppedClock()) as scheduler:
        scheduler.follow({"bad": daily(fail)})
        wait_for(lambda: lines.entries, "its end")
        scheduler.run_now("bad")
        wait_for(lambda: len(count) == 2, "its second begin")
    assert [(line["event"], line["job"]) for line in lines.entries][:1] == [("job failed", "bad")]


def test_a_scheduler_that_does_not_process_jobs_is_not_alive(monkeypatch):
    clock = SteppedClock()
    with scheduling(clock) as scheduler:
        assert scheduler.is_alive
        monkeypatch.setattr(scheduler, "_process_jobs", lambda: 1 / 0)
        clock.let_pass(SILENT_S * SECOND)
        assert not scheduler.is_alive


def ticket(name="healthy", *, is_suspect=False, begun_s=None):
    return Ticket(name=name, is_suspect=is_suspect, slow_after_s=12.0, begun_s=begun_s)


def tickets(kinds):
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


def test_healthy_and_suspect_runs_have_separate_places():
    for queue, held, most, admitted in rows(ADMITTED):
        waiting = tickets(queue.strip("-"))
        found = next_runs(waiting, tickets(held.strip("-")), int(most), now_s=0.0)
        assert found == [waiting[int(place)] for place in admitted.strip("-").split()]


def test_a_slow_run_does_not_keep_others_waiting():
    held = [ticket(begun_s=100.0), ticket(begun_s=101.0)]
    waiting = tickets("hh")
    assert not next_runs(waiting, held, 2, now_s=111.9)
    assert next_runs(waiting, held, 2, now_s=112.0) == waiting[:1]
    slow_suspect = [ticket(is_suspect=True, begun_s=0.0)]
    assert not next_runs(tickets("s"), slow_suspect, 2, now_s=99.0)


def test_a_run_that_took_its_whole_deadline_is_expected_to_hang_again():
    run = published.run()
    deadline = 4 * SECOND
    assert took_whole_deadline(run, deadline)
    assert not took_whole_deadline(run, deadline + timedelta(microseconds=1))
    assert not took_whole_deadline(published.run(finished_at=None), deadline)


def taken(held, one, ended):
    def hold():
        with held.taken(one):
            ended.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return thread


def test_waiting_runs_are_counted_and_start_when_a_place_is_free():
    now_s = [0.0]
    ended = threading.Event()
    held = Places(1, lambda: now_s[0])
    second = ticket("second")
    third = ticket("third")
    with held.taken(ticket("first")):
        waiting = [taken(held, second, ended)]
        wait_for(lambda: held.count_waiting() == 1, "the second")
        waiting.append(taken(held, third, ended))
        wait_for(lambda: held.count_waiting() == 2, "both")
    assert second.admitted.wait(60)
    assert second.begun_s == 0.0
    assert held.count_waiting() == 1
    now_s[0] = 12.0
    held.look_again()
    assert third.admitted.wait(60)
    assert third.begun_s == 12.0
    assert held.running_s("third") == 0.0
    assert held.count_waiting() == 0
    ended.set()
    for thread in waiting:
        thread.join(60)
