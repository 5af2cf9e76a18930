"""When a comparison runs: slots in UTC, given by a period or a cron expression (crontab(5))."""

# ruff: noqa: D102 - the base's docstrings are the contract

import calendar
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import chain, pairwise, product, starmap
from typing import Self
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

SHORTEST_INTERVAL = timedelta(seconds=1)  # the shortest allowed time between two runs
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
# The longest time between two days of the same date: 29 February, across the year 2100.
_FURTHEST_DAYS = 9 * 366


class Schedule(ABC):
    """An endless series of slots. Arguments are aware instants. Results are in UTC."""

    __slots__ = ()

    @property
    @abstractmethod
    def interval(self) -> timedelta:
        """The shortest time from one slot to the next. Clock changes are ignored."""

    @property
    @abstractmethod
    def longest(self) -> timedelta:
        """The longest time from one slot to the next. Clock changes are ignored."""

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
        """All slots from ``start`` to ``end`` in order, both included; empty if end < start."""
        slots = []
        slot = self.next(start - _INSTANT)
        while slot <= end:
            slots.append(slot)
            slot = self.next(slot)
        return slots


@dataclass(frozen=True, slots=True)
class Every(Schedule):
    """One slot in each ``period``, counted from 1970-01-01 00:00 UTC plus ``offset``."""

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

    def parse(self, expression: str) -> frozenset[int]:
        """The values of a field of a cron expression. ValueError for an invalid field."""
        return frozenset(chain.from_iterable(map(self._part, expression.split(","))))

    def _part(self, text: str) -> range:
        match = _PART.fullmatch(text)
        if match is None:
            raise self._error(text)
        step = int(match["step"] or 1)
        first = self.low
        last = self.high
        if match["first"]:
            first = self._number(match["first"])
            if match["last"]:
                last = self._number(match["last"])
            elif not match["step"]:
                last = first
        if step < 1 or last < first:
            raise self._error(text)
        return range(first, last + 1, step)

    def _number(self, text: str) -> int:
        if text.lower() in self.words:
            return self.low + self.words.index(text.lower())
        is_number = text.isascii() and text.isdigit()
        if not is_number or not self.low <= int(text[:9]) <= self.high:
            raise self._error(text)
        return int(text)

    def _error(self, text: str) -> ValueError:
        words = f" or {self.words[0]}-{self.words[-1]}" if self.words else ""
        return ValueError(
            f"{text!r} is no {self.name} of a cron expression: use {self.low}-{self.high}{words}, "
            "*, a-b, a,b or */n"
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

    If neither day field is ``*``, one of them must match. At a clock change an hour is skipped or
    repeated. If the expression names every hour, its slots are skipped or occur twice in that hour.
    Otherwise they move to the end of a skipped hour, and occur once in a repeated hour.
    """

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
        """Read an expression. ValueError if it is invalid or never occurs, or for unknown zones."""
        words = _MACROS.get(text.strip(), text).split()
        if len(words) != len(_FIELDS):
            raise ValueError(
                "a cron expression needs five fields (minute hour day month weekday), but has "
                f"{len(words)}"
            )
        minutes, hours, days, months, weekdays = map(_Field.parse, _FIELDS, words)
        cron = cls(
            text=text.strip(),
            zone=parse_zone(zone),
            times=tuple(starmap(time, product(sorted(hours), sorted(minutes)))),
            days=days,
            months=months,
            weekdays=frozenset(day % 7 for day in weekdays),
            either_day=not words[2].startswith("*") and not words[4].startswith("*"),
            every_hour=len(hours) == 24,  # noqa: PLR2004 - hours of a day
        )
        if next(_days_of(cron), None) is None:
            raise ValueError(
                "this cron expression never occurs: change the day, which none of its months has"
            )
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
        first = start.astimezone(self.zone).date()
        last = end.astimezone(self.zone).date()
        slots: set[datetime] = set()
        for n in range(-1, (last - first).days + 2):
            slots.update(self._slots_of(first + n * _DAY))
        return sorted(slot for slot in slots if start <= slot <= end)

    def has_day(self, day: date) -> bool:
        """Whether this day of the local calendar has slots."""
        if day.month not in self.months:
            return False
        by_number = day.day in self.days
        by_name = day.isoweekday() % 7 in self.weekdays
        if self.either_day:
            return by_number or by_name
        return by_number and by_name

    def _nearest(
        self,
        instant: datetime,
        step: timedelta,
        is_wanted: Callable[[datetime], bool],
        pick: Callable[[list[datetime]], datetime],
    ) -> datetime:
        # A clock change may move a slot to the next day, so this also searches the days before and
        # after.
        start = instant.astimezone(self.zone).date() - step
        for n in range(_FURTHEST_DAYS):
            day = start + n * step
            if not self.has_day(day):
                continue
            near = map(self._slots_of, (day - _DAY, day, day + _DAY))
            slots = list(filter(is_wanted, chain.from_iterable(near)))
            if slots:
                return pick(slots)
        raise AssertionError(self.text)  # pragma: no cover - parse refuses what never occurs

    def _slots_of(self, day: date) -> tuple[datetime, ...]:
        return _slots(self, day) if self.has_day(day) else ()


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
    offset: timedelta | None,
    hours: str | None,
) -> Schedule:
    """The schedule of a period with its offset, or of a cron expression, limited to these hours.

    ValueError if the hours contain no slot.
    """
    slots: Schedule
    if every is None:
        slots = Cron.parse(cron or "", zone)
    else:
        slots = Every(every, offset or timedelta(0))
    if hours is None:
        return slots
    schedule = OnlyBetween(slots, *parse_hours(hours, zone))
    slot = EPOCH
    for _ in range(_FURTHEST_DAYS):
        slot = slots.next(schedule.opens.next(slot) - _INSTANT)
        if schedule.is_open(slot):
            return schedule
    raise ValueError("no slot of the schedule is in these hours: change the hours or the schedule")


def parse_hours(hours: str, zone: str = "UTC") -> tuple[Cron, Cron]:
    """The schedules of the begin and the end of hours such as ``22:00-06:00``, else ValueError."""
    first, _, end = map(str.strip, hours.partition("-"))
    if end == "24:00":
        end = "00:00"
    try:
        begin_time = time.fromisoformat(first)
        end_time = time.fromisoformat(end)
    except ValueError:
        begin_time = end_time = time()
    opens = Cron.parse(f"{begin_time.minute} {begin_time.hour} * * *", zone)
    closes = Cron.parse(f"{end_time.minute} {end_time.hour} * * *", zone)
    if opens == closes:
        raise ValueError(
            "must be hours of the day such as 01:00-05:00, or 22:00-06:00 across midnight"
        )
    return opens, closes


def parse_zone(name: str) -> ZoneInfo:
    """The time zone with this IANA name. ValueError if there is none."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # a folder, a path outside, an unknown name
        raise ValueError(
            "not a time zone: use an IANA name such as UTC, Europe/Berlin or America/New_York"
        ) from None


@lru_cache(maxsize=4096)
def _slots(cron: Cron, day: date) -> tuple[datetime, ...]:
    slots: set[datetime] = set()
    for at in cron.times:
        local = datetime.combine(day, at, cron.zone)
        slots.update(_instants(local, every_hour=cron.every_hour))
    return tuple(sorted(slots))


def _instants(local: datetime, *, every_hour: bool) -> tuple[datetime, ...]:
    """The instants of a local time. There is one, unless a clock change skips or repeats the time.

    With ``every_hour`` a skipped time has no instant, and a repeated time has two. Otherwise a
    skipped time has the end of the gap, and a repeated time has the first of its two instants.
    """
    first = local.replace(fold=0).astimezone(UTC)
    second = local.replace(fold=1).astimezone(UTC)
    if first == second:
        return (first,)
    is_repeated = first < second
    if every_hour:
        return (first, second) if is_repeated else ()
    return (first,) if is_repeated else (_gap_end(local, second, first),)


def _gap_end(local: datetime, before: datetime, after: datetime) -> datetime:
    """The second at which the clock skips ``local``. It is after ``before``, at most ``after``."""
    old_offset = before.astimezone(local.tzinfo).utcoffset()

    def has_jumped(seconds: int) -> bool:
        instant = before + timedelta(seconds=seconds)
        return instant.astimezone(local.tzinfo).utcoffset() != old_offset

    seconds = range(int((after - before).total_seconds()))
    return before + timedelta(seconds=bisect_left(seconds, x=True, key=has_jumped))


def _days_of(cron: Cron) -> Iterator[int]:
    """Yield the days with slots, as numbers of days since 2000-01-01."""
    for n in range(_FURTHEST_DAYS):
        if cron.has_day(date(2000, 1, 1) + n * _DAY):
            yield n


@lru_cache(maxsize=1024)
def _gap(cron: Cron, pick: Callable[[Iterable[int]], int]) -> timedelta:
    minutes = [at.hour * 60 + at.minute for at in cron.times]
    days = list(_days_of(cron))
    days_apart = pick([after - before for before, after in pairwise(days)] or [_FURTHEST_DAYS])
    gaps = [after - before for before, after in pairwise(minutes)]
    gaps.append(days_apart * 24 * 60 + minutes[0] - minutes[-1])
    return timedelta(minutes=pick(gaps))


@lru_cache(maxsize=1024)
def _longest_pause(schedule: OnlyBetween) -> timedelta:
    # Even if the period does not divide a day, 40 days show nearly the longest pause.
    ends = [EPOCH]
    for _ in range(40):
        ends.append(schedule.closes.next(ends[-1]))
    return max(schedule.next(end) - schedule.latest(end - _INSTANT) for end in ends)
