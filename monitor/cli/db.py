"""The commands `db`. They manage the schema, the size and the old rows of the database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.command_classes import Command, CommandGroup
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.output import (
    attributes_of,
    print_error,
    print_json,
    print_line,
    print_table,
    progress_bar,
)
from monitor.cli.parameters import AsJson, Config, opened_database
from monitor.model.errors import DatabaseError, DatabaseErrorKind, SchemaError

if TYPE_CHECKING:
    from monitor.model.retention import KindSize, Pruned

db_commands = typer.Typer(
    cls=CommandGroup,
    help="Create, upgrade, check and clean up the database.",
    no_args_is_help=True,
)


def _require_revision(revision: str) -> str:
    if not revision.strip():
        raise typer.BadParameter(
            "this is not a revision: write a number such as 0001, a step such as -1, head or base"
        )
    return revision


def _database_url(config: Path) -> str:
    from monitor.settings.unchecked_settings import load_database_settings

    return load_database_settings(config).database.get_secret_value()


@db_commands.command("upgrade", cls=Command)
def upgrade_schema(
    config: Config = DEFAULT_CONFIG,
    revision: Annotated[
        str, typer.Argument(help="The revision to upgrade to.", callback=_require_revision)
    ] = "head",
    *,
    as_json: AsJson = False,
) -> None:
    """Create the tables, or upgrade them to this version.

    The command prints a warning if a daemon is using the database.
    """
    from monitor.storage import schema_version

    url = _database_url(config)
    before = schema_version.stored_version(url)
    process = schema_version.process_using(url)
    schema_version.upgrade(url, revision)
    after = schema_version.stored_version(url)
    if process and before != after:
        print_error(
            f"{process} is using the database: if it is an older version of rankwatch, replace it "
            "now"
        )
    if as_json:
        print_json({"before": before, "after": after})
    elif before == after:
        print_line(f"schema {after}: nothing to upgrade")
    else:
        print_line(f"schema {before or 'none'} -> {after}")


@db_commands.command("downgrade", cls=Command)
def downgrade_schema(
    revision: Annotated[
        str,
        typer.Argument(
            help="The revision to downgrade to. `base` drops every table and all data.",
            callback=_require_revision,
        ),
    ],
    config: Config = DEFAULT_CONFIG,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Downgrade even if the database is in use.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Downgrade the schema to an earlier revision.

    Back up the database first, because the command deletes data that the earlier revision cannot
    store. The command fails while a daemon uses the database. On PostgreSQL, the command also fails
    during a run.
    """
    from monitor.storage import schema_version

    url = _database_url(config)
    before = schema_version.stored_version(url)
    if not force and (process := schema_version.process_using(url)):
        raise DatabaseError(f"{process} is using the database: stop it first, or use --force")
    schema_version.downgrade(url, revision)
    after = schema_version.stored_version(url)
    if as_json:
        print_json({"before": before, "after": after})
    else:
        print_line(f"schema {after or 'none'}")


@db_commands.command("current", cls=Command)
def show_schema(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Print the schema's revision, and the revision needed now."""
    from monitor.storage import schema_version

    current = schema_version.stored_version(_database_url(config))
    wanted = schema_version.newest_version()
    if as_json:
        print_json({"schema": current, "wanted": wanted})
        return
    versions = f"{current or 'none'} (this version needs {wanted})"
    if current == wanted:
        print_line(versions)
    else:
        print_line(f"{versions}: {schema_version.advise_on_version(current)}")


@db_commands.command("check", cls=Command)
def check_schema(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Check the database: its tables, and its file if it is SQLite.

    The command checks that the tables have the form that this version expects, and that a SQLite
    file is not damaged. The command reads the complete file, which takes about ten seconds for each
    gigabyte. Then the command checks whether the database can be written, if its user has the right
    to write. The exit code is 0 if no problem is found. Otherwise the exit code is 4, and the
    command prints the problems.
    """
    from monitor.storage import schema_version
    from monitor.storage.database_url import describe_url, parse_url

    url = _database_url(config)
    database = describe_url(parse_url(url))
    # Look for damage first, because damage causes further errors.
    file_damage = schema_version.find_file_damage(url)
    damage, advice = file_damage or ([], "")
    current = schema_version.stored_version(url)
    wanted = schema_version.newest_version()
    differences = []
    if current in {None, wanted} and not damage:
        # Without a revision the file may be missing. Then this check raises the error about it.
        differences = schema_version.find_differences(url)
    if as_json:
        print_json(
            {
                "place": database,
                "schema": current,
                "wanted": wanted,
                "is_as_expected": current == wanted and not differences and not damage,
                "differences": differences if current else [],
                "damage": damage,
            }
        )
    if damage:
        raise DatabaseError(
            f"the database file is damaged: {'; '.join(damage)}: {advice}",
            kind=DatabaseErrorKind.DAMAGED,
        )
    if current != wanted:
        raise SchemaError(
            f"{database}: the schema is {current or 'empty'}, but this version needs {wanted}: "
            f"{schema_version.advise_on_version(current)}"
        )
    if differences:
        raise SchemaError(
            f"{database}: the tables differ from what this version expects: "
            f"{'; '.join(differences)}: undo these changes, or restore a backup"
        )
    # All reads succeed on a full disk, but rankwatch must write too.
    can_write = _probe_write(url)
    if as_json:
        return
    print_line(f"schema {current}: as expected")
    if file_damage is not None:
        print_line("file: undamaged")
    else:
        print_line(database)
    if not can_write:
        print_line("writing: not checked, because this user of the database may only read")


def _probe_write(url: str) -> bool:
    """Return whether this user of the database may write. Raises DatabaseError if a write fails."""
    from monitor.storage import opened_store

    with opened_store(url) as store:
        try:
            store.maintenance.probe_write()
        except DatabaseError as error:
            if error.kind is not DatabaseErrorKind.DENIED:
                raise
            return False
    return True


@db_commands.command("size", cls=Command)
def show_size(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Show the size of the database by kind of data.

    The table also shows by how much one run increases the size.
    """
    with opened_database(config) as (store, _):
        size = store.maintenance.measure()
    if as_json:
        kinds = [
            attributes_of(kind, "kind", "used_bytes", "oldest", "bytes_per_run")
            for kind in size.kinds
        ]
        print_json(attributes_of(size, "used_bytes", "free_bytes") | {"kinds": kinds})
        return
    print_table(("kind", "size>", "oldest", "a run>"), map(_size_row, size.kinds))
    total = f"\n{_bytes(size.used_bytes)} used"
    if size.free_bytes:
        total += f", and {_bytes(size.free_bytes)} free inside the file"
    print_line(total)


@db_commands.command("prune", cls=Command)
def prune_database(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Delete expired data now.

    The daemon deletes expired data every hour. You can use this command while a daemon is running.
    """
    from monitor.model.instants import utc_now
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    now = utc_now()
    cutoffs = settings.retention.cutoffs(now)
    with opened_store(settings.database) as store, progress_bar() as shown:
        shown.add_task("deleting", total=None)
        pruned = store.maintenance.prune(cutoffs, now=now)
    if as_json:
        print_json(pruned)
    else:
        _print_pruned(pruned)


def _print_pruned(pruned: Pruned) -> None:
    """Print the number of deleted rows by table, and why other rows were not deleted."""
    if pruned.deleted_rows:
        rows = [(table, f"{number:,}") for table, number in sorted(pruned.deleted_rows.items())]
        print_table(("table", "rows>"), rows, title="deleted:")
    elif pruned.reason:
        print_line(f"nothing deleted: {pruned.reason}")
    else:
        print_line("nothing deleted")
    for reason in pruned.put_off:
        print_line(f"some data are deleted later: {reason}")


def _size_row(size: KindSize) -> tuple[str, ...]:
    oldest = "-"
    run = "-"
    if size.oldest is not None:
        oldest = size.oldest.strftime("%Y-%m-%d %H:%M")
    if size.bytes_per_run is not None:
        run = _bytes(size.bytes_per_run)
    return size.kind.value, _bytes(size.used_bytes), oldest, run


def _bytes(count: float) -> str:
    from rich.filesize import decimal

    return decimal(round(count))  # a kB has 1000 bytes, as in settings
