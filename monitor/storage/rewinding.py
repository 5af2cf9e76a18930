"""After a clock was set back: what was stored for slots and times that now lie in the future must not hold up what is due."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, select, update

from monitor.model import DeliveryStatus
from monitor.storage.columns import key
from monitor.storage.dialects import lock_comparisons
from monitor.storage.tables import alert_states, deliveries, transitions

_BEFORE = timedelta(microseconds=1)
_WAITING = (DeliveryStatus.PENDING, DeliveryStatus.HELD)


def rewind(connection: Connection, comparison: str, *, slot: datetime, now: datetime) -> None:
    """Let this comparison's states be judged by ``slot``, and deliver at ``now`` what was put off to later.

    States stay what they are: only since when and up to which slot they were judged is moved back.
    """
    lock_comparisons(connection, [comparison])
    for column, moved in ((alert_states.c.judged_slot, slot - _BEFORE), (alert_states.c.since, slot)):
        late = (alert_states.c.comparison == key(comparison), column > now)
        connection.execute(update(alert_states).where(*late).values({column: moved}))
    owed = select(transitions.c.id).where(transitions.c.comparison == key(comparison))
    put_off = (deliveries.c.status.in_(_WAITING), deliveries.c.next_attempt_at > now, deliveries.c.transition_id.in_(owed))
    connection.execute(update(deliveries).where(*put_off).values(next_attempt_at=now, leased_by=None, leased_until=None))
