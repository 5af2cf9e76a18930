"""The jobs of the daemon: run slots, measure late relevance, delete old rows, publish runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.boundary.deadline import call_in_time
from monitor.export.publisher import PrometheusPublisher
from monitor.model.errors import DatabaseError
from monitor.model.instants import format_instant
from monitor.model.ports import Clock, Receiver
from monitor.model.runs import Run, RunResult, RunStatus
from monitor.pipeline.delivery import OutboxSender
from monitor.service.clock import MAX_CLOCK_SKEW
from monitor.service.composition import Wiring, adapt_store, show_outbox
from monitor.service.daemon.delivery_turns import FAILED_REST_S, DeliveryTurns
from monitor.service.daemon.latest_runs import LatestRuns
from monitor.service.daemon.leadership import DaemonRole
from monitor.service.daemon.outage import OutageAlert, look_again, measure_away_s
from monitor.service.daemon.scheduler import JobKind, JobPlan, JobScheduler
from monitor.service.daemon.slots import StalenessMonitor, count_skipped
from monitor.service.daemon.threads import Places, Ticket, took_whole_deadline
from monitor.service.logs import errors_logged
from monitor.service.runner import STORING_TIME, Runner, WatchedComparison, backfill_runs
from monitor.settings.configuration import RetentionOptions
from monitor.settings.schedule import Every
from monitor.storage import SqlStore

REFRESH_EVERY = timedelta(seconds=15)
"""How often the daemon reads the outbox and the changes by other daemons, and abandons runs."""
PRUNE_EVERY = timedelta(hours=1)
FIRST_PRUNE = timedelta(minutes=5)
"""The delay before the first deletion of old rows. It lets the first runs start earlier."""
BACKFILL_EVERY = timedelta(minutes=10)
"""How often late relevance is measured. It is also measured after each run."""
PROBE_EVERY = timedelta(seconds=10)
"""How often the daemon checks the database, or tries to open it if it is not open yet."""
PROBE_LIMIT = timedelta(minutes=1)
"""If the check gets no answer within this time, an outage of the database begins."""
FOLLOW_LEASE_EVERY = timedelta(seconds=2)
"""How often the daemon compares its role with the lease. A changed lease has effect at once.
"""
LEASE_JOB = "-lease"
NOTIFY_EVERY = timedelta(seconds=5)
"""How often the daemon sends due notifications of a database outage."""
DELIVER_EVERY = timedelta(seconds=2)
"""How often the daemon looks for due deliveries. A new transition is delivered at once."""
DELIVER_JOB = "-deliver"
LONGEST_TURN_WAIT = timedelta(hours=1)
"""A receiver gets a turn at least this often, because a job needs a schedule."""
DELIVERY_TURN_LIMIT = timedelta(minutes=5)
"""The time limit for sending the due messages to one receiver."""
DATABASE_WAIT = timedelta(minutes=4)
"""How long a run may wait for the database. This time is added to the deadline and STORING_TIME."""
log = structlog.get_logger(__name__)


def _housekeeping(
    call: Callable[[], object],
    interval: timedelta,
    limit: timedelta | None,
    *,
    first: timedelta | None = None,
    kind: JobKind = JobKind.HOUSEKEEPING,
) -> JobPlan:
    """Plan a job whose first start comes after the interval, or after ``first``.

    If ``limit`` is None, the call has its own limit.
    """
    return JobPlan(
        call=call,
        when=Every(interval),
        first=interval if first is None else first,
        limit=limit,
        kind=kind,
    )


def _delivery_job(receiver: str) -> str:
    return f"{DELIVER_JOB}-{receiver}"


@dataclass(slots=True, kw_only=True)
class DaemonJobs:
    """The jobs of the daemon. Each job runs in its own thread.

    A job logs each MonitorError. The scheduler logs any other error, because it is a bug.
    """

    store: SqlStore
    clock: Clock
    publisher: PrometheusPublisher
    runner: Runner
    sender_of: Callable[[Receiver], OutboxSender]
    outage_alert: OutageAlert
    places: Places
    wiring: Callable[[], Wiring]  # the wiring in force
    role: DaemonRole
    scheduler: JobScheduler
    is_stopping: Callable[[], bool]
    open: Callable[[], object]  # opens a database that was away at the start
    follow_lease: Callable[[], object]
    latest: LatestRuns = field(init=False)
    staleness: StalenessMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.staleness = StalenessMonitor(
            alerts=self.store.alerts,
            clock=self.clock,
            away_s_since=partial(measure_away_s, self.store, self.outage_alert.database),
        )
        self.latest = LatestRuns(self.store, self.publisher, self.clock)

    def plans(self, *, has_database: bool) -> Mapping[str, JobPlan]:
        """Return the jobs by name.

        The job that runs a comparison has the comparison's name. The names of all other jobs begin
        with a dash. A standby has fewer jobs, and so has a daemon whose database is not open yet.
        """
        minute = timedelta(minutes=1)
        plans = {}
        for receiver in self.wiring().receivers:
            notify = partial(self.outage_alert.notify, receiver)
            plans[f"-notify-{receiver.name}"] = _housekeeping(
                notify, NOTIFY_EVERY, DELIVERY_TURN_LIMIT, kind=JobKind.DELIVERY
            )
        if not has_database:
            plans["-open"] = _housekeeping(self.open, PROBE_EVERY, 2 * minute)
            return plans
        plans["-probe"] = _housekeeping(self.probe, PROBE_EVERY, PROBE_LIMIT)
        plans["-refresh"] = _housekeeping(self.refresh, REFRESH_EVERY, 2 * minute)
        plans[LEASE_JOB] = _housekeeping(self.follow_lease, FOLLOW_LEASE_EVERY, 5 * minute)
        if self.role.leads:
            sizes = partial(publish_sizes, self.store, self.publisher)
            plans["-prune"] = _housekeeping(
                self.prune, PRUNE_EVERY, 6 * PRUNE_EVERY, first=FIRST_PRUNE
            )
            plans["-size"] = _housekeeping(sizes, PRUNE_EVERY, PRUNE_EVERY, first=timedelta(0))
            plans |= self._deliveries()
            for name, watched in self.wiring().watched.items():
                run = partial(self.run_slot, name)
                plans[name] = JobPlan(call=run, when=watched.schedule, kind=JobKind.RUN)
                if watched.sources.relevance is not None:
                    backfill = partial(self.backfill, name)
                    plans[f"-backfill-{name}"] = _housekeeping(backfill, BACKFILL_EVERY, limit=None)
        return plans

    def _deliveries(self) -> dict[str, JobPlan]:
        """Plan one job for each receiver, and the job that starts them."""
        wiring = self.wiring()
        is_outdated = partial(self._is_outdated, wiring)
        plans = {}
        turns = {}
        for receiver in wiring.receivers:
            job = _delivery_job(receiver.name)
            turns[job] = DeliveryTurns(sender=self.sender_of(receiver), should_stop=is_outdated)
            plans[job] = _housekeeping(
                turns[job].take, LONGEST_TURN_WAIT, DELIVERY_TURN_LIMIT, kind=JobKind.DELIVERY
            )
        look = partial(self._start_due_turns, turns)
        plans[DELIVER_JOB] = _housekeeping(look, DELIVER_EVERY, PROBE_LIMIT, first=timedelta(0))
        return plans

    def _is_outdated(self, wiring: Wiring) -> bool:
        """Return whether work must end that began with this wiring: after a stop or a reload."""
        return self.is_stopping() or self.wiring() is not wiring

    def _start_due_turns(self, turns: Mapping[str, DeliveryTurns]) -> None:
        """Start the jobs of the receivers to which something is due.

        One query serves all receivers, so that many idle receivers cost no more than one.
        """
        try:
            due_receivers = self.store.outbox.due_receivers(
                self.wiring().receiver_names, now=self.clock.now()
            )
        except DatabaseError as error:
            log.warning("deliveries not read", reason=str(error))
            self.scheduler.run_now(DELIVER_JOB, timedelta(seconds=FAILED_REST_S))
            return
        for job, turn in turns.items():
            if turn.is_due(due_receivers):
                self.scheduler.run_now(job)

    def deliver_now(self) -> None:
        """Look for due deliveries to each receiver at once."""
        for name in self.wiring().receiver_names:
            self.scheduler.run_now(_delivery_job(name))

    def rescue(self, job: str, plan: JobPlan) -> None:
        """Prepare the next start of a job whose call hung. Nobody waits for that call any more."""
        log.error("job hung; restarted", job=job)
        self.publisher.count("watchdog_restarts_total", plan.kind)
        if plan.kind is JobKind.DELIVERY:
            return
        self.store.database.renew_connections()  # replace connections that may hang
        if plan.kind is JobKind.HOUSEKEEPING:
            self.outage_alert.database.hung("the database does not answer")
            return
        # The claim of the hung run has expired. If the run continues, it cannot store anything.
        for claim in list(self.runner.claims.values()):
            if claim.comparison == job:
                self.runner.claims.pop(claim.run_id, None)
                self.publisher.count("runs_total", job, RunStatus.ABANDONED)
        self.runner.renew_sources(job)

    def _take_turn(self, name: str, watched: WatchedComparison, call: Callable[[], object]) -> None:
        """Wait for a place, and make the call. Raises OverdueError if the call hangs."""
        deadline = watched.comparison.measuring.deadline
        newest = self.latest.of(name)
        ticket = Ticket(
            name=name,
            slow_after_s=deadline.total_seconds() / 2,
            is_suspect=newest is not None and took_whole_deadline(newest, deadline),
        )
        limit = deadline + STORING_TIME + DATABASE_WAIT
        with self.places.taken(ticket):
            if not self.is_stopping():
                call_in_time(call, limit, name=f"run-{name}")

    def run_slot(self, name: str) -> None:
        """Run the newest slot of this comparison, unless the slot was already run."""
        watched = self.wiring().watched.get(name)
        if watched is None:
            return
        now = self.clock.now()
        if not watched.schedule.is_open(now):
            log.info(
                "no run begins now, because of only_between",
                comparison=name,
                next=format_instant(watched.schedule.next(now)),
            )
            return
        self._take_turn(name, watched, partial(self._run_newest, name, due=now))

    def _run_newest(self, name: str, due: datetime) -> None:
        """Run the newest slot, and count the slots since the newest run that were skipped.

        ``due`` is when the run began to wait for a place.
        """
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None:  # a reload removed it
            return
        now = self.clock.now()
        slot = watched.schedule.latest(now)
        skipped: Mapping[str, int] = {}
        result = None
        with errors_logged("run not done", comparison=name):
            newest = self.runner.call_with_retries(partial(self.store.history.newest, name))
            if newest is not None and newest.slot > now + MAX_CLOCK_SKEW:
                self._accept_clock(newest, slot)
            elif newest is not None:
                skipped = count_skipped(watched.schedule, newest, slot, due)
            result = self.runner.run(watched, slot, receivers=wiring.receiver_names)
        if result is not None:
            for reason, count in skipped.items():
                self.publisher.count("slots_skipped_total", name, reason, value=count)
            self._follow_up(name, result, wiring)

    def _accept_clock(self, newest: Run, slot: datetime) -> None:
        """Allow this slot to change alert states, although later slots have been judged.

        Without this, no alert could change until the clock reaches the later slots.
        """
        log.error(
            "a stored slot is in the future: this clock was set back, or another was ahead. "
            "Compare the clocks of all daemons",
            comparison=newest.comparison,
            newest=format_instant(newest.slot),
        )
        rewind = partial(self.store.alerts.rewind, newest.comparison, slot=slot)
        self.runner.call_with_retries(partial(rewind, now=self.clock.now()))

    def _follow_up(self, name: str, result: RunResult, wiring: Wiring) -> None:
        """Start what comes after a run: deliveries, late relevance, and the check for staleness.

        ``wiring`` was in force when the run began.
        """
        if wiring is not self.wiring():
            # If the run began before a reload, it may have started alerts of rules that the reload
            # removed.
            with errors_logged("alerts of removed rules were not ended"):
                adapt_store(self.wiring(), self.store, self.clock)
        self._show(name)
        if any(transition.is_announced for transition in result.transitions):
            self.deliver_now()
        self.scheduler.run_now(f"-backfill-{name}")
        if result.status is not RunStatus.OK:
            # the job also checks whether the comparison is stale
            self.scheduler.run_now("-refresh")

    def backfill(self, name: str) -> None:
        """Measure late relevance for the runs of this comparison."""
        watched = self.wiring().watched.get(name)
        if watched is not None:
            self._take_turn(f"-backfill-{name}", watched, partial(self._backfill, name, watched))

    def _backfill(self, name: str, watched: WatchedComparison) -> None:
        """Measure late relevance run by run, until a stop or a reload."""
        wiring = self.wiring()
        measured = 0
        with errors_logged("relevance not measured", comparison=name):
            for filled in backfill_runs(watched, self.store, self.clock):
                slot = format_instant(filled.run.slot)
                if filled.reason is not None:
                    log.warning(
                        "relevance not measured", comparison=name, slot=slot, reason=filled.reason
                    )
                elif filled.summaries:
                    measured += 1
                    log.info("relevance measured", comparison=name, slot=slot)
                if self._is_outdated(wiring):
                    break
        if measured:
            self._show(name)

    def _show(self, name: str) -> None:
        """Publish the stored state of this comparison."""
        with errors_logged("database not read"):
            self.latest.read(name)

    def probe(self) -> None:
        """Check whether the database works.

        When an outage ends, the refresh starts at once. If runs may have failed, all comparisons
        run too.
        """
        ended = look_again(self.store, self.outage_alert.database)
        if ended is not None:
            self.scheduler.run_now("-refresh")
        if ended is not None and ended.may_have_cost_runs:
            for name in self.wiring().watched:
                self.scheduler.run_now(name)

    def refresh(self) -> None:
        """Publish the outbox and the changes by other daemons. A leader also judges staleness."""
        # Read each of these once, because a reload or a change of leader may happen at any time.
        wiring = self.wiring()
        leads = self.role.leads
        now = self.clock.now()
        names = tuple(wiring.watched)
        abandoned = 0
        with errors_logged("database not read"):
            if leads:
                # Never abandon runs of this daemon, because the clock may have jumped.
                sparing = tuple(self.runner.claims)
                abandoned = self.store.runs.abandon_expired(now, sparing=sparing)
            show_outbox(self.store, self.publisher, now)
            # This comes last, so that the abandoned runs are published too.
            self.latest.refresh(names)
        if abandoned:
            # The slots of abandoned runs are free now, so try to run the newest slots.
            for name in names:
                self.scheduler.run_now(name)
        if leads:
            latest = self.latest.of_all(names)
            watched = wiring.watched.values()
            for name in self.staleness.look(watched, latest, wiring.receiver_names):
                self.deliver_now()
                self._show(name)

    def prune(self) -> None:
        """Delete expired rows."""
        retention = self.wiring().settings.retention
        prune_old(self.store, self.publisher, self.clock.now(), retention)


def publish_sizes(store: SqlStore, publisher: PrometheusPublisher) -> None:
    """Publish the size of the database, or log why this failed."""
    with errors_logged("database not measured"):
        publisher.show_database_sizes(store.maintenance.sizes())


def prune_old(
    store: SqlStore,
    publisher: PrometheusPublisher,
    now: datetime,
    retention: RetentionOptions,
) -> None:
    """Delete expired rows, and publish the new size of the database.

    A failure is logged.
    """
    with errors_logged("old rows not deleted"):
        pruned = store.maintenance.prune(retention.cutoffs(now), now=now)
        if pruned.reason:
            log.warning(
                "old rows not deleted: this machine's clock is not confirmed", reason=pruned.reason
            )
        else:
            publisher.pruned(pruned, at=now)
        if pruned.deleted_rows:
            log.info("old rows deleted", **pruned.deleted_rows)
        for reason in pruned.put_off:
            log.warning("some old rows are deleted later", reason=reason)
        publish_sizes(store, publisher)
