"""Staleness of comparisons: no run has succeeded for too long, judged by clocks as there may be no run to judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from monitor.alerts.conditions import Staleness, judge_stale
from monitor.alerts.incidents import assign_incidents
from monitor.errors import DatabaseError
from monitor.model.runs import LatestRun
from monitor.ports import AlertStore, Clock
from monitor.service.clock import JumpFinder
from monitor.service.runner import Watched

PAUSE_S = 60.0
"""A longer time between two looks means that this process was stopped, or that another daemon led."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessWatch:
    """One comparison: since when, by both clocks, it is watched without a break, and the newest slot known to be ok then."""

    start: datetime
    start_s: float
    last_ok: datetime | None


@dataclass(slots=True, kw_only=True)
class StalenessMonitor:
    """Judges every few seconds whether runs still succeed. It remembers since when time has passed evenly."""

    alerts: AlertStore
    clock: Clock
    looked_s: float = float("inf")
    jumps: JumpFinder = field(default_factory=JumpFinder)
    watches: dict[str, FreshnessWatch] = field(default_factory=dict)

    def look(self, watched: Iterable[Watched], latest: Sequence[LatestRun], receivers: tuple[str, ...]) -> list[str]:
        """Judge each comparison and store what changed; ``latest`` are the newest runs as stored. Names of those that changed.

        To be called at least every PAUSE_S, from one thread, and only by the leader.
        """
        now, now_s = self.clock.now(), self.clock.monotonic()
        # A jump means a clock that was set, or a suspended machine.
        if self.jumps.look(now, now_s) is not None or now_s - self.looked_s > PAUSE_S:
            self.watches.clear()
        self.looked_s = now_s
        last_ok = {each.run.comparison: each.last_ok_slot for each in latest}
        names = ((each, each.comparison.name) for each in watched)
        return [name for each, name in names if self._look(each, last_ok.get(name), (now, now_s), receivers)]

    def _look(
        self, each: Watched, last_ok: datetime | None, moment: tuple[datetime, float], receivers: tuple[str, ...]
    ) -> bool:
        name, (now, now_s) = each.comparison.name, moment
        watch = self.watches.get(name)
        if watch is None or watch.last_ok != last_ok:
            watch = self.watches[name] = FreshnessWatch(start=now, start_s=now_s, last_ok=last_ok)
        wait = measure_wait(each, watch, now_s)
        if not wait.is_over(now):
            return False
        try:
            before = self.alerts.states(name)
            installation = self.alerts.installation(create=True)
            states, transitions = judge_stale(each.comparison, before, wait, now, installation=installation)
            if transitions:
                states, transitions = assign_incidents(states, transitions, before, each.comparison.judging)
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
    since = due = watch.last_ok or watch.start
    for _ in range(watched.comparison.judging.stale_after):
        due = schedule.next(due)
    # By the steady clock another run must have been due, so that a clock set forward makes nothing stale.
    needed: timedelta = schedule.next(watch.start) + deadline - watch.start
    return Staleness(
        since=since,
        has_succeeded=watch.last_ok is not None,
        overdue_at=due + deadline,
        seen_s=monotonic - watch.start_s,
        needed_s=needed.total_seconds(),
    )
