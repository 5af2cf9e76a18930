"""Which slot of a comparison is run next, and how many slots were skipped before it, by reason."""

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import structlog

from monitor.model.instants import format_instant
from monitor.service.clock import SKEW
from monitor.service.runner import Runner, Watched

_COUNTED = 10_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChoice:
    """The slot to run; with ``is_rerun`` it is measured anew if it was run before. ``skipped`` before it, by reason."""

    slot: datetime
    is_rerun: bool
    skipped: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class SlotChooser:
    """Chooses slots for the daemon. Slots that were run while a clock was ahead of this one are run again, each once.

    By comparison: ``ahead`` is the newest slot that was stored when the clock was found to be behind, ``repeated`` the last one
    that was run again, ``overlapped`` the slots that fell due while the comparison was at work, ``due`` the time since when it
    waited for a place.
    """

    runner: Runner
    ahead: dict[str, datetime] = field(default_factory=dict)
    repeated: dict[str, datetime] = field(default_factory=dict)
    overlapped: dict[str, set[datetime]] = field(default_factory=dict)
    due: dict[str, datetime] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def choose(self, watched: Watched) -> SlotChoice:
        """The comparison's newest slot; DatabaseError when the store cannot be read."""
        name, now = watched.comparison.name, self.runner.clock.now()
        slot = watched.schedule.latest(now)
        newest = self.runner.patiently(partial(self.runner.store.history.runs, comparison=name, limit=1))
        last = newest[0].slot if newest else None
        if last is not None and last > now + SKEW:
            # This clock is behind the one that stored the newest slot: it was set back, or that one ran ahead.
            self.ahead[name] = last
        is_rerun = name in self.ahead and slot <= self.ahead[name] and self._rewind(name, slot)
        return SlotChoice(slot=slot, is_rerun=is_rerun, skipped=self._count(watched, _passed(watched, last, slot)))

    def note_overlap(self, name: str, slots: Iterable[datetime]) -> None:
        """Note slots at which the comparison was still at work."""
        with self._lock:
            self.overlapped.setdefault(name, set()).update(slots)

    def note_due(self, name: str, since: datetime) -> None:
        """Note that the comparison wants to run, and may have to wait for a place."""
        with self._lock:
            self.due[name] = since

    def _count(self, watched: Watched, passed: Sequence[datetime]) -> Mapping[str, int]:
        name = watched.comparison.name
        # Overlaps that are noted from now on belong to the run that is about to begin, and are counted before the next.
        with self._lock:
            overlapped, due = self.overlapped.pop(name, set()), self.due.pop(name, None)
        # It waited for the slot in which it fell due, and for all that passed since.
        first = watched.schedule.latest(due) if due else None
        return Counter(
            "overlap" if slot in overlapped else "busy" if first is not None and slot >= first else "missed" for slot in passed
        )

    def _rewind(self, name: str, slot: datetime) -> bool:
        """False when way was made for the slot already."""
        if self.repeated.get(name) == slot:
            return False
        # Else neither runs nor alerts of the wrong clock's slots would let those of the right one through.
        log.warning(
            "clock was set back: slots that were run before are run again",
            comparison=name,
            newest=format_instant(self.ahead[name]),
        )
        now = self.runner.clock.now()
        self.runner.patiently(partial(self.runner.store.alerts.rewind, name, slot=slot, now=now))
        self.repeated[name] = slot
        return True


def _passed(watched: Watched, last: datetime | None, slot: datetime) -> list[datetime]:
    if last is None:
        return []
    # Of a very long absence the latest ones alone are counted.
    start = max(last, slot - _COUNTED * watched.schedule.interval)
    return [each for each in watched.schedule.between(start, slot) if last < each < slot]
