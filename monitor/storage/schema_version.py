"""The schema's version: reading, migrating and checking it, and who works with the database meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from sqlalchemy import Connection, func, inspect, select, text

from monitor.errors import DatabaseError, SchemaError
from monitor.foreign_errors import note_error
from monitor.storage.database_errors import UPGRADE, translated
from monitor.storage.database_url import describe, file_of, parse_url
from monitor.storage.leases import read_lease
from monitor.storage.partitions import is_of_dialect, without_partitions
from monitor.storage.rows import is_sqlite
from monitor.storage.sqlite_file import advise_on, find_damage, holder_of
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import leases, runs
from monitor.storage.transactions import Database, require_file

if TYPE_CHECKING:
    from alembic.config import Config

# Alembic is imported where the schema is changed or compared: it loads as slowly as all that
# reading commands do.

_LOCK = 0x72616E6B  # "rank": the key of the advisory lock that upgrades take
_OLDEST_POSTGRES = (14,)
_NEWER = (
    "install the newer rankwatch that wrote it, then `rankwatch db upgrade` has nothing left to do"
)


def migrations() -> Path:
    """The directory of the migrations: inside the package when installed, at the root of a checkout."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "migrations"


def head() -> str:
    """The newest version, the one that this program works with."""
    return _known()[0]


def upgrade(url: SecretStr | str, revision: str = "head") -> None:
    """Move the schema forward, creating a SQLite file that is not there.

    Everything or nothing; one at a time.
    """
    with _opened(url) as database:
        _migrate(database, revision)


def downgrade(url: SecretStr | str, revision: str) -> None:
    """Move the schema back to ``revision``, ``base`` being no tables at all.

    What newer versions stored is lost.
    """
    from alembic import command

    with _existing(url) as database, _migrating(database) as config:
        command.downgrade(config, revision)


def current(url: SecretStr | str) -> str | None:
    """The version that the database has.

    None when it has no tables of ours, or when there is no such SQLite file.
    """
    file = file_of(parse_url(url))
    if file is not None and not file.exists():
        return None
    with _opened(url) as database, database.read() as connection:
        return version_of(connection)


def check(url: SecretStr | str) -> list[str]:
    """Differences between the database and what this version expects, one a line.

    Empty when there are none.
    """
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with _existing(url) as database, database.read() as connection:
        version = version_of(connection)
        if version != head():
            return [
                (
                    f"the schema has version {version or '(none)'}, this program needs {head()}: "
                    f"{advise(version)}"
                )
            ]
        options: dict[str, Any] = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": without_partitions(connection),
            "include_object": is_of_dialect(connection),
        }
        return [
            str(change)
            for change in compare_metadata(
                MigrationContext.configure(connection, opts=options), metadata
            )
        ]


def damage_in(url: SecretStr | str) -> tuple[list[str], str] | None:
    """What is wrong with the file of a SQLite database, and what to do.

    None without a file, as on PostgreSQL.
    """
    file = file_of(parse_url(url))
    if file is None or not file.exists():
        return None
    with translated(parse_url(url), sqlite3.Error):
        damage = find_damage(file)
    return damage, advise_on(file, damage)


def create(database: Database) -> None:
    """Give a database without our tables those of this version.

    Any other stays as it is. Several may do so at once.
    """
    with database.read() as connection:
        if version_of(connection) is not None:
            return
    _migrate(database, "head", only_if_empty=True)


def _migrate(database: Database, revision: str, *, only_if_empty: bool = False) -> None:
    from alembic import command

    if database.is_sqlite:
        database.use_write_ahead_log()
    with _migrating(database) as config:
        if not (only_if_empty and version_of(config.attributes["connection"]) is not None):
            command.upgrade(config, revision)


def version_of(connection: Connection) -> str | None:
    """The version of the schema seen over this connection.

    SchemaError for tables whose version is unknown.
    """
    if not inspect(connection).has_table("alembic_version"):
        return None
    versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(versions) == 1 and isinstance(versions[0], str) and versions[0]:
        return versions[0]
    if versions or inspect(connection).has_table(runs.name):
        msg = (
            "alembic_version, the table that holds the version of the schema, is empty or "
            "damaged: restore the database from a backup, or write the version into it that the "
            "tables have"
        )
        raise SchemaError(msg)
    return None  # as `downgrade base` leaves it


def rewrite(connection: Connection) -> None:
    """Write a value that is stored already, in such a way that the database has to flush it."""
    if is_sqlite(connection):
        number = connection.execute(text("PRAGMA user_version")).scalar_one()
        connection.execute(text(f"PRAGMA user_version = {int(number)}"))
    else:
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))


def require_head(connection: Connection, place: str) -> None:
    """SchemaError unless the schema is the one that this program works with.

    DatabaseError for a server that is too old.
    """
    if not is_sqlite(connection):
        _require_version(connection, place)
    version = _known_version(connection, place)
    if version is None:
        raise SchemaError(f"{place} holds no tables of rankwatch yet: {UPGRADE}")
    if version != head():
        raise SchemaError(
            (
                f"{place} has schema version {version}, older than {head()} which this program "
                f"needs: {UPGRADE}"
            )
        )


def advise(version: str | None) -> str:
    """What to do about a database of this version, which is not the newest one that this program knows."""
    return UPGRADE if version is None or version in _known() else _NEWER


def _opened(url: SecretStr | str) -> closing[Database]:
    return closing(Database(parse_url(url)))


def _existing(url: SecretStr | str) -> closing[Database]:
    require_file(parse_url(url))
    return _opened(url)


@contextmanager
def _migrating(database: Database) -> Iterator[Config]:
    from alembic.util import CommandError

    with database.write(is_fenced=False) as connection:
        if not database.is_sqlite:
            _require_version(connection, describe(database.url))
            # Only one migrates at a time.
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        _known_version(connection, describe(database.url))
        try:
            yield _config(connection)
        except CommandError as error:
            note_error(error)
            known = ", ".join(_known()[::-1])
            msg = (
                f"{describe(database.url)} cannot be migrated to that version: known versions "
                f"are base, {known}"
            )
            raise SchemaError(msg) from None


def _require_version(connection: Connection, place: str) -> None:
    found = connection.dialect.server_version_info or _OLDEST_POSTGRES
    if found < _OLDEST_POSTGRES:
        msg = (
            f"{place} runs PostgreSQL {'.'.join(map(str, found))}: rankwatch needs "
            f"{_OLDEST_POSTGRES[0]} or newer"
        )
        raise DatabaseError(msg)


def _known_version(connection: Connection, place: str) -> str | None:
    version = version_of(connection)
    if version is not None and version not in _known():
        raise SchemaError(
            f"{place} has schema version {version}, which this program does not know: {_NEWER}"
        )
    return version


def _config(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@cache
def _known() -> tuple[str, ...]:
    # Newest first: the number with which the name of a migration begins.
    return tuple(
        sorted(
            (path.name[:4] for path in (migrations() / "versions").glob("[0-9]*.py")), reverse=True
        )
    )


def user_of(url: SecretStr | str) -> str | None:
    """Who works with the database, in words: who holds SQLite's lock, or on PostgreSQL the lease or a slot; None for nobody."""
    file = file_of(parse_url(url))
    if file is not None:
        return holder_of(file)
    with _opened(url) as database, database.read() as connection:
        return _leader(connection) or _runner(connection)


def _leader(connection: Connection) -> str | None:
    _, found = (
        read_lease(connection) if inspect(connection).has_table(leases.name) else (None, None)
    )
    return (
        None
        if found is None
        else f"{found.holder} (leads, for {found.free_in_s:.0f} s more if it is not renewed)"
    )


def _runner(connection: Connection) -> str | None:
    if not inspect(connection).has_table(runs.name):
        return None
    held = (
        select(runs.c.owner, runs.c.comparison)
        .where(runs.c.claimed_until > func.clock_timestamp())
        .limit(1)
    )
    row = connection.execute(held).one_or_none()
    return None if row is None else f"{row.owner} (runs {row.comparison})"
