"""Counts the slots that the daemon skipped, and detects stale comparisons."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from monitor.alerts.conditions import Staleness, judge_stale
from monitor.alerts.incidents import assign_incidents
from monitor.model.alerts import RootCause
from monitor.model.immutable import immutable
from monitor.model.ports import Clock
from monitor.model.runs import LatestRun, Run, RunStatus
from monitor.service.clock import JumpFinder
from monitor.service.logs import errors_logged
from monitor.service.runner import WatchedComparison
from monitor.settings.schedule import Schedule
from monitor.storage.alert_store import SqlAlertStore
from monitor.texts.run_reasons import write_headline

_MOST_MISSED = 10_000

log = structlog.get_logger(__name__)


def count_skipped(
    schedule: Schedule, newest: Run, slot: datetime, due: datetime
) -> Mapping[str, int]:
    """Count the slots between the newest run and ``slot`` by the reason why they were not run.

    ``overlap``: the newest run was still at work. ``busy``: the comparison was waiting for a place,
    from ``due`` on. ``missed``: all other slots, for example while the daemon was stopped.
    """
    start = newest.slot
    # After a very long pause, count only the newest slots.
    if (slot - start) / schedule.interval > _MOST_MISSED:
        start = slot - _MOST_MISSED * schedule.interval
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


LONGEST_LOOP_PAUSE_S = 60.0
"""After a longer pause the time starts again, because the process or its leadership paused."""


@immutable
class _Watch:
    """Since when a comparison is watched with the same schedule and without a break."""

    schedule: Schedule
    start: datetime
    start_s: float  # by the steady clock


@dataclass(slots=True, kw_only=True)
class StalenessMonitor:
    """Checks every few seconds whether runs still succeed.

    The time without success is counted from zero after a jump of a clock, if the schedule of the
    comparison changes, and if a removed comparison is added again.
    """

    alerts: SqlAlertStore
    clock: Clock
    # Returns how many seconds of outages the database had since an instant.
    away_s_since: Callable[[datetime], float]
    looked_s: float = float("inf")
    jumps: JumpFinder = field(default_factory=JumpFinder)
    watches: dict[str, _Watch] = field(default_factory=dict)  # by the name of the comparison

    def look(
        self,
        watched: Iterable[WatchedComparison],
        latest: Sequence[LatestRun],
        receivers: tuple[str, ...],
    ) -> list[str]:
        """Judge each comparison by its newest run, and store changes.

        Returns the names of the comparisons whose alerts changed.

        A thread of the leader calls this at least every LONGEST_LOOP_PAUSE_S seconds.
        """
        now = self.clock.now()
        now_s = self.clock.monotonic()
        # A clock was set, or the machine was suspended.
        if self.jumps.look(now, now_s) is not None or now_s - self.looked_s > LONGEST_LOOP_PAUSE_S:
            self.watches.clear()
        self.looked_s = now_s
        by_name = {run.comparison: run for run in latest}
        watches_before = self.watches
        self.watches = {}
        changed = []
        for watched_comparison in watched:
            name = watched_comparison.comparison.name
            watch = watches_before.get(name)
            if watch is None or watch.schedule != watched_comparison.schedule:
                watch = _Watch(schedule=watched_comparison.schedule, start=now, start_s=now_s)
            self.watches[name] = watch
            newest = by_name.get(name)
            wait = measure_wait(
                watched_comparison, newest, watch.start, seen_s=now_s - watch.start_s
            )
            if wait.is_over(now):
                with errors_logged("stale comparison not stored", comparison=name):
                    if self._judge(watched_comparison, newest, wait, receivers):
                        changed.append(name)
        return changed

    def _judge(
        self,
        watched: WatchedComparison,
        newest: LatestRun | None,
        wait: Staleness,
        receivers: tuple[str, ...],
    ) -> bool:
        """Store the changes of the alert on staleness. Returns whether there are any."""
        name = watched.comparison.name
        wait = replace(wait, cause=self._find_cause(watched, wait.since, newest))
        before = self.alerts.states(name)
        installation = self.alerts.installation(create=True)
        states, transitions = judge_stale(
            watched.comparison,
            before,
            wait,
            self.clock.now(),
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

    def _find_cause(
        self, watched: WatchedComparison, since: datetime, newest: LatestRun | None
    ) -> RootCause:
        """Return what may have prevented runs: an outage of the database, or a failed run.

        A time without a database is given as 0 if it is shorter than the interval between runs.
        """
        away_s = self.away_s_since(since)
        if away_s < watched.schedule.interval.total_seconds():
            away_s = 0.0
        failure = None
        if newest is not None and newest.slot > since and newest.status is not RunStatus.OK:
            failure = write_headline(newest.reasons) or newest.reason
        return RootCause(database_away_s=away_s, run_failure=failure)


def measure_wait(
    watched: WatchedComparison, newest: LatestRun | None, start: datetime, *, seen_s: float
) -> Staleness:
    """Return since when no run has succeeded, and when the comparison becomes stale.

    The comparison has been watched since ``start``. By the steady clock these are ``seen_s``
    seconds.
    """
    schedule = watched.schedule
    deadline = watched.comparison.measuring.deadline
    last_ok = None if newest is None else newest.last_ok_slot
    since = start if last_ok is None else last_ok
    due = since
    for _ in range(watched.comparison.judging.stale_after):
        due = schedule.next(due)
    # A comparison is stale only if a run was also due by the steady clock. Otherwise every
    # comparison would become stale when the wall clock is set forward.
    needed: timedelta = schedule.next(start) + deadline - start
    return Staleness(
        since=since,
        has_succeeded=last_ok is not None,
        overdue_at=due + deadline,
        seen_s=seen_s,
        needed_s=needed.total_seconds(),
    )
