"""SqlOutbox claims deliveries and stores their outcomes.

The start of a firing is the transition to ``firing``, and its end is the transition that ends it.
"""

# ruff: noqa: D102 - the methods of the port have their docstrings there

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    union,
    update,
)

from monitor.model.alerts import State, Transition
from monitor.model.notifications import (
    Briefing,
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Notification,
)
from monitor.model.pages import ReceiverHealth
from monitor.model.runs import Evidence, RunStatus, worst_examples
from monitor.storage.alert_states import (
    IS_END,
    IS_START,
    IS_START_OF_CURRENT_FIRING,
    WAITING_STATUSES,
    read_firing,
    read_states,
)
from monitor.storage.alert_store import read_silences
from monitor.storage.delivery_outcomes import record_outcomes
from monitor.storage.rows import chunks, from_row, from_rows, lock_names
from monitor.storage.run_results import explanations_by_run, results_by_run
from monitor.storage.tables.alert_tables import alert_states, deliveries, notifications, transitions
from monitor.storage.tables.run_tables import runs
from monitor.storage.transactions import DatabasePart
from monitor.texts.model_versions import write_models

_LONGEST_CLAIM = timedelta(minutes=10)
"""The longest time for which a process claims a delivery."""
_LONGEST_PAUSE = timedelta(hours=2)
"""The longest time until the next attempt of a delivery."""
_RETRIED_FOR = timedelta(days=1)
"""After a change of the configuration, ends that were refused within this time are retried."""
_SEARCHED_OUTCOMES = 50_000
"""How many of the newest outcomes are searched for each receiver's last success and error."""
_POSSIBLY_RECEIVED_FIRST = (
    case((deliveries.c.message_key.is_(None), 1), else_=0),
    deliveries.c.message_key,
)
"""Deliveries in messages that the receiver may have got come first, grouped by message.

So such a message is sent again with all its deliveries.
"""
_REFUSED_OR_DROPPED = (DeliveryStatus.DEAD, DeliveryStatus.DROPPED)
# SQLite uses a partial index only if the values of its condition are part of the statement.
_IS_WAITING = deliveries.c.status.in_(
    bindparam(None, WAITING_STATUSES, expanding=True, literal_execute=True)
)
_COLUMNS = (
    deliveries.c.id.label("delivery_id"),
    deliveries.c.receiver,
    deliveries.c.status,
    deliveries.c.attempts,
    deliveries.c.may_be_known,
    deliveries.c.message_key,
    deliveries.c.reason.label("last_reason"),
    deliveries.c.next_attempt_at,
    deliveries.c.settled_at,
    transitions,
)


class SqlOutbox(DatabasePart):
    """Implements the port Outbox, with more methods that only the service uses."""

    def claim_deliveries(
        self,
        receiver: str,
        *,
        owner: str,
        now: datetime,
        until: datetime,
        limit: int,
    ) -> tuple[Delivery, ...]:
        with self._database.write() as connection:
            # Only one process at a time claims deliveries to this receiver. So no newer delivery is
            # sent before an older one.
            lock_names(connection, {receiver})
            comparison = _comparison_due_longest(connection, receiver, now)
            if comparison is None:
                return ()
            is_free = and_(deliveries.c.receiver == receiver, _IS_WAITING, ~_is_claimed(now))
            # Deliveries that are not due yet are claimed too, up to ``limit``.
            due_first = case((_is_due(now), 0), else_=1)
            waiting = (
                _select(*_COLUMNS)
                .where(is_free, transitions.c.comparison == comparison)
                .order_by(*_POSSIBLY_RECEIVED_FIRST, due_first, transitions.c.id)
                .limit(limit)
                .with_for_update(skip_locked=True, of=deliveries)
            )
            rows = connection.execute(waiting).all()
            is_selected = deliveries.c.id.in_([row.delivery_id for row in rows])
            claim = update(deliveries).where(is_selected)
            connection.execute(claim.values(claimed_by=owner, claimed_until=until))
        # ``id`` is the id of the transition.
        return tuple(map(_to_delivery, sorted(rows, key=attrgetter("id"))))

    def due_receivers(self, receivers: Collection[str], *, now: datetime) -> frozenset[str]:
        is_to_receivers = deliveries.c.receiver.in_(receivers)
        is_unsent = and_(is_to_receivers, _IS_WAITING, _is_due(now), ~_is_claimed(now))
        to_send = select(deliveries.c.receiver).where(is_unsent)
        is_repeated = and_(is_to_receivers, deliveries.c.repeat_at <= now)
        to_repeat = _repetitions(deliveries.c.receiver).where(is_repeated)
        with self._database.read() as connection:
            return frozenset(connection.scalars(union(to_send, to_repeat)))

    def firing_snapshot(
        self,
        comparison: str,
        receiver: str,
        changes: Sequence[Transition],
        *,
        now: datetime,
    ) -> FiringSnapshot:
        with self._database.read() as connection:
            firing = read_firing(connection, comparison)
            states = read_states(connection, comparison, state=State.FIRING)
            # The receiver may also know firings that ended with ``changes``.
            relevant_changes = [*changes, *firing]
            possibly_received = _possibly_received_rows(
                connection, receiver, comparison, relevant_changes
            )
            keys = [change.dedup_key for change in relevant_changes if change.dedup_key]
            refused = _read_refused(connection, comparison, keys)
            silences = read_silences(connection, ending_after=now)
        started_keys = [row.dedup_key for row in possibly_received if row.to_state == State.FIRING]
        acknowledged_keys = [state.dedup_key for state in states if state.acknowledged_by]
        return FiringSnapshot(
            firing=firing,
            delivered=frozenset(started_keys),
            sent_starts=_starts_without_end(possibly_received),
            acknowledged=frozenset(filter(None, acknowledged_keys)),
            silences=silences,
            refused=refused,
        )

    def briefing(self, comparison: str, slot: datetime | None) -> Briefing:
        is_chosen = runs.c.slot == slot
        if slot is None:
            is_chosen = runs.c.status != RunStatus.RUNNING
        run = (
            select(runs.c.id, runs.c.slot, runs.c.models, runs.c.reasons)
            .where(runs.c.comparison == comparison, is_chosen)
            .order_by(runs.c.slot.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(run).first()
            if row is None:
                return Briefing()
            explanation = explanations_by_run(connection, [row.id]).get(row.id)
            examples = explanation.examples if explanation else ()
            if not examples:
                evidence = results_by_run(connection, Evidence, [row.id]).get(row.id, ())
                examples = worst_examples(evidence)
        return Briefing(
            slot=row.slot,
            explanation=explanation,
            examples=examples,
            models=write_models(row.models, row.slot),
            reasons=row.reasons,
        )

    def mark_sending(
        self,
        sending: Sequence[Delivery],
        *,
        message_key: str,
        owner: str,
        until: datetime,
    ) -> None:
        is_in_message = deliveries.c.id.in_([delivery.id for delivery in sending])
        mark = update(deliveries).where(is_in_message)
        # Sending takes time, so all claims of the owner for these receivers are prolonged.
        receivers = {delivery.receiver for delivery in sending}
        is_of_owner = and_(
            deliveries.c.receiver.in_(receivers), deliveries.c.claimed_by == owner, _IS_WAITING
        )
        with self._database.write() as connection:
            connection.execute(mark.values(may_be_known=True, message_key=message_key))
            connection.execute(update(deliveries).where(is_of_owner).values(claimed_until=until))

    def record(self, *notifications: Notification) -> None:
        with self._database.write() as connection:
            record_outcomes(connection, notifications)

    def due_repetitions(self, receiver: str, *, now: datetime, limit: int) -> tuple[Delivery, ...]:
        is_due = and_(deliveries.c.receiver == receiver, deliveries.c.repeat_at <= now)
        query = _repetitions(*_COLUMNS).where(is_due).order_by(transitions.c.id).limit(limit)
        return tuple(map(_to_delivery, self._database.rows(query)))

    def schedule_repetition(
        self,
        repeated: Sequence[Delivery],
        *,
        at: datetime,
        message_key: str | None,
    ) -> None:
        ids = [delivery.id for delivery in repeated]
        # Deliveries that must not be repeated any more have no time.
        is_repeated = and_(deliveries.c.id.in_(ids), deliveries.c.repeat_at.is_not(None))
        schedule = update(deliveries).where(is_repeated)
        with self._database.write() as connection:
            connection.execute(schedule.values(repeat_at=at, message_key=message_key))

    def delivered(self, receiver: str, *, ended_since: datetime) -> tuple[Transition, ...]:
        is_sent = and_(
            deliveries.c.receiver == receiver, deliveries.c.status == DeliveryStatus.SENT
        )
        starts = _select(transitions).join(alert_states, IS_START_OF_CURRENT_FIRING).where(is_sent)
        ends = _select(transitions).where(is_sent, IS_END, deliveries.c.settled_at >= ended_since)
        with self._database.read() as connection:
            rows = [*connection.execute(starts), *connection.execute(ends)]
        return from_rows(Transition, sorted(rows, key=attrgetter("id")))

    def retry_refused(self, now: datetime, *, receivers: Sequence[str]) -> int:
        """Retry deliveries that these receivers refused, after a change of the configuration.

        - The starts of current firings are retried, also if the routes dropped them.
        - Ends are retried if they were refused within the last `_RETRIED_FOR`.

        Returns the number of these deliveries.
        """
        is_to_receivers = deliveries.c.receiver.in_(list(receivers))
        is_unsent = deliveries.c.status.in_(_REFUSED_OR_DROPPED)
        current_starts = _select(deliveries.c.id).join(alert_states, IS_START_OF_CURRENT_FIRING)
        unsent_starts = current_starts.where(is_to_receivers, is_unsent)
        is_refused_lately = and_(
            deliveries.c.status == DeliveryStatus.DEAD,
            deliveries.c.settled_at >= now - _RETRIED_FOR,
        )
        refused_ends = _select(deliveries.c.id).where(is_to_receivers, is_refused_lately, IS_END)
        is_retried = or_(deliveries.c.id.in_(unsent_starts), deliveries.c.id.in_(refused_ends))
        pending = {"status": DeliveryStatus.PENDING, "next_attempt_at": now, "settled_at": None}
        retry = update(deliveries).where(is_retried).values(pending)
        with self._database.write() as connection:
            return connection.execute(retry).rowcount

    def give_up_removed(self, *, configured: Sequence[str], now: datetime) -> int:
        """Give up deliveries to receivers that are not in ``configured``.

        Returns the number of these deliveries.
        """
        removed = select(deliveries.c.id).where(
            _IS_WAITING, deliveries.c.receiver.not_in(list(configured))
        )
        with self._database.write() as connection:
            outcomes = []
            for delivery_id in connection.scalars(removed):
                outcome = Notification(
                    delivery_id=delivery_id,
                    status=DeliveryStatus.DEAD,
                    reason="the receiver was removed from the configuration",
                    at=now,
                    next_attempt_at=None,
                    is_receiver_removed=True,
                )
                outcomes.append(outcome)
            record_outcomes(connection, outcomes)
        return len(outcomes)

    def deliveries(
        self,
        *,
        receiver: str | None,
        given_up_limit: int,
        limit: int,
    ) -> tuple[Delivery, ...]:
        """Return deliveries to this receiver that were given up, and then deliveries that wait.

        The first group contains the newest ``given_up_limit`` deliveries that were given up or
        dropped. The second group contains the oldest ``limit`` waiting deliveries. Each group
        begins with its oldest delivery. ``receiver`` None selects all receivers.
        """
        query = _select(*_COLUMNS)
        if receiver is not None:
            query = query.where(deliveries.c.receiver == receiver)
        given_up = query.where(deliveries.c.status.in_(_REFUSED_OR_DROPPED))
        newest_given_up = given_up.order_by(
            deliveries.c.settled_at.desc(), deliveries.c.id.desc()
        ).limit(given_up_limit)
        oldest_waiting = query.where(_IS_WAITING).order_by(deliveries.c.id).limit(limit)
        with self._database.read() as connection:
            newest_first = connection.execute(newest_given_up).all()
            waiting = connection.execute(oldest_waiting).all()
        return tuple(map(_to_delivery, [*reversed(newest_first), *waiting]))

    def waiting(self, now: datetime, *, held: bool = False) -> Mapping[str, tuple[int, float]]:
        is_counted = deliveries.c.status == DeliveryStatus.PENDING
        if held:
            is_counted = and_(deliveries.c.status == DeliveryStatus.HELD, IS_START)
        query = (
            _select(deliveries.c.receiver, func.count(), func.min(transitions.c.at))
            .where(_IS_WAITING, is_counted)
            .group_by(deliveries.c.receiver)
            .order_by(deliveries.c.receiver)
        )
        rows = self._database.rows(query)
        backlog = {}
        for receiver, count, oldest in rows:
            age_s = (now - oldest).total_seconds()
            backlog[receiver] = count, max(0.0, age_s)
        return backlog

    def receiver_health(self) -> Mapping[str, ReceiverHealth]:
        """Return the last success and the last error of each receiver.

        Only the newest 50,000 outcomes are searched.
        """
        newest = (
            select(notifications)
            .order_by(notifications.c.id.desc())
            .limit(_SEARCHED_OUTCOMES)
            .subquery()
        )
        # A delivery that needs no message has the status ``sent`` too, for example because its
        # alert only joins an incident. Only this delivery has a reason.
        is_sent = newest.c.status == DeliveryStatus.SENT
        is_success = and_(is_sent, newest.c.reason.is_(None))
        # If an attempt failed, the reason says why. Without an attempt, there is no reason.
        is_not_sent = newest.c.status.in_((DeliveryStatus.PENDING, DeliveryStatus.DEAD))
        is_error = and_(is_not_sent, newest.c.reason.is_not(None), ~newest.c.is_receiver_removed)
        with self._database.read() as connection:
            successes = _last_by_receiver(connection, newest, is_success)
            errors = _last_by_receiver(connection, newest, is_error)
        health = {}
        for receiver, success in successes.items():
            health[receiver] = ReceiverHealth(last_success_at=success.at)
        for receiver, error in errors.items():
            without_error = health.get(receiver, ReceiverHealth())
            health[receiver] = replace(without_error, last_error_at=error.at, reason=error.reason)
        return health

    def given_up(self, *, since: datetime) -> Mapping[str, int]:
        """Return how many deliveries to each receiver were given up since ``since``.

        Receivers that were removed from the configuration are left out.
        """
        is_given_up = and_(
            deliveries.c.status == DeliveryStatus.DEAD,
            deliveries.c.settled_at >= since,
            ~deliveries.c.is_receiver_removed,
        )
        query = (
            select(deliveries.c.receiver, func.count().label("total"))
            .where(is_given_up)
            .group_by(deliveries.c.receiver)
        )
        return {row.receiver: row.total for row in self._database.rows(query)}


def _last_by_receiver(
    connection: Connection, newest: FromClause, condition: ColumnElement[bool]
) -> dict[str, Row[Any]]:
    """Return each receiver's last outcome that meets the condition.

    Only outcomes in ``newest``, a subquery of ``notifications``, are searched.
    """
    last = (
        select(deliveries.c.receiver, func.max(newest.c.id).label("id"))
        .join(newest, newest.c.delivery_id == deliveries.c.id)
        .where(condition)
        .group_by(deliveries.c.receiver)
        .subquery()
    )
    query: Select[Any] = select(last.c.receiver, notifications.c.at, notifications.c.reason).join(
        notifications, notifications.c.id == last.c.id
    )
    return {row.receiver: row for row in connection.execute(query)}


def end_delivery_claims(connection: Connection, owner: str) -> None:
    """End the claims of a process that can no longer record outcomes.

    Another process then sends the deliveries, perhaps for the second time.
    """
    is_of_owner = and_(_IS_WAITING, deliveries.c.claimed_by == owner)
    connection.execute(
        update(deliveries).where(is_of_owner).values(claimed_by=None, claimed_until=None)
    )


def _select(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns and tables
    """Select these columns of each delivery and its transition."""
    return (
        select(*columns)
        .select_from(deliveries)
        .join(transitions, transitions.c.id == deliveries.c.transition_id)
    )


def _repetitions(*columns: Any) -> Select[Any]:  # noqa: ANN401 - columns and tables
    """Select these columns of the starts of firings that last and are not acknowledged."""
    firing = _select(*columns).join(alert_states, IS_START_OF_CURRENT_FIRING)
    return firing.where(alert_states.c.acknowledged_by.is_(None))


def _comparison_due_longest(connection: Connection, receiver: str, now: datetime) -> str | None:
    """Return the comparison with the delivery that has been due for the longest time.

    Comparisons with a claimed delivery are left out, because the delivery is being sent now.
    Returns None if no other comparison has a due delivery.
    """
    is_waiting = and_(deliveries.c.receiver == receiver, _IS_WAITING)
    claimed = _select(transitions.c.comparison).where(is_waiting, _is_claimed(now))
    due = _select(transitions.c.comparison).where(
        is_waiting,
        _is_due(now),
        ~_is_claimed(now),
        transitions.c.comparison.not_in(claimed),
    )
    first = due.order_by(deliveries.c.next_attempt_at, transitions.c.id).limit(1)
    comparison: str | None = connection.scalar(first)
    return comparison


def _is_due(now: datetime) -> ColumnElement[bool]:
    next_attempt_at = deliveries.c.next_attempt_at
    # A time too far in the future was stored before a clock was set back. Such a delivery is due.
    return or_(next_attempt_at <= now, next_attempt_at > now + _LONGEST_PAUSE)


def _is_claimed(now: datetime) -> ColumnElement[bool]:
    # Without a claim, ``ends_at`` is ``now``, so the delivery is not claimed.
    ends_at = func.coalesce(deliveries.c.claimed_until, now)
    # A claim that ends too late was taken before a clock was set back. It does not count.
    return and_(ends_at > now, ends_at <= now + _LONGEST_CLAIM)


def _possibly_received_rows(
    connection: Connection,
    receiver: str,
    comparison: str,
    changes: Sequence[Transition],
) -> list[Row[Any]]:
    """Return the starts and ends that the receiver got or may have got, ordered by id.

    Only transitions of the firings and incidents of ``changes`` are returned.
    """
    may_be_received = or_(deliveries.c.status == DeliveryStatus.SENT, deliveries.c.may_be_known)
    query = _select(transitions, deliveries.c.status, deliveries.c.settled_at).where(
        deliveries.c.receiver == receiver,
        transitions.c.comparison == comparison,
        may_be_received,
        or_(IS_START, IS_END),
    )
    keys = {change.dedup_key for change in changes} - {None}
    incidents = {change.incident for change in changes} - {None}
    rows: dict[int, Row[Any]] = {}
    # A transition may be found by its key and again by its incident.
    for column, values in ((transitions.c.dedup_key, keys), (transitions.c.incident, incidents)):
        for chunk in chunks(values):
            rows |= {row.id: row for row in connection.execute(query.where(column.in_(chunk)))}
    return [rows[transition_id] for transition_id in sorted(rows)]


def _starts_without_end(rows: Sequence[Row[Any]]) -> tuple[Transition, ...]:
    """Return the starts of firings that were sent, if no end of the same incident was sent later.

    ``rows`` are deliveries of starts and ends. The result is in the order of sending.
    """
    sent_rows = [
        row for row in rows if row.status == DeliveryStatus.SENT and row.incident is not None
    ]
    sent_rows.sort(key=attrgetter("settled_at"))
    last_end_at: dict[str, datetime] = {}
    for row in sent_rows:
        is_end = row.to_state != State.FIRING
        if is_end:
            last_end_at[row.incident] = row.settled_at
    starts = []
    for row in sent_rows:
        is_start = row.to_state == State.FIRING
        end_at = last_end_at.get(row.incident)
        is_after_end = end_at is None or row.settled_at > end_at
        if is_start and is_after_end:
            starts.append(from_row(Transition, row))
    return tuple(starts)


def _read_refused(
    connection: Connection,
    comparison: str,
    keys: Iterable[str],
) -> frozenset[tuple[str, str]]:
    """Return the receiver and the dedup key of each start that was refused permanently.

    Only the firings with these dedup keys are searched.
    """
    query = _select(deliveries.c.receiver, transitions.c.dedup_key).where(
        transitions.c.comparison == comparison, deliveries.c.status == DeliveryStatus.DEAD, IS_START
    )
    refused: set[tuple[str, str]] = set()
    for chunk in chunks(keys):
        for row in connection.execute(query.where(transitions.c.dedup_key.in_(chunk))):
            refused.add((row.receiver, row.dedup_key))
    return frozenset(refused)


def _to_delivery(row: Row[Any]) -> Delivery:
    """Return the delivery of a row with `_COLUMNS`. The row's ``id`` is the transition's id."""
    next_attempt_at = row.next_attempt_at if row.status in WAITING_STATUSES else None
    return from_row(
        Delivery,
        row,
        id=row.delivery_id,
        transition_id=row.id,
        transition=from_row(Transition, row),
        reason=row.last_reason,
        next_attempt_at=next_attempt_at,
    )
