"""Counts the slots that the daemon skipped, and detects stale comparisons."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from monitor.alerts.conditions import Staleness, judge_stale
from monitor.alerts.incidents import assign_incidents
from monitor.immutable import immutable
from monitor.model.root_causes import RootCause
from monitor.model.runs import LatestRun, Run, RunStatus
from monitor.ports import AlertStore, Clock
from monitor.service.clock import JumpFinder
from monitor.service.logs import errors_logged
from monitor.service.runner import Watched
from monitor.settings.schedule import Schedule
from monitor.texts.run_reasons import write_headline

_MOST_COUNTED = 10_000

log = structlog.get_logger(__name__)


def count_skipped(
    schedule: Schedule, newest: Run, slot: datetime, due: datetime
) -> Mapping[str, int]:
    """Return the number of slots between the newest run and ``slot``, by why they were not run.

    They fell due while the newest run was at work, while the comparison waited for a place since
    ``due``, or before.
    """
    start = newest.slot
    # After a very long pause only the latest slots are counted.
    if (slot - start) / schedule.interval > _MOST_COUNTED:
        start = slot - _MOST_COUNTED * schedule.interval
    first_busy = schedule.latest(due)
    reasons: Counter[str] = Counter()
    for skipped in schedule.between(start, slot):
        if not newest.slot < skipped < slot:
            continue
        if newest.finished_at is not None and newest.started_at < skipped <= newest.finished_at:
            reasons["overlap"] += 1
        elif skipped >= first_busy:
            reasons["busy"] += 1
        else:
            reasons["missed"] += 1
    return reasons


PAUSE_S = 60.0
"""If two looks are further apart, the process was stopped, or another daemon was the leader."""


@immutable
class FreshnessWatch:
    """Since when one comparison is watched without a break.

    ``last_ok`` was the newest ok slot at ``start``.
    """

    start: datetime
    start_s: float
    last_ok: datetime | None


@dataclass(slots=True, kw_only=True)
class StalenessMonitor:
    """Checks every few seconds whether runs still succeed.

    A jump of a clock restarts the watch of each comparison.
    """

    alerts: AlertStore
    clock: Clock
    # Returns for how many seconds the database was away since an instant.
    away_s_since: Callable[[datetime], float]
    looked_s: float = float("inf")
    jumps: JumpFinder = field(default_factory=JumpFinder)
    watches: dict[str, FreshnessWatch] = field(default_factory=dict)

    def look(
        self,
        watched: Iterable[Watched],
        latest: Sequence[LatestRun],
        receivers: tuple[str, ...],
    ) -> list[str]:
        """Judge each comparison by its newest run, and store changes.

        Returns the names of the comparisons whose alerts changed.

        One thread of the leader calls it, at least every PAUSE_S seconds.
        """
        now = self.clock.now()
        now_s = self.clock.monotonic()
        # A jump means that a clock was set or the machine was suspended.
        if self.jumps.look(now, now_s) is not None or now_s - self.looked_s > PAUSE_S:
            self.watches.clear()
        self.looked_s = now_s
        by_name = {each.run.comparison: each for each in latest}
        changed = []
        for each in watched:
            name = each.comparison.name
            with errors_logged("stale comparison not stored", comparison=name):
                if self._look(each, by_name.get(name), (now, now_s), receivers):
                    changed.append(name)
        return changed

    def _look(
        self,
        watched: Watched,
        newest: LatestRun | None,
        moment: tuple[datetime, float],
        receivers: tuple[str, ...],
    ) -> bool:
        name = watched.comparison.name
        now, now_s = moment
        last_ok = None if newest is None else newest.last_ok_slot
        watch = self.watches.get(name)
        if watch is None or watch.last_ok != last_ok:
            watch = self.watches[name] = FreshnessWatch(start=now, start_s=now_s, last_ok=last_ok)
        wait = measure_wait(watched, watch, now_s)
        if not wait.is_over(now):
            return False
        wait = replace(wait, cause=self._find_cause(watched, wait.since, newest))
        before = self.alerts.states(name)
        installation = self.alerts.installation(create=True)
        states, transitions = judge_stale(
            watched.comparison,
            before,
            wait,
            now,
            installation=installation,
        )
        if transitions:
            states, transitions = assign_incidents(
                states,
                transitions,
                before,
                watched.comparison.judging,
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

    def _find_cause(self, watched: Watched, since: datetime, newest: LatestRun | None) -> RootCause:
        """Return two possible causes: the time without a database, and the last failed run.

        The time is 0 if it is shorter than the interval between runs.
        """
        away_s = self.away_s_since(since)
        if away_s < watched.schedule.interval.total_seconds():
            away_s = 0.0
        failure = None
        if newest is not None and newest.run.slot > since and newest.run.status is not RunStatus.OK:
            failure = write_headline(newest.run.reasons) or newest.run.reason
        return RootCause(database_away_s=away_s, run_failure=failure)


def measure_wait(watched: Watched, watch: FreshnessWatch, monotonic_s: float) -> Staleness:
    """Return since when no run has succeeded, and when the comparison is stale."""
    schedule = watched.schedule
    deadline = watched.comparison.measuring.deadline
    since = due = watch.last_ok or watch.start
    for _ in range(watched.comparison.judging.stale_after):
        due = schedule.next(due)
    # A run must also have been due by the steady clock. Otherwise a clock that is set forward would
    # make comparisons stale.
    needed: timedelta = schedule.next(watch.start) + deadline - watch.start
    return Staleness(
        since=since,
        has_succeeded=watch.last_ok is not None,
        overdue_at=due + deadline,
        seen_s=monotonic_s - watch.start_s,
        needed_s=needed.total_seconds(),
    )
