"""Opening a database that may be away, and looking whether it has come back."""

from __future__ import annotations

from functools import partial

from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.pipeline.deadline import OverdueError, Promise
from monitor.service.outage import DatabaseWatch
from monitor.storage import SqlStore

OPENING_S = 20.0
"""Longer than the driver takes to give up on a connection."""


def is_opened(store: SqlStore, database: DatabaseWatch) -> bool:
    """Open it, with our tables if it has none; False when that may go better later. DatabaseError when it will not."""
    try:
        Promise(partial(store.prepare, create=True), name="open-database").wait(OPENING_S)
    except OverdueError:
        away = DatabaseError(f"{store.place} does not answer", permanent=False, trouble=DatabaseTrouble.HUNG)
        database.failed(away)
        store.database.renew()
        return False
    except DatabaseError as error:
        if error.permanent:
            raise
        return False
    database.answered()
    return True


def has_come_back(store: SqlStore, database: DatabaseWatch) -> bool:
    """Ask whether it works, by writing while it is not known to; True when that ended an outage."""
    try:
        if database.outage is None:
            store.ping()
            return False
        store.probe()
    except DatabaseError:
        return False  # noted where it was raised
    database.answered()
    return True
