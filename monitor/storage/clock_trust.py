"""Whether runs, and a server's own clock, confirm this machine's clock: nothing is pruned by a clock that nothing confirms.

What a clock that is years ahead deletes does not come back, while what is pruned some days late does no harm.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from monitor.model import format_instant
from monitor.storage.dialects import is_sqlite
from monitor.storage.tables import runs

CONFIRMED_AFTER = timedelta(days=2)
"""A daemon stores runs under a wrong clock within minutes: only slots at least so old confirm what the clock says."""
LONGEST_GAP = timedelta(days=8)
"""How long before that the newest of these slots may lie; for schedules rarer than weekly, twice their interval."""

_SKEW = timedelta(hours=1)
_ADVICE = "correct the clock; if it is right, old rows are deleted again once runs have been stored for two days"


def doubt_about(connection: Connection, now: datetime) -> str | None:
    """Why ``now`` must not be used to decide what is old, in words; None where it is confirmed."""
    if not is_sqlite(connection):
        server = connection.execute(select(func.clock_timestamp())).scalar_one()
        if now - server > _SKEW:
            return f"this machine's clock says {format_instant(now)}, the database's {format_instant(server)}: {_ADVICE}"
    confirming = _newest_slots(connection, now - CONFIRMED_AFTER)
    if not confirming:
        # Without any slot that is old enough nothing is old, and every clock will do.
        return None
    gap = max(LONGEST_GAP, 2 * (confirming[0] - confirming[-1]))
    if now - CONFIRMED_AFTER - confirming[0] <= gap:
        return None
    said = (
        f"this machine's clock says {format_instant(now)}, and before that no run is newer than {format_instant(confirming[0])}"
    )
    return f"{said}: {_ADVICE}"


def _newest_slots(connection: Connection, until: datetime) -> list[datetime]:
    slots = select(runs.c.scheduled_for).where(runs.c.scheduled_for <= until).distinct()
    return list(connection.scalars(slots.order_by(runs.c.scheduled_for.desc()).limit(2)))
