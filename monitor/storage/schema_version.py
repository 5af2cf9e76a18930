"""Reads, checks and migrates the schema's version, and finds processes that use the database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr
from sqlalchemy import Connection, func, inspect, select, text

from monitor.boundary.foreign_errors import log_error
from monitor.model.errors import DatabaseError, SchemaError
from monitor.storage.database_errors import UPGRADE, failure_of_opening, translated
from monitor.storage.database_url import describe_url, file_of, parse_url
from monitor.storage.leases import read_lease
from monitor.storage.partitions import filter_of_dialect, is_no_partition
from monitor.storage.rows import is_sqlite
from monitor.storage.sqlite_file import advise_on, find_damage, holder_of
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import leases, runs
from monitor.storage.transactions import Database, require_file

if TYPE_CHECKING:
    from alembic.config import Config

# Alembic is imported only to change or compare the schema. Its import takes as long as all the
# other imports of a command that only reads.

_MIGRATION_LOCK = 0x72616E6B  # the key of the advisory lock that upgrades take: "rank" in ASCII
_OLDEST_POSTGRES = (14,)
_INSTALL_NEWER = "install the newer version of rankwatch that wrote it"


def migrations() -> Path:
    """Return the directory of migrations, in an installed package or in a checkout."""
    installed = Path(__file__).parent / "migrations"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "migrations"


def newest_version() -> str:
    """Return the newest version of the schema, which this program needs."""
    return _versions()[0]


def upgrade(url: SecretStr | str, revision: str = "head") -> None:
    """Migrate the schema forward in one transaction. Other processes that migrate wait meanwhile.

    A missing SQLite file is created.
    """
    with _opened(url) as database:
        if revision == "head" and create_tables(database):
            return
        _migrate(database, revision)


def downgrade(url: SecretStr | str, revision: str) -> None:
    """Migrate the schema back to ``revision``. The revision ``base`` removes all tables.

    Data that the older version cannot store is lost.
    """
    from alembic import command

    with _existing(url) as database, _migrating(database) as config:
        command.downgrade(config, revision)


def stored_version(url: SecretStr | str) -> str | None:
    """Return the schema's version, or None if the SQLite file or rankwatch's tables are missing."""
    file = file_of(parse_url(url))
    if file is not None and not file.exists():
        return None
    with _opened(url) as database, database.read() as connection:
        return version_of(connection)


def probe_database(url: SecretStr | str) -> str | None:
    """Check the database as the daemon does when it starts, but change nothing.

    Returns the schema's version, or None if the daemon will create the file or the tables. Raises
    DatabaseError if the daemon could not use the database.
    """
    parsed = parse_url(url)
    file = file_of(parsed)
    if file is not None:
        _require_access(file, describe_url(parsed))
        if not file.exists():
            return None
    with _opened(url) as database, database.read() as connection:
        version = version_of(connection)
        if version is not None:
            require_newest(connection, describe_url(parsed))
    return version


def _require_access(file: Path, location: str) -> None:
    """Raise DatabaseError if this account may not write the file, or create it in its directory."""
    # SQLite also creates log files in the directory of an existing file.
    paths = [file.parent, file] if file.exists() else [file.parent]
    for path in paths:
        if not os.access(path, os.R_OK | os.W_OK):
            failure = failure_of_opening(file)
            raise DatabaseError(f"{location} {failure.text}", kind=failure.kind)


def find_differences(url: SecretStr | str) -> list[str]:
    """Return one line for each difference between the database's schema and the needed schema."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with _existing(url) as database, database.read() as connection:
        version = version_of(connection)
        needed = newest_version()
        if version != needed:
            problem = (
                f"the schema has version {version or '(none)'}, but this program needs {needed}"
            )
            return [f"{problem}: {advise_on_version(version)}"]
        options: dict[str, Any] = {
            "compare_type": True,
            "compare_server_default": True,
            "include_name": is_no_partition,
            "include_object": filter_of_dialect(connection),
        }
        context = MigrationContext.configure(connection, opts=options)
        return list(map(str, compare_metadata(context, metadata)))


def find_file_damage(url: SecretStr | str) -> tuple[list[str], str] | None:
    """Return the problems of a SQLite file, and what to do about them. Reads the whole file.

    The list is empty if the file is undamaged. The result is None if the database is PostgreSQL, or
    if the file does not exist.
    """
    file = file_of(parse_url(url))
    if file is None or not file.exists():
        return None
    with translated(parse_url(url), sqlite3.Error):
        problems = find_damage(file)
    return problems, advise_on(file, problems)


def create_tables(database: Database) -> bool:
    """Create the tables of this version if the database has no tables of rankwatch.

    Returns False if the database has such tables. Several processes may call this at once.
    """
    with database.read() as connection:
        if version_of(connection) is not None:
            return False
    script = migrations() / f"sqlite-{newest_version()}.sql"
    if database.is_sqlite and script.exists():
        _run_script(database, script)
    else:
        _migrate(database, "head", only_if_empty=True)
    return True


def _run_script(database: Database, script: Path) -> None:
    """Create the tables with the script, which `make generated` writes from the migrations.

    Migrations create the same tables. But they need Alembic, and importing Alembic takes ten times
    as long as the script.
    """
    database.use_write_ahead_log()
    with database.write(needs_lease=False) as connection:
        # Another process may have created the tables meanwhile.
        if version_of(connection) is not None:
            return
        for statement in script.read_text(encoding="utf-8").split(";\n"):
            connection.exec_driver_sql(statement)


def _migrate(database: Database, revision: str, *, only_if_empty: bool = False) -> None:
    """Migrate forward. With ``only_if_empty``, do nothing if there are tables of rankwatch."""
    from alembic import command

    if database.is_sqlite:
        database.use_write_ahead_log()
    with _migrating(database) as config:
        # Another process may have created the tables meanwhile.
        if only_if_empty and version_of(config.attributes["connection"]) is not None:
            return
        command.upgrade(config, revision)


def version_of(connection: Connection) -> str | None:
    """Return the schema's version, or None if there are no tables of rankwatch.

    Raises SchemaError if there are tables, but no valid version.
    """
    if not inspect(connection).has_table("alembic_version"):
        return None
    versions = connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
    if len(versions) == 1 and isinstance(versions[0], str) and versions[0]:
        return versions[0]
    if versions or inspect(connection).has_table(runs.name):
        raise SchemaError(
            "alembic_version, the table of the schema's version, is empty or damaged: restore the "
            "database from a backup, or write the version of the tables into it"
        )
    return None  # `downgrade base` leaves an empty table


def rewrite_value(connection: Connection) -> None:
    """Write a stored value again, so that the database has to flush it."""
    if is_sqlite(connection):
        user_version = connection.execute(text("PRAGMA user_version")).scalar_one()
        connection.execute(text(f"PRAGMA user_version = {int(user_version)}"))
    else:
        connection.execute(text("UPDATE alembic_version SET version_num = version_num"))


def require_newest(connection: Connection, location: str) -> None:
    """Raise SchemaError if the schema does not have the newest version.

    Raises DatabaseError if the server is too old.
    """
    if not is_sqlite(connection):
        _require_postgres(connection, location)
    version = _require_known_version(connection, location)
    if version is None:
        raise SchemaError(
            f"{location} has no tables of rankwatch yet: {UPGRADE}, or run `rankwatch run-once`"
        )
    needed = newest_version()
    if version != needed:
        raise SchemaError(
            f"{location} has schema version {version}, but this program needs version {needed}: "
            f"{UPGRADE}"
        )


def advise_on_version(version: str | None) -> str:
    """Return what to do about a database that does not have the newest version."""
    if version is None or version in _versions():
        return UPGRADE
    return _INSTALL_NEWER


def _opened(url: SecretStr | str) -> closing[Database]:
    return closing(Database(parse_url(url)))


def _existing(url: SecretStr | str) -> closing[Database]:
    require_file(parse_url(url))
    return _opened(url)


@contextmanager
def _migrating(database: Database) -> Iterator[Config]:
    """Yield Alembic's configuration in a transaction in which only this process migrates.

    ``attributes["connection"]`` of the configuration is the transaction's connection. Raises
    SchemaError if this program does not know the database's version or the wanted version.
    """
    from alembic.util import CommandError

    location = describe_url(database.url)
    with database.write(needs_lease=False) as connection:
        if not database.is_sqlite:
            _require_postgres(connection, location)
            # Only one process migrates at a time.
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
        _require_known_version(connection, location)
        try:
            yield _config(connection)
        except CommandError as error:
            log_error(error)
            versions = ", ".join(reversed(_versions()))
            msg = f"{location} cannot be migrated to an unknown version: use base or one of {versions}"
            raise SchemaError(msg) from None


def _require_postgres(connection: Connection, location: str) -> None:
    """Raise DatabaseError if the server is older than `_OLDEST_POSTGRES`."""
    version = connection.dialect.server_version_info or _OLDEST_POSTGRES
    if version < _OLDEST_POSTGRES:
        raise DatabaseError(
            f"{location} runs PostgreSQL {'.'.join(map(str, version))}: rankwatch needs "
            f"{_OLDEST_POSTGRES[0]} or newer"
        )


def _require_known_version(connection: Connection, location: str) -> str | None:
    """Raise SchemaError if this program does not know the schema's version.

    Otherwise the version is returned. It is None if there are no tables of rankwatch.
    """
    version = version_of(connection)
    if version is not None and version not in _versions():
        raise SchemaError(
            f"{location} has schema version {version}, which this program does not know: "
            f"{_INSTALL_NEWER}"
        )
    return version


def _config(connection: Connection) -> Config:
    """Return the configuration of Alembic for a migration with this connection."""
    from alembic.config import Config

    config = Config()
    # Alembic reads a percent sign as the start of a placeholder.
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


@cache
def _versions() -> list[str]:
    """Return the numbers with which the names of migrations begin, newest first."""
    files = (migrations() / "versions").glob("[0-9]*.py")
    return sorted((file.name.partition("_")[0] for file in files), reverse=True)


def process_using(url: SecretStr | str, *, may_be_run: bool = True) -> str | None:
    """Describe the process that uses the database. Return None if no process uses it.

    On SQLite, this is the process that has locked the file. On PostgreSQL, this is the leader. If
    there is no leader, and with ``may_be_run``, it may be a process that runs a slot.
    """
    file = file_of(parse_url(url))
    if file is not None:
        return holder_of(file)
    with _opened(url) as database, database.read() as connection:
        if not inspect(connection).has_table(leases.name):
            return None
        _, leader = read_lease(connection)
        if leader is not None:
            left_s = leader.free_in_s
            return f"{leader.holder} (leads; its lease ends in {left_s:.0f} s unless renewed)"
        running = (
            select(runs.c.owner, runs.c.comparison)
            .where(runs.c.claimed_until > func.clock_timestamp())
            .limit(1)
        )
        row = connection.execute(running).one_or_none() if may_be_run else None
    return None if row is None else f"{row.owner} (runs {row.comparison})"
