"""Whether somebody works with a database at this moment, a daemon above all: its schema must not be taken from under them."""

from __future__ import annotations

from pydantic import SecretStr
from sqlalchemy import Connection, func, inspect, select

from monitor.storage.address import file_of, parse_url
from monitor.storage.connecting import Database
from monitor.storage.leasing import standing
from monitor.storage.locking import holder_of
from monitor.storage.tables import leases, runs


def user_of(url: SecretStr | str) -> str | None:
    """Who does, in words; None for nobody.

    On SQLite whoever holds the lock beside the file; on PostgreSQL who has the lease, or runs a slot, by the server's clock.
    """
    parsed = parse_url(url)
    file = file_of(parsed)
    if file is not None:
        return holder_of(file)
    database = Database(parsed)
    try:
        with database.read() as connection:
            return _leader(connection) or _runner(connection)
    finally:
        database.close()


def _leader(connection: Connection) -> str | None:
    found = standing(connection) if inspect(connection).has_table(leases.name) else None
    return None if found is None else f"{found.holder} (leads, for {found.free_in_s:.0f} s more if it is not renewed)"


def _runner(connection: Connection) -> str | None:
    if not inspect(connection).has_table(runs.name):
        return None
    held = select(runs.c.owner, runs.c.comparison).where(runs.c.claimed_until > func.clock_timestamp()).limit(1)
    row = connection.execute(held).one_or_none()
    return None if row is None else f"{row.owner} (runs {row.comparison})"
