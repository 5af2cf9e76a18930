from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from monitor.settings.schedule import Cron, Every, Schedule

NOON = datetime(2024, 1, 11, 12, 7, 30, tzinfo=UTC)
MOMENTS = st.integers(0, 130 * 366 * 86_400).map(lambda seconds: NOON + timedelta(seconds=seconds - 50 * 366 * 86_400))
SCHEDULES: list[Schedule] = [
    Every(timedelta(seconds=1)),
    Every(timedelta(minutes=15)),
    Every(timedelta(hours=7), timedelta(minutes=123)),
    Every(timedelta(weeks=1)),
    Cron.parse("*/15 * * * *"),
    Cron.parse("30 2 * * *", "Europe/Berlin"),
    Cron.parse("5,50 */6 1 * mon", "America/New_York"),
    Cron.parse("0 0 29 2 *"),
    Cron.parse("15 * * * *", "Australia/Lord_Howe"),
]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_every_15m_stands_on_the_quarters_of_the_hour() -> None:
    schedule = Every(timedelta(minutes=15))
    assert schedule.latest(NOON) == at("2024-01-11 12:00")
    assert schedule.next(NOON) == schedule.latest(at("2024-01-11 12:15")) == at("2024-01-11 12:15")
    assert schedule.next(at("2024-01-11 12:15")) == at("2024-01-11 12:30")
    assert schedule.interval == timedelta(minutes=15)


def test_an_offset_moves_every_slot_by_as_much() -> None:
    schedule = Every(timedelta(minutes=15), timedelta(seconds=20))
    assert schedule.latest(at("2024-01-11 12:15")) == at("2024-01-11 12:00:20")
    assert schedule.latest(at("2024-01-11 12:15:20")) == at("2024-01-11 12:15:20")
    assert schedule.next(at("2024-01-11 12:15:20")) == at("2024-01-11 12:30:20")
    assert schedule.interval == timedelta(minutes=15)


def test_every_week_begins_on_the_epochs_thursday() -> None:
    assert Every(timedelta(weeks=1)).latest(NOON) == at("2024-01-11 00:00")


def test_between_is_empty_when_no_slot_lies_there_or_the_ends_are_swapped() -> None:
    for schedule in (Every(timedelta(hours=1)), Cron.parse("0 * * * *")):
        assert schedule.between(at("2024-01-11 10:01"), at("2024-01-11 10:59")) == []
        assert schedule.between(at("2024-01-11 12:00"), at("2024-01-11 10:00")) == []


@given(st.sampled_from(SCHEDULES), MOMENTS)
def test_latest_and_next_enclose_every_moment_without_a_slot_between(schedule: Schedule, moment: datetime) -> None:
    latest, following = schedule.latest(moment), schedule.next(moment)
    assert latest <= moment < following
    assert schedule.next(latest) == following
    assert schedule.latest(following - timedelta(microseconds=1)) == latest
    assert latest.utcoffset() == following.utcoffset() == timedelta(0)


@given(st.sampled_from(SCHEDULES[1:]), MOMENTS, st.timedeltas(timedelta(0), timedelta(days=3)))
def test_between_is_the_chain_of_nexts(schedule: Schedule, start: datetime, span: timedelta) -> None:
    chain = []
    slot = schedule.next(start - timedelta(microseconds=1))
    while slot <= start + span:
        chain.append(slot)
        slot = schedule.next(slot)
    assert schedule.between(start, start + span) == chain
