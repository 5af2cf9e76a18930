"""The lease on leading, which one daemon holds."""

# ruff: noqa: D102 - the port's docstrings are the contract

import secrets
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Interval,
    func,
    literal,
    or_,
    select,
    text,
    update,
)

from monitor.errors import DatabaseError
from monitor.model.runs import Lease, Occupied
from monitor.ports import Leases
from monitor.storage.column_types import Instant
from monitor.storage.database_url import file_of
from monitor.storage.rows import insert, is_sqlite
from monitor.storage.sqlite_file import FileLock
from monitor.storage.tables.run_tables import leases
from monitor.storage.transactions import LEADING, Database, is_current

_INSTALLATION = "installation"

# Names that only transactions under a lease have, and only while they last; see `LeaseFence`.
_END_OLDER = text(
    "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname "
    "= current_database() AND usename = current_user AND pid <> pg_backend_pid() AND "
    "application_name ~ '^rankwatch epoch [0-9]{1,18}$' AND CAST(substring(application_name FROM "
    "'[0-9]+$') AS bigint) < :epoch"
)


def open_leases(url: URL, *, holder: str, lasts: timedelta) -> Leases:
    """The lease of this database, for one daemon."""
    # Over a connection of its own: renewing must not wait for one behind runs.
    file = file_of(url)
    if file is not None:
        return SqliteLeases(Database(url), FileLock(file=file, holder=holder))
    return PostgresLeases(Database(url, patience_s=lasts.total_seconds() / 3), holder, lasts)


@dataclass(frozen=True, slots=True)
class PostgresLeases:
    """Port ``Leases`` over PostgreSQL."""

    database: Database
    holder: str
    lasts: timedelta

    def acquire(self) -> Lease | Occupied:
        # Waits for at most one commit of the epoch before.
        with self.database.read() as connection:
            before, standing = read_lease(connection)
        if standing is not None:
            return standing
        with self.database.write() as connection:
            epoch = _take(connection, self.holder, self.lasts)
            if epoch is not None:
                return Lease(holder=self.holder, epoch=epoch, before=before)
            _, standing = read_lease(connection)
        return standing or Occupied(holder="another daemon", epoch=0, free_in_s=0.0)

    def renew(self, lease: Lease) -> bool:
        # One that ran out is renewed too, as long as nobody has taken it.
        with self.database.write() as connection:
            until = _now(connection) + literal(self.lasts, Interval)
            return (
                connection.execute(
                    update(leases).where(is_current(lease)).values(expires_at=until)
                ).rowcount
                == 1
            )

    def release(self, lease: Lease) -> None:
        with self.database.write() as connection:
            connection.execute(
                update(leases).where(is_current(lease)).values(expires_at=_now(connection))
            )

    def close(self) -> None:
        self.database.close()


@dataclass(frozen=True, slots=True)
class SqliteLeases:
    """Port ``Leases`` over SQLite: the holder of the lock leads, and nobody stands by."""

    database: Database
    lock: FileLock

    def acquire(self) -> Lease | Occupied:
        # DatabaseError, permanent, naming the holder when another process has the lock.
        self.lock.take()
        self.database.pin()
        with self.database.write() as connection:
            before = connection.scalar(select(leases.c.holder).where(leases.c.name == LEADING))
            epoch = _take(connection, self.lock.holder, None)
        return Lease(holder=self.lock.holder, epoch=epoch or 0, before=before)

    def renew(self, lease: Lease) -> bool:
        # Nothing is written: only looked whether lock, file and epoch are still ours.
        self.lock.take()
        with self.database.read() as connection:
            return connection.scalar(select(leases.c.epoch).where(is_current(lease))) is not None

    def release(self, lease: Lease) -> None:  # noqa: ARG002 - the port's
        self.lock.release()

    def close(self) -> None:
        self.lock.release()
        self.database.close()


def installation_of(connection: Connection, *, create: bool) -> str:
    """This database's random id, kept as the holder of a lease that nobody can take.

    Empty before ``create`` has given one.
    """
    if create:
        made = {
            "name": _INSTALLATION,
            "epoch": 0,
            "holder": secrets.token_hex(16),
            "acquired_at": _now(connection),
        }
        connection.execute(insert(connection, leases).values(made).on_conflict_do_nothing())
    return connection.scalar(select(leases.c.holder).where(leases.c.name == _INSTALLATION)) or ""


def terminate_older_epochs(database: Database, epoch: int) -> None:
    """End the transactions under older epochs that are open still."""
    if database.is_sqlite:
        return
    # Of a frozen daemon they would keep their locks. Nothing is lost, they could not be committed
    # any more; where the server does not permit it, they end by their own limit.
    with suppress(DatabaseError), database.write() as connection:
        connection.execute(_END_OLDER, {"epoch": epoch})


def read_lease(connection: Connection) -> tuple[str | None, Occupied | None]:
    """Who holds or held the lease on PostgreSQL, and for how long they still do if it is not renewed; None for nobody."""
    left = func.extract("epoch", leases.c.expires_at - func.clock_timestamp())
    row = connection.execute(
        select(leases.c.holder, leases.c.epoch, left.label("left")).where(leases.c.name == LEADING)
    ).one_or_none()
    if row is None or row.left is None or row.left <= 0:
        return (row.holder if row else None), None
    return row.holder, Occupied(holder=row.holder, epoch=row.epoch, free_in_s=float(row.left))


def _take(connection: Connection, holder: str, lasts: timedelta | None) -> int | None:
    """Take the lease if it is free, for ever where ``lasts`` is None.

    The epoch, None when it is not free.
    """
    now = _now(connection)
    until: Any = None if lasts is None else now + literal(lasts, Interval)
    held = {"holder": holder, "acquired_at": now, "expires_at": until}
    first = insert(connection, leases).values(name=LEADING, epoch=1, **held)
    is_free = (
        None if lasts is None else or_(leases.c.expires_at.is_(None), leases.c.expires_at <= now)
    )
    taken = first.on_conflict_do_update(
        index_elements=[leases.c.name], set_={"epoch": leases.c.epoch + 1, **held}, where=is_free
    ).returning(leases.c.epoch)
    epoch: int | None = connection.execute(taken).scalar()
    return epoch


def _now(connection: Connection) -> ColumnElement[Any]:
    is_text = is_sqlite(connection)
    return (
        func.strftime("%Y-%m-%dT%H:%M:%f000Z", "now", type_=Instant())
        if is_text
        else func.clock_timestamp()
    )
