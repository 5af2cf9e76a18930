"""The fence: no transaction of a daemon is committed once another daemon has taken the lease.

PostgreSQL: the epoch is looked up when a transaction begins, so that what is lost anyway costs nothing, and again right before
the commit, this time holding the row so that nobody takes the lease in between: a takeover waits for one commit at most. A
process frozen between the two holds locks that others need; so its transactions are named by their epoch, whoever takes over
ends them by that name (`leasing.end_older`), and the server itself ends one that stands still, soon where only the commit is
missing. All settings are of the transaction, so a pooler may hand the connection to others.

SQLite: a transaction that writes is the only one, so looking once is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import ColumnElement, Connection, exists, func, select

from monitor.errors import LeaseLostError
from monitor.model import Lease
from monitor.storage.address import describe
from monitor.storage.dialects import is_sqlite
from monitor.storage.leasing import LEADING, is_current
from monitor.storage.tables import leases

_IDLE = "idle_in_transaction_session_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFence:
    """Lets only the lease's own epoch write. ``patience``: after how long of standing still the server ends a transaction."""

    lease: Lease
    patience: timedelta

    def enter(self, connection: Connection) -> None:
        """At the beginning of a transaction; LeaseLostError when the lease is not ours any more."""
        settings = [] if is_sqlite(connection) else [self._name(), _limit(self.patience)]
        if not connection.execute(select(exists().where(is_current(self.lease)), *settings)).scalar_one():
            raise self._lost(connection)

    def leave(self, connection: Connection) -> None:
        """Right before the commit; LeaseLostError when the lease is not ours any more, else it stays ours until then."""
        if is_sqlite(connection):
            return
        query = select(leases.c.epoch, _limit(self.patience / 3)).where(is_current(self.lease)).with_for_update(read=True)
        if connection.execute(query).one_or_none() is None:
            raise self._lost(connection)

    def _name(self) -> ColumnElement[str]:
        return func.set_config("application_name", f"rankwatch epoch {self.lease.epoch}", True)  # noqa: FBT003 - SQL

    def _lost(self, connection: Connection) -> LeaseLostError:
        now = connection.execute(select(leases.c.holder, leases.c.epoch).where(leases.c.name == LEADING)).one_or_none()
        leader = f"{now.holder} (host:process) leads under epoch {now.epoch}" if now else "nobody holds it"
        return LeaseLostError(
            f"{describe(connection.engine.url)}: the lease of epoch {self.lease.epoch} is over, {leader}: nothing was written"
        )


@dataclass(frozen=True, slots=True)
class StandbyFence:
    """Lets nobody write."""

    def enter(self, connection: Connection) -> None:
        """At the beginning of a transaction; LeaseLostError."""
        msg = f"{describe(connection.engine.url)}: this daemon stands by: nothing was written"
        raise LeaseLostError(msg)

    def leave(self, connection: Connection) -> None:
        """Never reached."""


def _limit(after: timedelta) -> ColumnElement[str]:
    return func.set_config(_IDLE, str(round(after.total_seconds() * 1000)), True)  # noqa: FBT003 - SQL
