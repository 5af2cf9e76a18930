"""The lease that makes one daemon the leader."""

# ruff: noqa: D102 - `PostgresLeases` has the docstrings of both

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Interval,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    update,
)

from monitor.model.instants import format_instant
from monitor.model.runs import Lease, Occupied
from monitor.storage.column_types import Instant
from monitor.storage.database_url import file_of
from monitor.storage.rows import insert, is_sqlite
from monitor.storage.sqlite_file import FileLock
from monitor.storage.tables.run_tables import leases
from monitor.storage.transactions import LEADING, Database, is_current

# Names of the rows of ``leases`` that are no leases: the database's id, and outages.
_INSTALLATION_KEY = "installation"
_OUTAGE_PREFIX = "outage since "
_IS_OUTAGE = leases.c.name.startswith(_OUTAGE_PREFIX)
_OUTAGES_KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class PostgresLeases:
    """Acquires and renews the lease for one of the daemons that share a PostgreSQL database.

    The lease is a row of the table ``leases``. Only one thread may use this object. After a
    DatabaseError, it is unknown whether the lease is still valid.
    """

    database: Database
    holder: str
    lasts: timedelta

    def acquire(self) -> Lease | Occupied:
        """Acquire the lease if it is free, expired or released.

        Only one of several callers gets the lease. The epoch grows by one.
        """
        with self.database.read() as connection:
            last_holder, occupied = read_lease(connection)
        if occupied is not None:
            return occupied
        with self.database.write() as connection:
            # If the last holder is committing a transaction, this waits for the end of the commit.
            epoch = _take_if_free(connection, self.holder, self.lasts)
            if epoch is not None:
                return Lease(holder=self.holder, epoch=epoch, last_holder=last_holder)
            # Another daemon was faster. It may have released the lease again.
            _, occupied = read_lease(connection)
        return occupied or Occupied(holder="another daemon", epoch=0, free_in_s=0.0)

    def renew(self, lease: Lease) -> bool:
        """Renew the lease for its full duration, which begins during the call.

        Returns False if another daemon has acquired the lease.
        """
        # An expired lease is renewed too if no other daemon has taken it.
        with self.database.write() as connection:
            until = _now(connection) + literal(self.lasts, Interval)
            renewal = update(leases).where(is_current(lease)).values(expires_at=until)
            return connection.execute(renewal).rowcount == 1

    def release(self, lease: Lease) -> None:
        """Release the lease for other daemons. Does nothing if another daemon has acquired it."""
        # Without an end, the lease stays free even if the server's clock is set back.
        with self.database.write() as connection:
            connection.execute(update(leases).where(is_current(lease)).values(expires_at=None))

    def close(self) -> None:
        """Close the connections. May be called twice."""
        self.database.close()


@dataclass(slots=True)
class SqliteLeases:
    """Acquires and renews the lease of a SQLite file, as `PostgresLeases` does.

    The daemon that has locked the file leads. No other daemon can use the file as a standby.
    """

    database: Database
    lock: FileLock

    def acquire(self) -> Lease | Occupied:
        # If another process has the lock, this raises a permanent DatabaseError that names the
        # process.
        self.lock.take()
        with self.database.write() as connection:
            last_holder = connection.scalar(select(leases.c.holder).where(leases.c.name == LEADING))
            epoch = _take_if_free(connection, self.lock.holder, None)
        return Lease(holder=self.lock.holder, epoch=epoch or 0, last_holder=last_holder)

    def renew(self, lease: Lease) -> bool:
        # Nothing is written, because the lease does not expire. `take` checks the lock, and `read`
        # checks that the file was not replaced.
        self.lock.take()
        with self.database.read() as connection:
            return connection.scalar(select(leases.c.epoch).where(is_current(lease))) is not None

    def release(self, lease: Lease) -> None:  # noqa: ARG002 - as of PostgreSQL
        self.lock.release()

    def close(self) -> None:
        self.lock.release()
        self.database.close()


Leases: TypeAlias = PostgresLeases | SqliteLeases


def open_leases(url: URL, *, holder: str, lasts: timedelta) -> Leases:
    """Return the object with which one daemon acquires the lease of this database."""
    # The lease has its own connections, so that no renewal waits for a connection that a run uses.
    file = file_of(url)
    if file is not None:
        return SqliteLeases(Database(url), FileLock(file=file, holder=holder))
    # If a call gives up after a third of the lease, the daemon can still renew the lease in time.
    patience_s = lasts.total_seconds() / 3
    return PostgresLeases(Database(url, patience_s=patience_s), holder, lasts)


def installation_of(connection: Connection, *, create: bool) -> str:
    """Return this database's random id.

    The id is the holder in a row of ``leases`` that is no real lease. Without such a row,
    ``create`` True stores one, and ``create`` False returns an empty text.
    """
    if create:
        values = {
            "name": _INSTALLATION_KEY,
            "epoch": 0,
            "holder": secrets.token_hex(16),
            "acquired_at": _now(connection),
        }
        connection.execute(insert(connection, leases).values(values).on_conflict_do_nothing())
    holder = select(leases.c.holder).where(leases.c.name == _INSTALLATION_KEY)
    return connection.scalar(holder) or ""


def store_outage(connection: Connection, since: datetime, until: datetime) -> None:
    """Store when an outage of the database began and ended, in a row of ``leases``.

    The name of the row shows that it is no lease. Outages that ended more than `_OUTAGES_KEPT`
    before ``until`` are deleted.
    """
    is_old = and_(_IS_OUTAGE, leases.c.expires_at < until - _OUTAGES_KEPT)
    connection.execute(delete(leases).where(is_old))
    times = {"acquired_at": since, "expires_at": until}
    name = f"{_OUTAGE_PREFIX}{format_instant(since)}"
    insertion = insert(connection, leases).values(name=name, epoch=0, holder="", **times)
    connection.execute(insertion.on_conflict_do_update(index_elements=[leases.c.name], set_=times))


def away_s_since(connection: Connection, instant: datetime) -> float:
    """Return the total seconds of the database's outages that ended after the instant.

    Several daemons may have stored the same outage, so overlapping times are counted once.
    """
    times = select(leases.c.acquired_at, leases.c.expires_at).order_by(leases.c.acquired_at)
    outages = connection.execute(times.where(_IS_OUTAGE, leases.c.expires_at > instant))
    away_s = 0.0
    counted_until = None
    for since, until in outages:
        begin = since if counted_until is None else max(since, counted_until)
        if until > begin:
            away_s += (until - begin).total_seconds()
            counted_until = until
    return away_s


def read_lease(connection: Connection) -> tuple[str | None, Occupied | None]:
    """Return which daemon had PostgreSQL's lease last, and which daemon has it now.

    The first value is None if no daemon ever had the lease. The second value is None if no daemon
    has the lease now.
    """
    # PostgreSQL calls the number of seconds in an interval "epoch".
    seconds_left = func.extract("epoch", leases.c.expires_at - func.clock_timestamp())
    query = select(leases.c.holder, leases.c.epoch, seconds_left.label("seconds_left"))
    row = connection.execute(query.where(leases.c.name == LEADING)).one_or_none()
    if row is None:
        return None, None
    if row.seconds_left is None or row.seconds_left <= 0:
        return row.holder, None
    free_in_s = float(row.seconds_left)
    return row.holder, Occupied(holder=row.holder, epoch=row.epoch, free_in_s=free_in_s)


def _take_if_free(connection: Connection, holder: str, lasts: timedelta | None) -> int | None:
    """Take the lease for ``lasts`` if it is free. Return the new epoch, or None if it is not free.

    On SQLite, ``lasts`` is None: the caller has locked the file, so the lease is always taken. It
    never expires.
    """
    now = _now(connection)
    until: Any = None
    is_free = None  # no condition
    if lasts is not None:
        until = now + literal(lasts, Interval)
        # Only SQLite's leases have no end. If the data was copied from SQLite to PostgreSQL, such a
        # lease does not count.
        is_free = or_(leases.c.expires_at.is_(None), leases.c.expires_at <= now)
    values = {"holder": holder, "acquired_at": now, "expires_at": until}
    first_lease = insert(connection, leases).values(name=LEADING, epoch=1, **values)
    take = first_lease.on_conflict_do_update(
        index_elements=[leases.c.name],
        set_={**values, "epoch": leases.c.epoch + 1},
        where=is_free,
    ).returning(leases.c.epoch)
    return connection.execute(take).scalar()


def _now(connection: Connection) -> ColumnElement[Any]:
    """Return SQL for the present time by the database's clock."""
    if is_sqlite(connection):
        return func.strftime("%Y-%m-%dT%H:%M:%f000Z", "now", type_=Instant())
    return func.clock_timestamp()
