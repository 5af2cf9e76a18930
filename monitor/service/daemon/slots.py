"""Slots in the daemon: which is run next, how many were skipped before it, and by the clocks whether runs still succeed."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.alerts.conditions import Staleness, judge_stale
from monitor.alerts.incidents import assign_incidents
from monitor.alerts.verdicts import shorten_reason
from monitor.model.instants import format_instant
from monitor.model.root_causes import RootCause
from monitor.model.runs import LatestRun, RunStatus
from monitor.ports import AlertStore, Clock
from monitor.service.clock import SKEW, JumpFinder
from monitor.service.logs import errors_logged
from monitor.service.runner import Runner, Watched

_COUNTED = 10_000

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChoice:
    """The slot to run.

    With ``is_rerun`` it is measured anew if it was run before. ``skipped`` before it, by reason.
    """

    slot: datetime
    is_rerun: bool
    skipped: Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class SlotChooser:
    """Chooses slots by comparison.

    Those that were run while a clock was ahead of this one are run again, each once.
    """

    runner: Runner
    ahead: dict[str, datetime] = field(
        default_factory=dict
    )  # the newest slot stored when the clock was found to be behind
    repeated: dict[str, datetime] = field(default_factory=dict)  # the last one that was run again
    overlapped: dict[str, set[datetime]] = field(
        default_factory=dict
    )  # what fell due while it was at work
    due: dict[str, datetime] = field(default_factory=dict)  # since when it waited for a place
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def choose(self, watched: Watched) -> SlotChoice:
        """The comparison's newest slot; DatabaseError when the store cannot be read."""
        name, now = watched.comparison.name, self.runner.clock.now()
        slot = watched.schedule.latest(now)
        newest = self.runner.patiently(
            partial(self.runner.store.history.runs, comparison=name, limit=1)
        )
        last = newest[0].slot if newest else None
        if last is not None and last > now + SKEW:
            # This clock is behind the one that stored the newest slot: it was set back, or that one
            # ran ahead.
            self.ahead[name] = last
        is_rerun = name in self.ahead and slot <= self.ahead[name] and self._rewind(name, slot)
        return SlotChoice(
            slot=slot, is_rerun=is_rerun, skipped=self._count(watched, _passed(watched, last, slot))
        )

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
        # Overlaps that are noted from now on belong to the run that is about to begin, and are
        # counted before the next.
        with self._lock:
            overlapped, due = self.overlapped.pop(name, set()), self.due.pop(name, None)
        # It waited for the slot in which it fell due, and for all that passed since.
        first = watched.schedule.latest(due) if due else None
        return Counter(
            "overlap"
            if slot in overlapped
            else "busy"
            if first is not None and slot >= first
            else "missed"
            for slot in passed
        )

    def _rewind(self, name: str, slot: datetime) -> bool:
        """False when way was made for the slot already."""
        if self.repeated.get(name) == slot:
            return False
        # Else neither runs nor alerts of the wrong clock's slots would let those of the right one
        # through.
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
    is_long = (slot - last) / watched.schedule.interval > _COUNTED
    start = slot - _COUNTED * watched.schedule.interval if is_long else last
    return [each for each in watched.schedule.between(start, slot) if last < each < slot]


PAUSE_S = 60.0
"""A longer time between two looks means that this process was stopped, or that another daemon led."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessWatch:
    """One comparison: since when, by both clocks, it is watched without a break, and the newest slot known to be ok then."""

    start: datetime
    start_s: float
    last_ok: datetime | None


@dataclass(slots=True, kw_only=True)
class StalenessMonitor:
    """Judges every few seconds whether runs still succeed.

    It remembers since when time has passed evenly.
    """

    alerts: AlertStore
    clock: Clock
    away_s_since: Callable[[datetime], float] = lambda _: (
        0.0
    )  # how long the database was away since then
    looked_s: float = float("inf")
    jumps: JumpFinder = field(default_factory=JumpFinder)
    watches: dict[str, FreshnessWatch] = field(default_factory=dict)

    def look(
        self, watched: Iterable[Watched], latest: Sequence[LatestRun], receivers: tuple[str, ...]
    ) -> list[str]:
        """Judge each by its newest run, store and name what changed.

        From the leader's one thread, at least every PAUSE_S.
        """
        now, now_s = self.clock.now(), self.clock.monotonic()
        # A jump means a clock that was set, or a suspended machine.
        if self.jumps.look(now, now_s) is not None or now_s - self.looked_s > PAUSE_S:
            self.watches.clear()
        self.looked_s = now_s
        by_name = {each.run.comparison: each for each in latest}
        changed = []
        for each in watched:
            name = each.comparison.name
            with errors_logged("staleness not stored", comparison=name):
                if self._look(each, by_name.get(name), (now, now_s), receivers):
                    changed.append(name)
        return changed

    def _look(
        self,
        each: Watched,
        newest: LatestRun | None,
        moment: tuple[datetime, float],
        receivers: tuple[str, ...],
    ) -> bool:
        name, (now, now_s) = each.comparison.name, moment
        last_ok = None if newest is None else newest.last_ok_slot
        watch = self.watches.get(name)
        if watch is None or watch.last_ok != last_ok:
            watch = self.watches[name] = FreshnessWatch(start=now, start_s=now_s, last_ok=last_ok)
        wait = measure_wait(each, watch, now_s)
        if not wait.is_over(now):
            return False
        wait = replace(wait, cause=self._find_cause(each, wait.since, newest))
        before = self.alerts.states(name)
        installation = self.alerts.installation(create=True)
        states, transitions = judge_stale(
            each.comparison, before, wait, now, installation=installation
        )
        if transitions:
            states, transitions = assign_incidents(
                states, transitions, before, each.comparison.judging
            )
            self.alerts.store_states(states, transitions, receivers=receivers)
        for change in transitions:
            log.warning(
                "alert changed",
                comparison=name,
                to=change.to_state,
                alert=change.alert,
                reason=change.reason,
            )
        return bool(transitions)

    def _find_cause(self, each: Watched, since: datetime, newest: LatestRun | None) -> RootCause:
        """An outage of the database that lasted an interval, and why the newest run since then failed."""
        away_s = self.away_s_since(since)
        interval_s = each.schedule.interval.total_seconds()
        has_failed = (
            newest is not None and newest.run.slot > since and newest.run.status is not RunStatus.OK
        )
        reason = newest.run.reason if newest is not None and has_failed else None
        return RootCause(
            database_away_s=away_s if away_s >= interval_s else 0.0,
            run_failure=None if reason is None else shorten_reason(reason),
        )


def measure_wait(watched: Watched, watch: FreshnessWatch, monotonic: float) -> Staleness:
    """How long no run has succeeded, in slots of the schedule, each with the time that its run may take."""
    schedule, deadline = watched.schedule, watched.comparison.measuring.deadline
    since = due = watch.last_ok or watch.start
    for _ in range(watched.comparison.judging.stale_after):
        due = schedule.next(due)
    # By the steady clock another run must have been due, so that a clock set forward makes nothing
    # stale.
    needed: timedelta = schedule.next(watch.start) + deadline - watch.start
    return Staleness(
        since=since,
        has_succeeded=watch.last_ok is not None,
        overdue_at=due + deadline,
        seen_s=monotonic - watch.start_s,
        needed_s=needed.total_seconds(),
    )
