"""Clocks that are set and machines that sleep, through the real daemon; the schedule's days of changing clocks."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from monitor.model import State
from monitor.service.daemon.scheduler import JumpFinder, Timetable
from monitor.settings import Cron, Every, Schedule
from servers.daemon import wait_for
from service.lists_world import APART, SIMILAR, write_lists, write_world
from service.stepped_daemon import Watched, watching

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def world(folder: Path, names: tuple[str, ...] = ("feed",)) -> Path:
    config = write_world(folder, f"sqlite:///{folder}/rankwatch.db", every="1h", names=names)
    config.write_text(config.read_text().replace("for: 2", "for: 1"))
    return config


def states(watched: Watched) -> list[tuple[State, str | None]]:
    return [
        (each.state, each.dedup_key) for each in watched.daemon.store.alerts.states("feed") if each.alert == "SimilarityLow"
    ]


def test_after_a_sleep_of_six_hours_one_run_makes_up_for_all_and_no_alert_changes(tmp_path: Path) -> None:
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        before = states(watched)
        watched.clock.set(6 * HOUR)
        watched.await_run(NOON + 6 * HOUR)
        assert set(watched.runs()) == {NOON, NOON + 6 * HOUR}
        assert [state for state, _ in before] == [State.FIRING]
        assert states(watched) == before
        assert watched.value("clock_jumps_total") == 1
        assert watched.value('slots_skipped_total{comparison="feed",reason="missed"}') == 5
        assert watched.status_of("/-/healthy") == 200


def test_a_clock_set_forward_by_an_hour_gives_one_run_and_no_transition(tmp_path: Path) -> None:
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        watched.clock.set(HOUR)
        watched.await_run(NOON + HOUR)
        watched.clock.let_pass(HOUR)
        watched.await_run(NOON + 2 * HOUR)
        assert set(watched.runs()) == {NOON, NOON + HOUR, NOON + 2 * HOUR}
        assert watched.daemon.store.alerts.transitions(comparison=None, limit=None) == ()
        assert watched.value('runs_total{comparison="feed",status="abandoned"}') == 0


def test_a_clock_set_back_by_an_hour_runs_at_once_and_what_was_judged_ahead_of_time_is_judged_again(tmp_path: Path) -> None:
    write_lists(tmp_path / "candidate.jsonl", APART)
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        before = states(watched)
        watched.clock.set(-HOUR)
        watched.await_run(NOON - HOUR)
        assert states(watched) == before
        write_lists(tmp_path / "candidate.jsonl", SIMILAR)
        watched.clock.let_pass(HOUR)
        wait_for(lambda: states(watched) == [(State.QUIET, None)], "the end of the alert")
        assert watched.runs()[NOON].attempt == 2
        started, ended = watched.daemon.store.alerts.transitions(comparison=None, limit=None)
        assert (started.is_start, ended.is_end) == (True, True)
        assert watched.value("clock_jumps_total") == 1


def test_a_daemon_started_with_a_clock_behind_what_is_stored_runs_and_shows_the_present(tmp_path: Path) -> None:
    config = world(tmp_path)
    with watching(config) as watched:
        watched.await_run(NOON)
    with watching(config) as watched:
        watched.clock.set(-5 * HOUR)
        watched.await_run(NOON - 5 * HOUR)
        watched.pass_until(lambda: shown(watched) == NOON - 5 * HOUR, "the present run in the metrics", timedelta(0))


def shown(watched: Watched) -> datetime | None:
    latest = watched.daemon._upkeep.latest
    return latest[0].run.slot if latest else None


# ------ the timetable by itself


def begun(schedule: Schedule, start: datetime, end: datetime, step: timedelta = timedelta(seconds=20)) -> list[datetime]:
    """Moments at which a timetable that is looked at every so often lets the schedule begin."""
    table = Timetable()
    table.replace({"feed": schedule}, {}, 0.0)
    moments, now = [], start
    while now <= end:
        if table.due(now, 0.0):
            table.begin("feed", now, 0.0)
            moments.append(now)
        now += step
    return moments[1:]  # the first is the start's


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_a_daily_run_happens_once_on_the_days_on_which_clocks_change() -> None:
    daily = Cron.parse("30 2 * * *", "Europe/Berlin")
    spring = begun(daily, utc("2024-03-30 12:00"), utc("2024-04-01 12:00"))
    autumn = begun(daily, utc("2024-10-26 12:00"), utc("2024-10-28 12:00"))
    assert spring == [utc("2024-03-31 01:00"), utc("2024-04-01 00:30")]
    assert autumn == [utc("2024-10-27 00:30"), utc("2024-10-28 01:30")]


def test_a_run_every_half_hour_follows_the_wall_through_a_repeated_hour() -> None:
    often = Cron.parse("*/30 * * * *", "Europe/Berlin")
    moments = begun(often, utc("2024-10-26 23:45"), utc("2024-10-27 02:10"))
    assert moments == [utc("2024-10-27 00:00") + timedelta(minutes=30 * n) for n in range(5)]


def test_a_leap_second_is_no_jump_and_gives_no_second_run() -> None:
    finder, table = JumpFinder(), Timetable()
    table.replace({"feed": Every(timedelta(minutes=1))}, {}, 0.0)
    moments = [utc("2016-12-31 23:59:59"), utc("2017-01-01 00:00:00"), utc("2016-12-31 23:59:59.500"), utc("2017-01-01")]
    handed: Counter[datetime] = Counter()
    for steady, now in enumerate(moments):
        assert finder.look(now, float(steady)) is None
        if table.due(now, float(steady)):
            table.begin("feed", now, float(steady))
            handed[Every(timedelta(minutes=1)).latest(now)] += 1
    assert set(handed) == {utc("2016-12-31 23:59"), utc("2017-01-01")}


@given(st.lists(st.integers(-7 * 3600, 7 * 3600), min_size=1, max_size=30), st.integers(1, 7200))
def test_however_the_clock_is_set_the_newest_slot_is_begun_at_the_next_look_and_never_twice_in_a_row(
    steps: list[int], period: int
) -> None:
    schedule, table, now = Every(timedelta(seconds=period)), Timetable(), NOON
    table.replace({"feed": schedule}, {}, 0.0)
    last: datetime | None = None
    for step in steps:
        now += timedelta(seconds=step)
        slot = schedule.latest(now)
        assert bool(table.due(now, 0.0)) is (slot != last)
        if slot != last:
            table.begin("feed", now, 0.0)
            last = slot


def test_housekeeping_goes_by_the_steady_clock_alone() -> None:
    table = Timetable()
    table.replace({}, {"-prune": HOUR}, 100.0)
    assert table.due(NOON + 100 * HOUR, 3699.0) == ()
    assert table.due(NOON - 100 * HOUR, 3700.0) == ("-prune",)
    table.put_off("-prune", 3700.0)
    assert table.due(NOON, 7299.0) == ()


def test_what_is_to_come_soon_after_a_start_comes_then_and_after_its_whole_period_again() -> None:
    table, soon = Timetable(), {"-prune": timedelta(minutes=5)}
    table.replace({}, {"-prune": HOUR}, 100.0, firsts=soon)
    assert table.due(NOON, 399.0) == ()
    table.replace({}, {"-prune": HOUR}, 399.0, firsts=soon)  # a reload puts nothing off
    assert table.due(NOON, 400.0) == ("-prune",)
    table.begin("-prune", NOON, 400.0)
    table.replace({}, {"-prune": HOUR}, 500.0, firsts=soon)
    assert table.due(NOON, 3999.0) == ()
    assert table.due(NOON, 4000.0) == ("-prune",)


def test_a_daemon_that_is_restarted_every_ten_minutes_deletes_what_is_old_all_the_same(tmp_path: Path) -> None:
    done = "prune_last_success_timestamp_seconds"
    with watching(world(tmp_path)) as watched:
        watched.await_run(NOON)
        assert watched.value(done) is None
        watched.clock.let_pass(timedelta(minutes=6))
        wait_for(lambda: watched.value(done), "old rows deleted")


def test_those_that_have_been_due_for_longest_come_first() -> None:
    table = Timetable()
    table.replace({"late": Every(HOUR)}, {"-a": timedelta(seconds=5)}, 0.0)
    table.begin("late", NOON, 0.0)
    assert table.due(NOON, 5.0) == ("-a",)
    assert table.due(NOON + HOUR, 6.0) == ("-a", "late")
    table.hasten("unknown", 7.0)
    assert table.due(NOON + HOUR, 8.0) == ("-a", "late")
