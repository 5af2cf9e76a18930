"""When a comparison runs: slots in UTC, from the configuration alone, by a period or crontab(5), unlike APScheduler's cron."""

# ruff: noqa: D102 - the base's docstrings are the contract

import calendar
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Self
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHORTEST_INTERVAL = timedelta(seconds=1)  # the least time between two runs
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_MONTHS = tuple(name.lower() for name in calendar.month_abbr[1:])
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_PART = re.compile(r"(?:\*|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\d{1,4}))?")
_FURTHEST_DAYS = (
    9 * 366
)  # no day of a calendar is further from its next like than 29 February across a year 2100


class Schedule(ABC):
    """A series of slots without begin or end.

    Every instant that goes in is aware, every one that comes out is UTC.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """The shortest time from one slot to the next, clock changes left aside."""

    @property
    @abstractmethod
    def longest(self) -> timedelta:
        """The longest time from one slot to the next, clock changes left aside."""

    @abstractmethod
    def latest(self, now: datetime) -> datetime:
        """The newest slot at or before ``now``."""

    @abstractmethod
    def next(self, after: datetime) -> datetime:
        """The first slot strictly after ``after``."""

    def is_open(self, now: datetime) -> bool:  # noqa: ARG002 - for those that close
        """Whether a run may begin now."""
        return True

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        """All slots from ``start`` to ``end`` in order, both ends included.

        None when ``end`` lies before ``start``.
        """
        slots = []
        slot = self.next(start - _INSTANT)
        while slot <= end:
            slots.append(slot)
            slot = self.next(slot)
        return slots


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """A slot each ``period``, counted from 1970-01-01 00:00 UTC: ``15m`` runs at :00, :15, :30 and :45, ``offset`` later."""

    period: timedelta
    offset: timedelta = timedelta(0)

    @property
    def interval(self) -> timedelta:
        return self.period

    longest = interval

    def latest(self, now: datetime) -> datetime:
        begin = EPOCH + self.offset
        return begin + (now - begin) // self.period * self.period

    def next(self, after: datetime) -> datetime:
        return self.latest(after) + self.period


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()

    def parse(self, text: str) -> frozenset[int]:
        """Values of a field; ValueError when the text is no field."""
        return frozenset(value for part in text.split(",") for value in self._part(part))

    def _part(self, text: str) -> range:
        match = _PART.fullmatch(text)
        if match is None:
            raise self._error(text)
        step = int(match["step"] or 1)
        first = self.low if match["first"] is None else self._number(match["first"])
        open_ended = match["first"] is None or (match["step"] and not match["last"])
        last = self.high if open_ended else self._number(match["last"] or match["first"])
        if step < 1 or last < first:
            raise self._error(text)
        return range(first, last + 1, step)

    def _number(self, text: str) -> int:
        if text.lower() in self.words:
            return self.low + self.words.index(text.lower())
        if not (text.isascii() and text.isdigit()) or not self.low <= int(text[:9]) <= self.high:
            raise self._error(text)
        return int(text)

    def _error(self, text: str) -> ValueError:
        words = f" or {self.words[0]}-{self.words[-1]}" if self.words else ""
        return ValueError(
            (
                f"{text!r} is no {self.name} of a cron expression: use "
                f"{self.low}-{self.high}{words}, *, a-b, a,b or */n"
            )
        )


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("weekday", 0, 7, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron(Schedule):
    """Slots of a cron expression: minute, hour, day of month, month, weekday (0 and 7 are Sunday).

    Of two restricted day fields (without ``*``) one must match. When clocks change, slots of every
    hour follow the wall, none in a skipped hour, two in a repeated one; those of certain hours run
    at the jump, and at the first of the two."""

    text: str
    zone: ZoneInfo
    times: tuple[time, ...] = field(default=(), repr=False, compare=False)
    days: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    months: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    weekdays: frozenset[int] = field(default=frozenset(), repr=False, compare=False)
    either_day: bool = field(default=False, repr=False, compare=False)
    every_hour: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Self:
        """Read an expression; ValueError when it is none, never occurs, or the zone is unknown."""
        words = _MACROS.get(text.strip(), text).split()
        if len(words) != len(_FIELDS):
            raise ValueError(
                (
                    "a cron expression has five fields (minute hour day month weekday), found "
                    f"{len(words)}"
                )
            )
        minutes, hours, days, months, weekdays = (
            each.parse(word) for each, word in zip(_FIELDS, words, strict=True)
        )
        cron = cls(
            text=text.strip(),
            zone=parse_zone(zone),
            times=tuple(time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
            days=days,
            months=months,
            weekdays=frozenset(day % 7 for day in weekdays),
            either_day=not words[2].startswith("*") and not words[4].startswith("*"),
            every_hour=len(hours) == 24,  # noqa: PLR2004 - hours of a day
        )
        if not any(cron.has_day(date(2000, 1, 1) + n * _DAY) for n in range(_FURTHEST_DAYS)):
            raise ValueError("this cron expression never occurs: no month it names has such a day")
        return cron

    @property
    def interval(self) -> timedelta:
        return _gap(self, min)

    @property
    def longest(self) -> timedelta:
        return _gap(self, max)

    def latest(self, now: datetime) -> datetime:
        return self._nearest(now, -_DAY, lambda slot: slot <= now, max)

    def next(self, after: datetime) -> datetime:
        return self._nearest(after, _DAY, lambda slot: slot > after, min)

    def between(self, start: datetime, end: datetime) -> list[datetime]:
        first, last = (instant.astimezone(self.zone).date() for instant in (start, end))
        days = (first + n * _DAY for n in range(-1, (last - first).days + 2))
        slots = {slot for day in days if self.has_day(day) for slot in _slots(self, day)}
        return sorted(slot for slot in slots if start <= slot <= end)

    def has_day(self, day: date) -> bool:
        """Whether slots fall on this day of the wall calendar."""
        if day.month not in self.months:
            return False
        by_number, by_name = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_number or by_name) if self.either_day else (by_number and by_name)

    def _nearest(
        self,
        instant: datetime,
        step: timedelta,
        is_wanted: Callable[[datetime], bool],
        pick: Callable[[list[datetime]], datetime],
    ) -> datetime:
        # A slot of a skipped day lands on the next one, hence a look at the neighbours before the
        # nearest is known.
        start = instant.astimezone(self.zone).date() - step
        for day in (day for n in range(_FURTHEST_DAYS) if self.has_day(day := start + n * step)):
            if found := [slot for slot in self._around(day) if is_wanted(slot)]:
                return pick(found)
        raise AssertionError(self.text)  # pragma: no cover - parse refuses what never occurs

    def _around(self, day: date) -> Iterator[datetime]:
        # Clocks may change across midnight: hence the day's neighbours.
        return (
            slot
            for n in (-1, 0, 1)
            if self.has_day(near := day + n * _DAY)
            for slot in _slots(self, near)
        )


@dataclass(frozen=True, slots=True)
class OnlyBetween(Schedule):
    """Those of the ``slots`` that lie between the hour of the day that ``opens`` and the one that ``closes``."""

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
            slot = self.slots.latest(self.closes.latest(slot) - _INSTANT)
        return slot

    def next(self, after: datetime) -> datetime:
        slot = self.slots.next(after)
        while not self.is_open(slot):
            slot = self.slots.next(self.opens.next(slot) - _INSTANT)
        return slot


def schedule_of(
    every: timedelta | None,
    cron: str | None,
    zone: str,
    offset: timedelta | None = None,
    hours: str | None = None,
) -> Schedule:
    """The schedule of either a period, with its offset, or a cron expression, within these hours. ValueError without a slot."""
    slots = Cron.parse(cron or "", zone) if every is None else Every(every, offset or timedelta(0))
    if hours is None:
        return slots
    schedule, slot = OnlyBetween(slots, *parse_hours(hours, zone)), EPOCH
    for _ in range(_FURTHEST_DAYS):
        slot = slots.next(schedule.opens.next(slot) - _INSTANT)
        if schedule.is_open(slot):
            return schedule
    raise ValueError("no slot of the schedule lies in these hours")


def parse_hours(text: str, zone: str = "UTC") -> tuple[Cron, Cron]:
    """When hours of the day such as ``22:00-06:00`` begin, and when they end.

    ValueError for none.
    """
    first, _, end = (part.strip() for part in text.partition("-"))
    try:
        walls = time.fromisoformat(first), time.fromisoformat("00:00" if end == "24:00" else end)
    except ValueError:
        walls = time(), time()
    opens, closes = (Cron.parse(f"{wall.minute} {wall.hour} * * *", zone) for wall in walls)
    if opens == closes:
        raise ValueError(
            "must be hours of the day such as 01:00-05:00, or 22:00-06:00 across midnight"
        )
    return opens, closes


def parse_zone(name: str) -> ZoneInfo:
    """The time zone of that IANA name; ValueError when there is none."""
    try:
        return ZoneInfo(name)
    except (
        OSError,
        ValueError,
        KeyError,
    ):  # a directory, a path that climbs out, a name that is not there
        raise ValueError(
            "not a time zone: use an IANA name such as UTC, Europe/Berlin or America/New_York"
        ) from None


@lru_cache(maxsize=4096)
def _slots(cron: Cron, day: date) -> tuple[datetime, ...]:
    walls = (datetime.combine(day, at, cron.zone) for at in cron.times)
    return tuple(
        sorted({slot for wall in walls for slot in _instants(wall, every_hour=cron.every_hour)})
    )


def _instants(wall: datetime, *, every_hour: bool) -> tuple[datetime, ...]:
    """Instants of a wall time: usually one.

    None or the end of the gap if skipped, two or the first if repeated.
    """
    first, second = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    if first == second:
        return (first,)
    if first < second:
        return (first, second) if every_hour else (first,)
    return () if every_hour else (_gap_end(wall, second, first),)


def _gap_end(wall: datetime, before: datetime, after: datetime) -> datetime:
    """The instant at which the clock jumps over ``wall``: it lies after ``before`` and not after ``after``. To the second."""
    old_offset = before.astimezone(wall.tzinfo).utcoffset()

    def has_jumped(seconds: int) -> bool:
        return (before + timedelta(seconds=seconds)).astimezone(
            wall.tzinfo
        ).utcoffset() != old_offset

    seconds = range(int((after - before).total_seconds()))
    return before + timedelta(seconds=bisect_left(seconds, x=True, key=has_jumped))


@lru_cache(maxsize=1024)
def _gap(cron: Cron, pick: Callable[[Iterable[int]], int]) -> timedelta:
    minutes = [at.hour * 60 + at.minute for at in cron.times]
    days = [n for n in range(_FURTHEST_DAYS) if cron.has_day(date(2000, 1, 1) + n * _DAY)]
    apart = pick([after - before for before, after in pairwise(days)] or [_FURTHEST_DAYS])
    overnight = apart * 24 * 60 + minutes[0] - minutes[-1]
    return timedelta(
        minutes=pick([overnight, *(after - before for before, after in pairwise(minutes))])
    )


@lru_cache(maxsize=1024)
def _longest_pause(schedule: OnlyBetween) -> timedelta:
    # A period that divides no day comes back to the same hours within so many days, or nearly so.
    ends = accumulate(range(40), lambda end, _: schedule.closes.next(end), initial=EPOCH)
    return max(schedule.next(end) - schedule.latest(end - _INSTANT) for end in ends)
