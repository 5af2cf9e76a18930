"""Staleness of comparisons: no run has succeeded for too long, judged by clocks as there may be no run to judge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from monitor.alerts import Staleness, assign_incidents, judge_stale
from monitor.errors import DatabaseError
from monitor.model import LatestRun
from monitor.ports import AlertStore, Clock
from monitor.service.runner import Watched

JUMP_S = 5.0
"""How far the two clocks may go apart between two looks: more means a clock that was set, or a suspended machine."""
PAUSE_S = 60.0
"""A longer time between two looks means that this process was stopped, or that another daemon led."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One moment by both clocks."""

    wall: datetime
    monotonic: float

    def went_wrong(self, later: Moment) -> bool:
        """Whether time has not passed evenly until the later moment."""
        passed = later.monotonic - self.monotonic
        return passed > PAUSE_S or abs((later.wall - self.wall).total_seconds() - passed) > JUMP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessWatch:
    """One comparison: since when it is watched without a break, and the newest slot that was known to be ok then."""

    start: Moment
    last_ok: datetime | None


@dataclass(slots=True, kw_only=True)
class StalenessMonitor:
    """Judges every few seconds whether runs still succeed. It remembers since when time has passed evenly."""

    alerts: AlertStore
    clock: Clock
    last: Moment | None = None
    watches: dict[str, FreshnessWatch] = field(default_factory=dict)

    def look(self, watched: Iterable[Watched], latest: Sequence[LatestRun], receivers: tuple[str, ...]) -> bool:
        """Judge each comparison and store what changed; ``latest`` are the newest runs as stored. Whether anything changed.

        To be called at least every PAUSE_S, and only by the leader.
        """
        now = Moment(wall=self.clock.now(), monotonic=self.clock.monotonic())
        if self.last is not None and self.last.went_wrong(now):
            self.watches.clear()
        self.last = now
        last_ok = {each.run.comparison: each.last_ok_slot for each in latest}
        changed = [self._look(each, last_ok, now, receivers) for each in watched]
        return any(changed)

    def _look(self, each: Watched, last_ok: Mapping[str, datetime | None], now: Moment, receivers: tuple[str, ...]) -> bool:
        name = each.comparison.name
        watch = self.watches.get(name)
        if watch is None or watch.last_ok != last_ok.get(name):
            watch = self.watches[name] = FreshnessWatch(start=now, last_ok=last_ok.get(name))
        wait = measure_wait(each, watch, now.monotonic)
        if not wait.is_over(now.wall):
            return False
        try:
            before = self.alerts.states(name)
            states, transitions = judge_stale(each.comparison, before, wait, now.wall)
            if transitions:
                states, transitions = assign_incidents(states, transitions, before, group_for=each.comparison.judging.group_for)
                self.alerts.store_states(states, transitions, receivers=receivers)
        except DatabaseError as error:
            log.error("staleness not stored", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
            return False
        for change in transitions:
            log.warning("alert changed", comparison=name, to=change.to_state, alert=change.alert, reason=change.reason)
        return bool(transitions)


def measure_wait(watched: Watched, watch: FreshnessWatch, monotonic: float) -> Staleness:
    """How long no run has succeeded, in slots of the schedule, each with the time that its run may take."""
    schedule, deadline = watched.schedule, watched.comparison.measuring.deadline
    since = due = watch.last_ok or watch.start.wall
    for _ in range(watched.comparison.judging.stale_after):
        due = schedule.next(due)
    needed: timedelta = schedule.next(watch.start.wall) + deadline - watch.start.wall
    return Staleness(
        since=since,
        has_succeeded=watch.last_ok is not None,
        overdue_at=due + deadline,
        seen_s=monotonic - watch.start.monotonic,
        needed_s=needed.total_seconds(),
    )
