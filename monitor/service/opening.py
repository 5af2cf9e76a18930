"""Opening a database that may be away, and looking whether it has come back."""

from __future__ import annotations

from functools import partial

from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.pipeline.deadline import OverdueError, Promise
from monitor.service.outage import DatabaseWatch, Outage
from monitor.storage import SqlStore

OPENING_S = 20.0
"""Longer than the driver takes to give up on a connection."""


def open_in_time(store: SqlStore, database: DatabaseWatch) -> bool:
    """Open it, with our tables if it has none; False when it does not answer, DatabaseError when it refuses."""
    try:
        Promise(partial(store.prepare, create=True), name="open-database").wait(OPENING_S)
    except OverdueError:
        database.failed(DatabaseError(f"{store.place} does not answer", permanent=False, trouble=DatabaseTrouble.HUNG))
        store.database.renew()
        return False
    database.answered()
    return True


def look_again(store: SqlStore, database: DatabaseWatch) -> Outage | None:
    """Ask whether it works, while it is not known to by writing too; the outage that has ended."""
    is_away = database.outage is not None
    try:
        if is_away:
            store.probe()
        store.ping()  # last: what can be written may have got another schema a moment ago, and then works for nobody
    except DatabaseError:
        return None  # noted where it was raised
    return database.answered() if is_away else None
