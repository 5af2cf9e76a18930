from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from factories import DAY, HOUR, MINUTE, SECOND, utc
from monitor.boundary.options import parse_duration
from monitor.settings.schedule import Cron, Every, schedule_of
from tables import rows

NOON = datetime(2024, 1, 11, 12, 7, 30, tzinfo=UTC)
MOMENTS = st.integers(0, 130 * 366 * 86_400).map(
    lambda seconds: NOON + (seconds - 50 * 366 * 86_400) * SECOND
)
SCHEDULES = [
    Every(SECOND),
    Every(7 * HOUR, 123 * MINUTE),
    Every(timedelta(weeks=1)),
    Cron.parse("30 2 * * *", "Europe/Berlin"),
    Cron.parse("5,50 */6 1 * mon", "America/New_York"),
    Cron.parse("0 0 29 2 *"),
    Cron.parse("15 * * * *", "Australia/Lord_Howe"),
    Cron.parse("0,20,40 1,2 * * *", "Australia/Lord_Howe"),
    schedule_of(15 * MINUTE, None, "Europe/Berlin", None, "22:00-02:30"),
    schedule_of(None, "*/20 * 1-7 * *", "Europe/Berlin", None, "01:30-02:30"),
]


def test_every_15m_is_due_on_the_quarters_of_the_hour_plus_its_offset_and_every_week_on_thursday():
    schedule = Every(15 * MINUTE)
    quarter = utc("2024-01-11 12:15")
    assert schedule.latest(NOON) == utc("2024-01-11 12:00")
    assert schedule.next(NOON) == schedule.latest(quarter) == quarter
    assert schedule.next(quarter) == utc("2024-01-11 12:30")
    assert schedule.interval == 15 * MINUTE
    assert Every(timedelta(weeks=1)).latest(NOON) == utc("2024-01-11 00:00")
    assert Every(15 * MINUTE, 20 * SECOND).latest(quarter) == utc("2024-01-11 12:00:20")


@given(st.sampled_from(SCHEDULES), MOMENTS)
def test_latest_and_next_enclose_every_moment_without_a_slot_between(schedule, moment):
    latest, following = schedule.latest(moment), schedule.next(moment)
    assert latest <= moment < following
    assert schedule.next(latest) == following
    assert schedule.latest(following - timedelta(microseconds=1)) == latest
    assert latest.utcoffset() == following.utcoffset() == timedelta(0)


BERLIN = "Europe/Berlin"
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


def day(cron, date):
    """Slots of a UTC day as HH:MM."""
    start = utc(date)
    return [
        f"{slot:%H:%M}" for slot in cron.between(start, start + timedelta(days=1, microseconds=-1))
    ]


# Sunday as in cron and not as in APScheduler. Day of month or weekday is enough when both are
# given; a field that begins with a star restricts by itself.
DAYS = """
0 6 * * 7 | 7 14 21 28
0 6 * * SUN | 7 14 21 28
0 0 13 * fri | 5 12 13 19 26
0 0 */2 * fri | 5 19
@weekly | 7 14 21 28
"""


def test_days_are_those_of_cron():
    for text, days in rows(DAYS):
        slots = Cron.parse(text).between(utc("2024-01-01"), utc("2024-01-31"))
        assert " ".join(str(slot.day) for slot in slots) == days


def test_what_is_no_expression_is_refused():
    for text in ["* * * *", "* * * * * *", "60 * * * *", "0 0 30 2 *", "@reboot"]:
        with pytest.raises(ValueError, match="cron expression"):
            Cron.parse(text)


def test_an_unknown_time_zone_is_refused():
    for zone in ["", "Europe/Berln", "../../etc/passwd", "/etc/localtime", "a\0b", "Europe"]:
        with pytest.raises(ValueError, match="not a time zone"):
            Cron.parse("* * * * *", zone)


def test_a_leap_day_is_found_across_a_century_without_one_and_a_whole_skipped_day_runs_when_the_next_begins():
    leap, skipped = Cron.parse("0 0 29 2 *"), Cron.parse("0 9 30 12 *", "Pacific/Apia")
    assert leap.next(utc("2096-03-01")) == utc("2104-02-29")
    assert leap.latest(utc("2104-02-28")) == utc("2096-02-29")
    jump = utc("2011-12-30 10:00")
    assert skipped.next(utc("2011-12-01")) == skipped.latest(utc("2012-01-01")) == jump


# Skipped, it runs when the clock jumps; repeated, the first time only; several that are skipped run
# once.
WALL = """
0 6 * * * | 2024-01-11 | 05:00
0 6 * * * | 2024-07-11 | 04:00
30 2 * * * | 2024-03-30 | 01:30
30 2 * * * | 2024-03-31 | 01:00
30 2 * * * | 2024-04-01 | 00:30
30 2 * * * | 2024-10-27 | 00:30
*/10 2,3 * * * | 2024-03-31 | 01:00 01:10 01:20 01:30 01:40 01:50
"""


def test_named_times_follow_the_clock_on_the_wall():
    for text, date, slots in rows(WALL):
        assert " ".join(day(Cron.parse(text, BERLIN), date)) == slots


def test_with_every_hour_allowed_slots_keep_their_distance_over_both_changes():
    cron = Cron.parse("*/30 * * * *", BERLIN)
    for date in ("2024-03-31", "2024-10-27"):
        assert day(cron, date) == [f"{n // 2:02}:{n % 2 * 30:02}" for n in range(48)]


INTERVALS = """
*/15 * * * * | 15m | 15m
0,5 * * * * | 5m | 55m
0 6 * * * | 1d | 1d
0 6 * * mon | 7d | 7d
0 0 1 * * | 28d | 31d
50 23 * * * | 1d | 1d
5,55 0,23 * * * | 10m | 22h10m
*/15 8-18 * * * | 15m | 13h15m
0 6 * * mon-fri | 1d | 3d
"""


def test_the_interval_is_the_shortest_way_from_slot_to_slot():
    for text, shortest, longest in rows(INTERVALS):
        cron = Cron.parse(text)
        assert (cron.interval, cron.longest) == (parse_duration(shortest), parse_duration(longest))


PAUSES = """
15m | 22:00-24:00 | 22h15m
15m | 22:00-06:00 | 16h15m
36h | 11:30-12:30 | 3d
0 3,12 * * * | 01:00-05:00 | 1d
0 3 * * mon | 01:00-05:00 | 7d
"""


def test_the_longest_pause_counts_the_hours_without_runs():
    for slots, hours, longest in rows(PAUSES):
        every, cron = (None, slots) if "*" in slots else (parse_duration(slots), None)
        assert schedule_of(every, cron, "UTC", None, hours).longest == parse_duration(longest)


@given(MOMENTS)
@settings(max_examples=25)
def test_with_only_between_the_slots_are_those_with_a_local_time_in_these_hours(moment):
    schedule = schedule_of(30 * MINUTE, None, BERLIN, None, "22:00-05:00")
    after = moment + DAY
    slots = Every(30 * MINUTE).between(moment, after)
    obvious = [slot for slot in slots if not 5 <= slot.astimezone(ZoneInfo(BERLIN)).hour < 22]
    assert schedule.between(moment, after) == obvious
    assert list(filter(schedule.is_open, slots)) == obvious


ZONES = st.sampled_from(["UTC", BERLIN, "America/New_York", "Asia/Kolkata"])
RECENT = st.integers(0, 2 * 366 * 86_400).map(lambda seconds: utc("2023-06-01") + seconds * SECOND)


@given(st.sets(st.integers(0, 6), min_size=1), ZONES, RECENT)
@settings(max_examples=25)
def test_a_minute_is_a_slot_exactly_when_the_wall_clock_matches(weekdays, zone, moment):
    cron = Cron.parse(f"*/7 * * * {','.join(map(str, weekdays))}", zone)
    start = moment.replace(second=0)
    walls = [(start + n * MINUTE).astimezone(ZoneInfo(zone)) for n in range(1440)]
    names = {WEEKDAYS[number] for number in weekdays}
    obvious = [
        wall.astimezone(UTC)
        for wall in walls
        if wall.minute % 7 == 0 and f"{wall:%a}".lower() in names
    ]
    assert cron.between(start, start + timedelta(days=1, minutes=-1)) == obvious
