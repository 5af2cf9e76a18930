"""Detects outages of the database, and sends the alert DatabaseAway."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.alerts.state_machine import INSTALLATION_LABEL
from monitor.boundary.deadline import OverdueError, call_in_time
from monitor.export.publisher import PrometheusPublisher
from monitor.model.alerts import State, Transition
from monitor.model.daemon_state import DatabaseAway
from monitor.model.errors import DatabaseError, DatabaseErrorKind, DeliveryError
from monitor.model.immutable import immutable
from monitor.model.notifications import Message, message_key
from monitor.model.ports import Clock, Receiver
from monitor.model.rules import RuleKind, Severity
from monitor.storage import SqlStore
from monitor.storage.sqlite_file import describe_file_readers

CALM_S = 60.0
"""If an outage begins sooner after the last one, both are treated as one outage."""
HANGS_AFTER = timedelta(minutes=1)
"""If nothing was read for this time (four refreshes), pages report that the database hangs."""
OPENING_LIMIT = timedelta(seconds=20)
"""The time limit for opening the database. The driver's connection timeout is shorter."""
DATABASE_AWAY = "DatabaseAway"
COMPARISON = "rankwatch"
"""Messages about an outage show this name in place of a comparison."""
REPEAT_S = 4 * 3600.0
RETRY_PAUSE_S = 30.0
"""The pause after a failed attempt to send a message."""
REFUSED_PAUSE_S = 600.0
"""The pause after a permanent rejection. Because outages are important, rankwatch tries again."""

log = structlog.get_logger(__name__)


@immutable
class Outage:
    """A period in which the database does not work."""

    # When the outage began, by the wall clock and by the steady clock. If several outages are
    # treated as one, this is the start of the first.
    since: datetime
    since_s: float
    began_s: float  # when the last of these outages began, by the steady clock
    reason: str  # the first error
    kind: DatabaseErrorKind

    @property
    def may_have_cost_runs(self) -> bool:
        """Whether rankwatch should retry runs that failed during the outage.

        If the database rejected a statement, it would reject the statement again. So these runs are
        not retried.
        """
        return self.kind not in {DatabaseErrorKind.OTHER, DatabaseErrorKind.SCHEMA}


@dataclass(slots=True, kw_only=True)
class OutageMonitor:
    """Records outages. Pass every error of the database to ``failed``.

    Call ``answered`` after a successful write. This ends the outage.
    """

    clock: Clock
    publisher: PrometheusPublisher
    outage: Outage | None = None
    failures: int = 0
    _ended: tuple[Outage, float] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, error: DatabaseError) -> None:
        """Record an error.

        The first error begins an outage. A conflict between writers begins none.
        """
        self.publisher.database_failed(error.kind)
        # If writers conflict, the database works.
        if error.kind is DatabaseErrorKind.CONFLICT:
            return
        with self._lock:
            self.failures += 1
            if self.outage is not None:
                return
            # Soon after another outage, this is the same outage, which goes on.
            last = self.lasting
            now = self.clock.now()
            now_s = self.clock.monotonic()
            outage = Outage(
                since=now,
                since_s=now_s,
                began_s=now_s,
                reason=str(error),
                kind=error.kind,
            )
            if last is not None:
                outage = replace(outage, since=last.since, since_s=last.since_s)
            self.outage = outage
        self.publisher.show("database_up", 0)
        log.error("database away", reason=str(error))

    def hung(self, reason: str) -> None:
        """Record that the database does not answer."""
        self.failed(DatabaseError(reason, permanent=False, kind=DatabaseErrorKind.HUNG))

    @property
    def lasting(self) -> Outage | None:
        """The present outage, or an outage that ended less than CALM_S seconds ago."""
        if self.outage is not None or self._ended is None:
            return self.outage
        ended, at_s = self._ended
        if self.clock.monotonic() - at_s >= CALM_S:
            return None
        return ended

    def answered(self) -> Outage | None:
        """Record that the database works. Returns the outage that has ended, or None."""
        with self._lock:
            before = self.outage
            self.outage = None
            if before is not None:
                self._ended = (before, self.clock.monotonic())
        self.publisher.show("database_up", 1)
        if before is not None:
            log.info("database back", away_s=round(self.clock.monotonic() - before.began_s, 1))
        return before


def database_away(
    outage: Outage | None,
    read_at: datetime | None,
    now: datetime,
) -> DatabaseAway | None:
    """Return the outage to show on pages: an error, or no read for the time `HANGS_AFTER`.

    ``read_at`` is the time of the last read, None before the first one.
    """
    if outage is not None:
        return DatabaseAway(since=outage.since, reason=outage.reason, read_at=read_at)
    if read_at is not None and now - read_at > HANGS_AFTER:
        return DatabaseAway(since=read_at, reason=None, read_at=read_at)
    return None


def open_in_time(store: SqlStore, database: OutageMonitor) -> bool:
    """Open the database, and create the tables if there are none.

    Returns False if the database does not answer. Raises DatabaseError if it rejects the
    connection.
    """
    try:
        prepare = partial(store.maintenance.prepare, create=True)
        call_in_time(prepare, OPENING_LIMIT, name="open-database")
    except OverdueError:
        database.hung(f"{store.location} does not answer")
        # The pool must not reuse the connection that hangs.
        store.database.renew_connections()
        return False
    _record_end(store, database)
    database.answered()
    exposed = describe_file_readers(store.database.url)
    if exposed is not None:
        log.warning("every account can read the database", reason=exposed)
    return True


def look_again(store: SqlStore, database: OutageMonitor) -> Outage | None:
    """Check whether the database answers. Returns the outage that has ended, or None.

    During an outage this writes to the database too.
    """
    is_away = database.outage is not None
    failures = database.failures
    try:
        if is_away:
            store.maintenance.probe_write()
            _record_end(store, database)
        # This comes last, because another program may change the schema at any time.
        store.maintenance.ping()
    except DatabaseError:
        return None  # the error was recorded where it was raised
    # Another thread may have recorded a failure since this function began. Then the outage goes on.
    if not is_away or database.failures != failures:
        return None
    return database.answered()


def measure_away_s(store: SqlStore, database: OutageMonitor, instant: datetime) -> float:
    """Return the total seconds of outages after the instant.

    The present outage counts up to now. The database may answer again before its end is noticed.
    """
    _record_end(store, database)
    return store.maintenance.away_s_since(instant)


def _record_end(store: SqlStore, database: OutageMonitor) -> None:
    """Store the present outage, if any. After a restart alerts can still name it as a cause."""
    outage = database.outage
    if outage is not None:
        store.maintenance.record_outage(outage.since, database.clock.now())


@dataclass(slots=True, kw_only=True)
class _ReceiverState:
    """Which messages about the outage one receiver got."""

    start: Transition | None = None  # the start, if the receiver got it or may have got it
    # when the receiver last accepted a message about the present outage
    sent_s: float | None = None
    # a message that may have arrived; it is sent again with the same key
    unsure: Message | None = None
    rests_until_s: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class OutageAlert:
    """Notifies each receiver of an outage. It remembers in memory what each receiver got.

    Call ``notify`` every few seconds, from one thread for each receiver.
    """

    database: OutageMonitor
    location: str  # where the database is
    # the time from the start of an outage to the first notification
    alert_after: Callable[[], timedelta]
    # By the configuration in force
    installation: str | None = None
    runbook_url: str | None = None
    _states: dict[str, _ReceiverState] = field(default_factory=dict)

    def notify(self, receiver: Receiver) -> None:
        """Send this receiver the start, repetition or end that is due, if any.

        A failure is logged, and the message is sent again later.
        """
        name = receiver.name
        state = self._states.setdefault(name, _ReceiverState())
        clock = self.database.clock
        publisher = self.database.publisher
        message = self._due_message(state, receiver)
        if message is None:
            return
        now = clock.now()
        if state.unsure is not None and state.unsure.status is message.status:
            message = state.unsure
        message = replace(message, key=message_key(message, now))
        try:
            receiver.send(message, now=now)
        except DeliveryError as error:
            self._remember_failure(state, message, error)
            publisher.count("delivery_errors_total", name, error.kind)
            publisher.count("notifications_total", name, "retry")
            log.error(  # noqa: TRY400 - says all
                "receiver not notified of the outage",
                receiver=name,
                reason=str(error),
            )
            return
        state.unsure = None
        state.start = message.firing[0] if message.firing else None
        state.sent_s = clock.monotonic()
        publisher.count("notifications_total", name, "sent")
        log.warning("receiver notified of the outage", receiver=name, status=message.status)

    def _due_message(self, state: _ReceiverState, receiver: Receiver) -> Message | None:
        """Return the start, repetition or end that this receiver should get now, if any."""
        clock = self.database.clock
        steady_s = clock.monotonic()
        if steady_s < state.rests_until_s:
            return None
        if state.start is None:
            outage = self.database.outage
            if outage is None or steady_s - outage.since_s < self.alert_after().total_seconds():
                return None
            start = compose_outage_start(outage, clock.now(), self.location, self.installation)
            return _outage_message(replace(start, runbook_url=self.runbook_url))
        if self.database.lasting is None:
            return _outage_message(compose_outage_end(state.start, clock.now(), self.location))
        every_s = min(REPEAT_S, receiver.treatment.resend_every_s or REPEAT_S)
        if state.sent_s is not None and steady_s - state.sent_s < every_s:
            return None
        return _outage_message(state.start, is_repetition=state.sent_s is not None)

    def _remember_failure(
        self, state: _ReceiverState, message: Message, error: DeliveryError
    ) -> None:
        """Remember what the receiver may have got, and when to send again."""
        pause_s = REFUSED_PAUSE_S if error.permanent else RETRY_PAUSE_S
        pause_s = max(pause_s, error.retry_after_s or 0.0)
        state.rests_until_s = self.database.clock.monotonic() + pause_s
        if error.may_be_known:
            state.unsure = message
        # If a receiver may have got the start, it must get the end.
        if message.firing and error.may_be_known and state.start is None:
            state.start = message.firing[0]
            state.sent_s = None
        if not message.firing and error.permanent:
            # The receiver rejects the end. The next outage starts a new incident for this receiver.
            state.start = None


def compose_outage_start(
    outage: Outage,
    now: datetime,
    location: str,
    installation: str | None,
) -> Transition:
    """Return the start of the alert about this outage."""
    # The key depends only on the database. So if several daemons send this alert, a receiver shows
    # one alert. The installation's id cannot be part of the key, because it is stored in the
    # database.
    name = " ".join(filter(None, (DATABASE_AWAY, location, installation)))
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    return Transition(
        comparison=COMPARISON,
        alert=DATABASE_AWAY,
        segment="all",
        slot=outage.since,
        at=now,
        from_state=State.QUIET,
        to_state=State.FIRING,
        reason=(
            f"{outage.reason}; until the outage ends, nothing is compared or stored, and no other "
            "alert begins"
        ),
        headline=outage.reason,
        kind=RuleKind.DATABASE,
        metric=RuleKind.DATABASE,
        statistic="away",
        severity=Severity.CRITICAL,
        since=min(outage.since, now),
        dedup_key=key,
        incident=key,
        labels={} if installation is None else {INSTALLATION_LABEL: installation},
    )


def compose_outage_end(start: Transition, now: datetime, location: str) -> Transition:
    """Return the end of the alert that has this start."""
    return replace(
        start,
        from_state=State.FIRING,
        to_state=State.QUIET,
        at=max(now, start.at),
        reason=(
            f"{location} works again: comparisons that fell due run once, and pending notifications "
            "are delivered"
        ),
    )


def _outage_message(change: Transition, *, is_repetition: bool = False) -> Message:
    return Message(
        incident=change.incident or DATABASE_AWAY,
        comparison=COMPARISON,
        severity=Severity.CRITICAL,
        changes=() if is_repetition else (change,),
        firing=(change,) if change.is_start else (),
        is_repetition=is_repetition,
    )
