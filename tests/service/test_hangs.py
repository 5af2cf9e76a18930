"""What hangs is noticed by the steady clock and begun anew, and costs the others nothing: which runs get a place."""

import threading
from datetime import timedelta

import pytest

import published
from factories import HOUR, MINUTE
from logs import captured
from monitor.model.runs import RunStatus
from monitor.service import runner
from monitor.service.daemon import jobs
from monitor.service.daemon import scheduler as scheduler_module
from monitor.service.daemon.scheduler import SILENT_S, JobPlan
from monitor.service.daemon.threads import Places, Ticket, next_runs, took_whole_deadline
from monitor.settings.schedule import Every
from servers.daemon import wait_for
from service.stepped_daemon import SteppedClock, scheduling, watching
from service.test_clock import NOON, world
from tables import rows

pytestmark = pytest.mark.usefixtures("url")


def test_a_run_that_hangs_costs_its_slot_and_the_next_is_run_with_new_sources(
    tmp_path, monkeypatch
):
    config = world(tmp_path)
    config.write_text(config.read_text().replace("every: 1h", "every: 1h\n    deadline: 4s"))
    with watching(config) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._in_force.wiring.watched["feed"]
        monkeypatch.setattr(runner, "FINISHING_S", 0.0)
        with hung.in_use:
            watched.let_pass(HOUR)
            wait_for(lambda: watched.value('watchdog_restarts_total{part="run"}'), "the rescue")
            monkeypatch.undo()
            watched.let_pass(HOUR)
            watched.await_run(NOON + 2 * HOUR)
        assert watched.runs()[NOON + HOUR].status is RunStatus.FAILED
        assert watched.daemon._in_force.wiring.watched["feed"] is not hung


def test_a_run_whose_database_hangs_is_left_behind_and_the_slot_is_run_again(tmp_path, monkeypatch):
    config = world(tmp_path)
    config.write_text(config.read_text().replace("every: 1h", "every: 1h\n    deadline: 4s"))
    ended = threading.Event()
    with watching(config) as watched:
        watched.await_run(NOON)
        store = watched.daemon.store
        finish = store.runs.finish
        results = []

        def hang(*arguments, **options):
            monkeypatch.undo()
            ended.wait(60)
            results.append(finish(*arguments, **options))

        for name in ("STORING", "DATABASE_WAIT"):
            monkeypatch.setattr(jobs, name, timedelta(0))
        monkeypatch.setattr(store.runs, "finish", hang)
        watched.let_pass(HOUR)
        wait_for(lambda: watched.value('watchdog_restarts_total{part="run"}'), "the rescue")
        watched.let_pass(2 * MINUTE + 5 * MINUTE)
        run = watched.await_run(NOON + HOUR, attempt=2)
        ended.set()
        wait_for(lambda: results, "the late result")
        assert results == [None]
        assert watched.runs()[NOON + HOUR] == run


def daily(call, limit_s=60.0):
    return JobPlan(call=call, when=Every(timedelta(days=1)), limit=timedelta(seconds=limit_s))


def test_one_of_a_name_is_at_work_at_a_time_and_is_begun_again_after_its_end():
    ended, count = threading.Event(), []

    def work():
        count.append(1)
        ended.wait(20)

    with scheduling(SteppedClock()) as scheduler:
        scheduler.follow({"one": daily(work)})
        wait_for(lambda: count, "its begin")
        scheduler.run_now("one")
        wait_for(lambda: (scheduler.next_at("one") or NOON) < NOON + HOUR, "that it is due")
        assert count == [1]
        ended.set()
        wait_for(lambda: len(count) == 2, "its second begin")


def test_a_job_that_hangs_is_left_behind_and_begun_again():
    ended, count, hung = threading.Event(), [], []

    def work():
        count.append(1)
        ended.wait(20)

    with scheduling(SteppedClock(), lambda name, _: hung.append(name)) as scheduler:
        scheduler.follow({"one": daily(work, 0.05)})
        wait_for(lambda: len(count) >= 2, "its second begin")
        ended.set()
    assert set(hung) == {"one"}


def test_a_job_that_raises_is_logged_and_can_be_begun_again(monkeypatch):
    lines, count = captured(monkeypatch, scheduler_module), []

    def fail():
        count.append(1)
        raise ZeroDivisionError

    with scheduling(SteppedClock()) as scheduler:
        scheduler.follow({"bad": daily(fail)})
        wait_for(lambda: lines.entries, "its end")
        scheduler.run_now("bad")
        wait_for(lambda: len(count) == 2, "its second begin")
    assert [(line["event"], line["job"]) for line in lines.entries][:1] == [("job failed", "bad")]


def test_a_scheduler_that_looks_for_no_due_jobs_is_not_alive(monkeypatch):
    clock = SteppedClock()
    with scheduling(clock) as scheduler:
        assert scheduler.is_alive
        monkeypatch.setattr(scheduler, "_process_jobs", lambda: 1 / 0)
        clock.let_pass(timedelta(seconds=SILENT_S))
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


def taken(held, one, ended):
    def hold():
        with held.taken(one):
            ended.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    return thread


def test_who_waits_is_counted_and_begins_when_a_place_is_free():
    now_s, ended = [0.0], threading.Event()
    held = Places(lambda: 1, lambda: now_s[0])
    second, third = ticket("second"), ticket("third")
    with held.taken(ticket("first")):
        waiting = [taken(held, second, ended)]
        wait_for(lambda: held.count_waiting() == 1, "the second")
        waiting.append(taken(held, third, ended))
        wait_for(lambda: held.count_waiting() == 2, "both")
    assert second.admitted.wait(60)
    assert (second.begun_s, held.count_waiting()) == (0.0, 1)
    now_s[0] = 12.0
    held.look_again()
    assert third.admitted.wait(60)
    assert (third.begun_s, held.running_s("third"), held.count_waiting()) == (12.0, 0.0, 0)
    ended.set()
    for thread in waiting:
        thread.join(60)
