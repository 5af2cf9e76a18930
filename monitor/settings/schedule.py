"""The slots of a comparison, in UTC. They come from a period or a cron expression (crontab(5)).

cronsim reads cron expressions and finds their times. At clock changes it does what Debian's cron
does.
"""

# ruff: noqa: D102 - the base's docstrings are the contract

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Self
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

SCHEDULE_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHORTEST_INTERVAL = timedelta(seconds=1)  # the shortest allowed time between two runs
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)
_HOURS_MESSAGE = "must be hours of the day such as 01:00-05:00, or 22:00-06:00 across midnight"
_FIELD_COUNT = 5
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# The longest possible time between two slots: 29 February of 2096 and of 2104, because 2100 is no
# leap year.
_FURTHEST_DAYS = 9 * 366
_MINUTES_PER_DAY = 24 * 60
_FIRST_DAY = date(2000, 1, 1)
_SEARCHED_DAYS = 40


class Schedule(ABC):
    """An endless series of slots. Arguments are aware instants. Results are in UTC."""

    __slots__ = ()

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """The shortest time between two slots. Clock changes are ignored."""

    @property
    @abstractmethod
    def longest(self) -> timedelta:
        """The longest time between two slots. Clock changes are ignored."""

    @abstractmethod
    def latest(self, now: datetime) -> datetime:
        """The newest slot at or before ``now``."""

    @abstractmethod
    def next(self, after: datetime) -> datetime:
        """The first slot strictly after ``after``."""

    def is_open(self, now: datetime) -> bool:  # noqa: ARG002 - subclasses use it
        """Whether a run may begin now."""
        return True

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """All slots from ``start`` to ``end`` in order. Both ends are included."""
        slots = []
        slot = self.next(start - _INSTANT)
        while slot <= end:
            slots.append(slot)
            slot = self.next(slot)
        return slots


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """A slot every ``period``. The slots are counted from 1970-01-01 00:00 UTC plus ``offset``."""

    period: timedelta
    offset: timedelta = timedelta(0)

    @property
    def interval(self) -> timedelta:
        return self.period

    longest = interval

    def latest(self, now: datetime) -> datetime:
        begin = SCHEDULE_EPOCH + self.offset
        complete_periods = (now - begin) // self.period
        return begin + complete_periods * self.period

    def next(self, after: datetime) -> datetime:
        return self.latest(after) + self.period


@dataclass(frozen=True, slots=True)
class Cron(Schedule):
    """Slots of a cron expression: minute, hour, day of month, month, weekday (0 and 7 are Sunday).

    If neither of the two day fields begins with ``*``, a day must match only one of them. At a
    clock change an hour is skipped or repeated. If the minute or the hour begins with ``*``, the
    slots in this hour are skipped or repeated with it. Otherwise the slots of a skipped hour move
    to its end, and the slots of a repeated hour occur once.
    """

    expression: str
    zone: ZoneInfo

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Self:
        """Parse an expression. Raises ValueError if the expression or the zone is invalid."""
        expression = _MACROS.get(text.strip(), text.strip())
        fields = expression.split()
        if len(fields) != _FIELD_COUNT:
            raise ValueError(
                "a cron expression needs five fields (minute hour day month weekday), but has "
                f"{len(fields)}"
            )
        try:
            CronSim(expression, SCHEDULE_EPOCH)
        except CronSimError as error:
            raise ValueError(
                f"is no cron expression ({error}): use numbers or names, *, a-b, a,b or */n, and a "
                "day that its months have"
            ) from None
        return cls(expression=expression, zone=parse_zone(zone))

    @property
    def interval(self) -> timedelta:
        return _gap_between_slots(self.expression, min)

    @property
    def longest(self) -> timedelta:
        return _gap_between_slots(self.expression, max)

    def latest(self, now: datetime) -> datetime:
        # Near a clock change cronsim can miss the slots of up to a day. So this search backwards
        # starts one day after the next full second, and skips slots after ``now``.
        start = now.replace(microsecond=0) + _DAY + _SECOND
        slots = CronSim(self.expression, start.astimezone(self.zone), reverse=True)
        return next(slot for slot in map(_in_utc, slots) if slot <= now)

    def next(self, after: datetime) -> datetime:
        # Near a clock change cronsim can miss the slots of up to a day. So this search starts one day
        # earlier, and skips slots up to ``after``.
        slots = CronSim(self.expression, (after - _DAY).astimezone(self.zone))
        return next(slot for slot in map(_in_utc, slots) if slot > after)

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """See `Schedule`. One search finds all slots."""
        slots: list[datetime] = []
        # The search starts one day earlier, because cronsim can miss slots near a clock change.
        search = CronSim(self.expression, (start - _DAY).astimezone(self.zone))
        for slot in map(_in_utc, search):
            if slot > end:
                break
            is_repeated = bool(slots) and slot <= slots[-1]
            if slot >= start and not is_repeated:
                slots.append(slot)
        return slots


def _in_utc(slot: datetime) -> datetime:
    return slot.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class OnlyBetween(Schedule):
    """The slots of a schedule that are between the hours ``opens`` and ``closes`` of the day."""

    slots: Schedule
    opens: Cron
    closes: Cron

    @property
    def interval(self) -> timedelta:
        return self.slots.interval

    @property
    def longest(self) -> timedelta:
        return _longest_pause(self)

    def is_open(self, now: datetime) -> bool:
        return self.opens.latest(now) > self.closes.latest(now)

    def latest(self, now: datetime) -> datetime:
        slot = self.slots.latest(now)
        while not self.is_open(slot):
            # Continue right before the time when the hours closed.
            slot = self.slots.latest(self.closes.latest(slot) - _INSTANT)
        return slot

    def next(self, after: datetime) -> datetime:
        slot = self.slots.next(after)
        while not self.is_open(slot):
            # Continue at the time when the hours open.
            slot = self.slots.next(self.opens.next(slot) - _INSTANT)
        return slot


def schedule_of(
    every: timedelta | None,
    cron: str | None,
    zone: str,
    offset: timedelta | None,
    hours: str | None,
) -> Schedule:
    """Return the schedule of a period with its offset, or of a cron expression.

    With ``hours``, only slots in these hours of the day are due. Raises ValueError if the hours
    contain no slot.
    """
    slots: Schedule
    if every is None:
        slots = Cron.parse(cron or "", zone)
    else:
        slots = Every(every, offset or timedelta(0))
    if hours is None:
        return slots
    schedule = OnlyBetween(slots, *parse_hours(hours, zone))
    # If no slot was in the hours, `OnlyBetween.next` would search for ever. The hours open once a
    # day, so this loop covers the longest possible time between two slots.
    slot = SCHEDULE_EPOCH
    for _ in range(_FURTHEST_DAYS):
        opening = schedule.opens.next(slot)
        slot = slots.next(opening - _INSTANT)
        if schedule.is_open(slot):
            return schedule
    raise ValueError("no slot of the schedule is in these hours: change the hours or the schedule")


def parse_hours(hours: str, zone: str = "UTC") -> tuple[Cron, Cron]:
    """Return two daily schedules: when hours such as ``22:00-06:00`` open, and when they close.

    Raises ValueError for any other text, and if the start and the end are equal.
    """
    begin, _, end = map(str.strip, hours.partition("-"))
    if end == "24:00":
        end = "00:00"
    try:
        begin_time = time.fromisoformat(begin)
        end_time = time.fromisoformat(end)
    except ValueError:
        raise ValueError(_HOURS_MESSAGE) from None
    opens = Cron.parse(f"{begin_time.minute} {begin_time.hour} * * *", zone)
    closes = Cron.parse(f"{end_time.minute} {end_time.hour} * * *", zone)
    if opens == closes:
        raise ValueError(_HOURS_MESSAGE)
    return opens, closes


def parse_zone(name: str) -> ZoneInfo:
    """The time zone with this IANA name. Raises ValueError if there is none."""
    try:
        return ZoneInfo(name)
    # the name is unknown, or names a folder or a path outside
    except (OSError, ValueError, KeyError):
        raise ValueError(
            "not a time zone: use an IANA name such as UTC, Europe/Berlin or America/New_York"
        ) from None


@lru_cache(maxsize=1024)
def _gap_between_slots(expression: str, pick: Callable[[Iterable[int]], int]) -> timedelta:
    """Return the shortest or the longest time between two successive slots of the expression.

    ``pick`` is ``min`` or ``max``. Slots are at the same times on all days that have slots. The
    result is a gap between two slots of one day, or the gap over night: from the last slot of a day
    to the first slot of the next day that has slots.
    """
    cron = CronSim(expression, SCHEDULE_EPOCH)
    day_numbers = []
    for number in range(_FURTHEST_DAYS):
        day = _FIRST_DAY + number * _DAY
        if day.month in cron.months and cron.match_day(day):
            day_numbers.append(number)
    # The slots of a day, in minutes after midnight, in ascending order.
    minutes = [hour * 60 + minute for hour in sorted(cron.hours) for minute in sorted(cron.minutes)]
    gaps_within_day = [after - before for before, after in pairwise(minutes)]
    day_gaps = [after - before for before, after in pairwise(day_numbers)] or [_FURTHEST_DAYS]
    gap_over_night = pick(day_gaps) * _MINUTES_PER_DAY - (minutes[-1] - minutes[0])
    return timedelta(minutes=pick([*gaps_within_day, gap_over_night]))


@lru_cache(maxsize=1024)
def _longest_pause(schedule: OnlyBetween) -> timedelta:
    """The longest time between the last slot of the open hours and the first slot afterwards."""
    # With a period such as 7h, slots are at other times each day. So this code compares the pauses
    # of `_SEARCHED_DAYS` days. The longest one is close to the longest possible pause.
    closing = SCHEDULE_EPOCH  # the search may begin at any time. All later times are closings
    pauses = []
    for _ in range(_SEARCHED_DAYS + 1):
        last_slot = schedule.latest(closing - _INSTANT)
        first_slot = schedule.next(closing)
        pauses.append(first_slot - last_slot)
        closing = schedule.closes.next(closing)
    return max(pauses)
