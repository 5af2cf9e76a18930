"""Outages of the database: begin, end, and the alert DatabaseAway."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import structlog

from monitor.alerts.machine import INSTALLATION
from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DatabaseError, DatabaseTrouble, DeliveryError
from monitor.export.publisher import PrometheusPublisher
from monitor.immutable import immutable
from monitor.model.alerts import State, Transition
from monitor.model.daemon_state import DatabaseAway
from monitor.model.notifications import Message, message_key
from monitor.model.rules import Severity
from monitor.ports import Clock, Receiver, Store
from monitor.storage import SqlStore, exposure

CALM_S = 60.0
"""Two outages with a shorter time between them count as one."""
UNREAD = timedelta(minutes=1)
"""After this time without a read, which is four refreshes, pages report that the database hangs."""
OPENING_S = 20.0
"""Longer than the connection timeout of the driver."""
ALERT = "DatabaseAway"
WATCHED = "rankwatch"
"""The names of alert and comparison in messages."""
REPEAT_S = 4 * 3600.0
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 120.0
REFUSED_PAUSE_S = 600.0
"""The pause after a permanent rejection. An outage is important enough for another attempt."""

log = structlog.get_logger(__name__)


@immutable
class Outage:
    """A time in which the database does not work."""

    # The begin by both clocks, of the first one if several outages count as one.
    since: datetime
    since_s: float
    began_s: float  # the begin of this one
    reason: str  # the first error
    trouble: DatabaseTrouble

    @property
    def may_have_cost_runs(self) -> bool:
        """Whether failed runs should be tried again.

        A rejected statement would be rejected again.
        """
        return self.trouble not in {DatabaseTrouble.OTHER, DatabaseTrouble.SCHEMA}


@dataclass(slots=True, kw_only=True)
class OutageMonitor:
    """Gets every error of the database.

    Call ``answered`` after a successful write. It ends the ``outage``.
    """

    clock: Clock
    publisher: PrometheusPublisher
    outage: Outage | None = None
    failures: int = 0
    _ended: tuple[Outage, float] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def failed(self, error: DatabaseError) -> None:
        """Record an error.

        Every error begins an outage, except a conflict among writers, and unless there is one.
        """
        self.publisher.database_failed(error.trouble)
        # Writers that conflict say nothing about the database.
        if error.trouble is DatabaseTrouble.CONFLICT:
            return
        with self._lock:
            self.failures += 1
            if self.outage is not None:
                return
            last = self.lasting
            now = self.clock.now()
            now_s = self.clock.monotonic()
            outage = Outage(
                since=now,
                since_s=now_s,
                began_s=now_s,
                reason=str(error),
                trouble=error.trouble,
            )
            if last is not None:
                outage = replace(outage, since=last.since, since_s=last.since_s)
            self.outage = outage
        self.publisher.show("database_up", 0)
        log.error("database away", reason=str(error))

    @property
    def lasting(self) -> Outage | None:
        """The present outage, or the last one if it ended less than CALM_S ago."""
        if self.outage is not None or self._ended is None:
            return self.outage
        ended, at_s = self._ended
        if self.clock.monotonic() - at_s >= CALM_S:
            return None
        return ended

    def answered(self) -> Outage | None:
        """Record that the database works. Returns the outage that this ends, if any."""
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
    """Return what pages show about a database that is away, or was not read for `UNREAD`."""
    if outage is not None:
        return DatabaseAway(since=outage.since, reason=outage.reason, read_at=read_at)
    if read_at is not None and now - read_at > UNREAD:
        return DatabaseAway(since=read_at, reason=None, read_at=read_at)
    return None


def open_in_time(store: SqlStore, database: OutageMonitor) -> bool:
    """Open the database, and create its tables if it has none.

    Returns False if it does not answer. DatabaseError if it rejects the connection.
    """
    try:
        prepare = partial(store.maintenance.prepare, create=True)
        BackgroundCall(prepare, name="open-database").wait(Deadline.after(OPENING_S))
    except OverdueError:
        database.failed(
            DatabaseError(
                f"{store.place} does not answer",
                permanent=False,
                trouble=DatabaseTrouble.HUNG,
            )
        )
        # The pool must not reuse the connection that hangs.
        store.database.renew()
        return False
    _record_end(store, database)
    database.answered()
    if (exposed := exposure(store.database.url)) is not None:
        log.warning("database readable by every account", reason=exposed)
    return True


def look_again(store: Store, database: OutageMonitor) -> Outage | None:
    """Read from the database, and write if it is away. Returns the outage that has ended."""
    is_away = database.outage is not None
    failures = database.failures
    try:
        if is_away:
            store.maintenance.probe_write()
            _record_end(store, database)
        store.maintenance.ping()  # last, because the schema may have changed since the write
    except DatabaseError:
        return None  # recorded where it was raised
    # A failure since the start of this function is newer than its result.
    if not is_away or database.failures != failures:
        return None
    return database.answered()


def _record_end(store: Store, database: OutageMonitor) -> None:
    """Store the present outage, if any, so that alerts name it after a restart too."""
    outage = database.outage
    if outage is not None:
        store.maintenance.record_outage(outage.since, database.clock.now())


@dataclass(slots=True, kw_only=True)
class _ReceiverState:
    """What one receiver got of the outage.

    ``sent`` is the last firing, sent at ``sent_s``, which is None if it may not have arrived.
    ``unsure`` is a message that may have arrived, with its key.
    """

    sent: Transition | None = None
    sent_s: float | None = None
    unsure: Message | None = None
    failures: int = 0
    rests_until_s: float = float("-inf")


@dataclass(slots=True, kw_only=True)
class OutageAlert:
    """Notifies each receiver independently, and remembers it in memory.

    Call ``notify`` every few seconds, from one thread for each receiver.
    """

    database: OutageMonitor
    place: str  # names the database
    alert_after: Callable[[], timedelta]  # how long an outage lasts before the first notification
    installation: Callable[[], str | None] = lambda: None  # the configured name
    _states: dict[str, _ReceiverState] = field(default_factory=dict)

    def notify(self, receiver: Receiver) -> None:
        """Send the start, repetition or end that is due to this receiver, if any.

        A failure is logged and tried again.
        """
        name = receiver.name
        state = self._states.setdefault(name, _ReceiverState())
        database = self.database
        steady_s = database.clock.monotonic()
        message = self._due_message(state, receiver)
        if message is None:
            return
        now = database.clock.now()
        unsure = state.unsure
        if unsure is not None and unsure.status is message.status:
            message = unsure
        message = replace(message, key=message_key(message, now))
        try:
            receiver.send(message, now=now)
        except DeliveryError as error:
            self._note_failure(state, message, error)
            database.publisher.count("delivery_errors_total", name, error.trouble)
            database.publisher.count("notifications_total", name, "retry")
            log.error(  # noqa: TRY400 - says all
                "receiver not notified of the outage",
                receiver=name,
                reason=str(error),
            )
            return
        state.failures = 0
        state.unsure = None
        database.publisher.count("notifications_total", name, "sent")
        state.sent = next(iter(message.firing), None)
        state.sent_s = steady_s
        log.warning(
            "receiver notified of the outage",
            receiver=name,
            status=message.status,
        )

    def _due_message(self, state: _ReceiverState, receiver: Receiver) -> Message | None:
        sent = state.sent
        clock = self.database.clock
        steady_s = clock.monotonic()
        if steady_s < state.rests_until_s:
            return None
        if sent is None:
            return self._start_message(steady_s)
        if self.database.lasting is None:
            return _outage_message(end_of(sent, clock.now(), self.place))
        every_s = min(REPEAT_S, receiver.treatment.resend_every_s or REPEAT_S)
        if state.sent_s is not None and steady_s - state.sent_s < every_s:
            return None
        return _outage_message(sent, is_repetition=state.sent_s is not None)

    def _start_message(self, steady_s: float) -> Message | None:
        outage = self.database.outage
        if outage is None or steady_s - outage.since_s < self.alert_after().total_seconds():
            return None
        now = self.database.clock.now()
        return _outage_message(start_of(outage, now, self.place, self.installation()))

    def _note_failure(self, state: _ReceiverState, message: Message, error: DeliveryError) -> None:
        steady_s = self.database.clock.monotonic()
        pause_s = min(FIRST_PAUSE_S * 2.0**state.failures, LONGEST_PAUSE_S)
        if error.permanent:
            pause_s = REFUSED_PAUSE_S
        state.failures = min(state.failures + 1, 16)
        state.rests_until_s = steady_s + max(pause_s, error.retry_after_s or 0.0)
        if error.may_be_known:
            state.unsure = message
        # Its end must be sent where the start may have arrived.
        if message.firing and error.may_be_known and state.sent is None:
            state.sent = message.firing[0]
            state.sent_s = None
        if not message.firing and error.permanent:
            # The receiver rejects the end, so the next outage starts a new incident for it.
            state.sent = None


def start_of(
    outage: Outage,
    now: datetime,
    place: str,
    installation: str | None,
) -> Transition:
    """Return the outage as a firing."""
    # One key for each database, in all outages and daemons, so that several daemons notify once.
    # The installation's id in the database cannot be read now.
    name = " ".join(filter(None, (ALERT, place, installation)))
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    return Transition(
        comparison=WATCHED,
        alert=ALERT,
        segment="all",
        slot=outage.since,
        at=now,
        from_state=State.QUIET,
        to_state=State.FIRING,
        reason=f"{outage.reason}; until it is back nothing is compared, stored or alerted on",
        headline=outage.reason,
        metric="database",
        statistic="away",
        severity=Severity.CRITICAL,
        since=min(outage.since, now),
        dedup_key=key,
        incident=key,
        labels={} if installation is None else {INSTALLATION: installation},
    )


def end_of(start: Transition, now: datetime, place: str) -> Transition:
    """Return the end of that firing."""
    return replace(
        start,
        from_state=State.FIRING,
        to_state=State.QUIET,
        at=max(now, start.at),
        reason=(
            f"{place} is back: what fell due meanwhile is run once, and pending notifications "
            "are delivered"
        ),
    )


def _outage_message(change: Transition, *, is_repetition: bool = False) -> Message:
    return Message(
        incident=change.incident or ALERT,
        comparison=WATCHED,
        severity=Severity.CRITICAL,
        changes=() if is_repetition else (change,),
        firing=(change,) if change.is_start else (),
        is_repetition=is_repetition,
    )
