"""Deliveries: who may send what when."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from factories import SLOT
from monitor.errors import DatabaseError
from monitor.model import DeliveryStatus
from monitor.storage import SqlStore
from monitor.storage.tables import notifications
from storage.worked import HOUR, fired, lease, note, resolved, run

MINUTE = timedelta(minutes=1)


@pytest.fixture
def owed(store: SqlStore) -> SqlStore:
    """A firing and its end, and a firing of another segment between them, owed to two receivers."""
    firing, other = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, other, receivers=("hook", "pager"))
    run(store, SLOT + HOUR, resolved(SLOT + HOUR, firing[0]), receivers=("hook", "pager"))
    return store


NOW = SLOT + HOUR


def test_what_is_due_is_leased_oldest_first_and_an_end_waits_for_its_start(owed: SqlStore) -> None:
    first, second = lease(owed, NOW)

    assert (first.receiver, first.attempts, first.transition.segment, first.transition.is_start) == ("hook", 0, "all", True)
    assert (second.transition.segment, second.transition.is_start) == ("country=UK", True)
    assert lease(owed, NOW) == ()


def test_the_limit_is_kept(owed: SqlStore) -> None:
    assert [delivery.transition.segment for delivery in lease(owed, NOW, limit=1)] == ["all"]
    assert [delivery.transition.segment for delivery in lease(owed, NOW, limit=1)] == ["country=UK"]


def test_an_end_is_due_once_its_start_was_sent(owed: SqlStore) -> None:
    start = lease(owed, NOW)[0]
    owed.record(note(start, NOW))

    (end,) = lease(owed, NOW)

    assert (end.transition.segment, end.transition.is_start) == ("all", False)


def test_an_end_is_due_once_its_start_was_given_up(owed: SqlStore) -> None:
    owed.record(note(lease(owed, NOW)[0], NOW, DeliveryStatus.DEAD, reason="gone"))

    assert [delivery.transition.is_start for delivery in lease(owed, NOW)] == [False]


def test_receivers_do_not_wait_for_each_other(owed: SqlStore) -> None:
    lease(owed, NOW)

    assert len(lease(owed, NOW, receiver="pager")) == 2
    assert lease(owed, NOW, receiver="unknown") == ()


def test_a_lease_that_ran_out_is_taken_by_whoever_comes(owed: SqlStore) -> None:
    first = lease(owed, NOW)
    assert lease(owed, NOW + MINUTE - timedelta(microseconds=1), owner="b:2") == ()

    assert [delivery.id for delivery in lease(owed, NOW + MINUTE, owner="b:2")] == [delivery.id for delivery in first]


def test_a_failed_attempt_is_due_again_at_its_time_and_is_counted(owed: SqlStore) -> None:
    delivery = lease(owed, NOW, limit=1)[0]
    owed.record(note(delivery, NOW, DeliveryStatus.PENDING, reason="503", next_attempt_at=NOW + HOUR))

    assert delivery.id not in {other.id for other in lease(owed, NOW + HOUR - MINUTE)}
    again = next(other for other in lease(owed, NOW + HOUR) if other.id == delivery.id)
    assert again.attempts == 1


def test_every_attempt_is_kept(owed: SqlStore) -> None:
    delivery = lease(owed, NOW, limit=1)[0]
    owed.record(note(delivery, NOW, DeliveryStatus.PENDING, reason="503\x00", next_attempt_at=NOW + MINUTE))
    owed.record(note(delivery, NOW + MINUTE))

    with owed.database.read() as connection:
        rows = connection.execute(select(notifications).order_by(notifications.c.id)).all()
    assert [(row.attempted_at, row.status, row.reason, row.next_attempt_at) for row in rows] == [
        (NOW, "pending", "503\x00", NOW + MINUTE),
        (NOW + MINUTE, "sent", None, None),
    ]


def test_a_late_failure_does_not_bring_back_what_somebody_else_has_sent(owed: SqlStore) -> None:
    delivery = lease(owed, NOW, limit=1)[0]
    owed.record(note(lease(owed, NOW + MINUTE, owner="b:2", limit=1)[0], NOW + MINUTE))

    owed.record(note(delivery, NOW + 2 * MINUTE, DeliveryStatus.PENDING, next_attempt_at=NOW))

    assert delivery.id not in {other.id for other in lease(owed, NOW + HOUR)}


def test_the_outbox_counts_what_waits_and_the_age_of_the_oldest(owed: SqlStore) -> None:
    assert owed.outbox(NOW + MINUTE) == {"hook": (3, 3660.0), "pager": (3, 3660.0)}

    for delivery in lease(owed, NOW):
        owed.record(note(delivery, NOW))

    assert owed.outbox(NOW + MINUTE) == {"hook": (1, 60.0), "pager": (3, 3660.0)}
    assert owed.outbox(SLOT)["hook"] == (1, 0.0)


def test_a_notification_of_no_delivery_is_an_error(owed: SqlStore) -> None:
    delivery = lease(owed, NOW, limit=1)[0]
    missing = note(delivery, NOW, delivery_id=999)

    with pytest.raises(DatabaseError, match="no delivery 999"):
        owed.record(missing)


def test_nothing_is_owed_without_receivers(store: SqlStore) -> None:
    run(store, SLOT, fired(SLOT))

    assert store.outbox(SLOT) == {}
