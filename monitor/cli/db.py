"""Commands around the database: `db`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import pick, print_error, print_json, print_line, print_table, progress
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, opened_database
from monitor.errors import DatabaseError, DatabaseTrouble, SchemaError

if TYPE_CHECKING:
    from monitor.model.retention import KindSize, Pruned

app = typer.Typer(
    help="The database: its schema, its size, and what is old in it.", no_args_is_help=True
)


def _require_revision(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter(
            "a revision is a number such as 0007, a step such as -1, or head or base"
        )
    return text


@app.command("upgrade")
def upgrade_schema(
    config: Config = DEFAULT_CONFIG,
    revision: Annotated[
        str, typer.Argument(help="Revision to go up to.", callback=_require_revision)
    ] = "head",
    *,
    as_json: AsJson = False,
) -> None:
    """Create the tables, or bring them up to this version.

    Warns where a daemon works with them meanwhile.
    """
    from monitor.settings.excerpt import load_database_settings
    from monitor.storage import schema_version

    url = load_database_settings(config).database.get_secret_value()
    before = schema_version.current(url)
    user = schema_version.user_of(url)
    schema_version.upgrade(url, revision)
    after = schema_version.current(url)
    if user and before != after:
        print_error(f"beside {user}: an older version must be replaced by this one now")
    if as_json:
        print_json({"before": before, "after": after})
    else:
        print_line(
            f"schema {after}: was there already"
            if before == after
            else f"schema {before or 'none'} -> {after}"
        )


@app.command("downgrade")
def downgrade_schema(
    revision: Annotated[
        str,
        typer.Argument(
            help="Revision to go down to; `base` drops every table and all data.",
            callback=_require_revision,
        ),
    ],
    config: Config = DEFAULT_CONFIG,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Also while somebody works with the database.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take the schema back to an earlier revision.

    What only newer versions store is lost: back the database up. Refused while a daemon works with
    it, or on PostgreSQL a run is under way."""
    from monitor.settings.excerpt import load_database_settings
    from monitor.storage import schema_version

    url = load_database_settings(config).database.get_secret_value()
    before = schema_version.current(url)
    if not force and (user := schema_version.user_of(url)):
        raise DatabaseError(
            f"the database is being worked with, by {user}: stop it first, or give --force"
        )
    schema_version.downgrade(url, revision)
    after = schema_version.current(url)
    if as_json:
        print_json({"before": before, "after": after})
    else:
        print_line(f"schema {after or 'none'}")


@app.command("current")
def show_schema(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Print the schema's revision and the one this version wants."""
    from monitor.settings.excerpt import load_database_settings
    from monitor.storage import schema_version

    found = schema_version.current(load_database_settings(config).database.get_secret_value())
    if as_json:
        print_json({"schema": found, "wanted": schema_version.head()})
    else:
        advice = "" if found == schema_version.head() else f": {schema_version.advise(found)}"
        print_line(f"{found or 'none'} (this version wants {schema_version.head()}){advice}")


@app.command("check")
def check_schema(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Check that a SQLite file is sound, and the tables are what this version expects.

    Every page of the file is read, some ten seconds a gigabyte. Exit 0 when all is so, 4 with the
    damage or the differences otherwise."""
    from monitor.settings.excerpt import load_database_settings
    from monitor.storage import schema_version

    url = load_database_settings(config).database.get_secret_value()
    examined = schema_version.damage_in(url)  # first, as it says most of what is wrong
    damage, advice = examined or ([], "")
    found = schema_version.current(url)
    wanted = schema_version.head()
    # Without a version, too: the check raises where the file is missing.
    differences = schema_version.check(url) if found in {None, wanted} and not damage else []
    if as_json:
        is_right = found == wanted and not differences and not damage
        shown = {
            "schema": found,
            "wanted": wanted,
            "as_expected": is_right,
            "differences": differences if found else [],
        }
        print_json(shown | {"damage": damage})
    if damage:
        raise DatabaseError(
            f"the database file is damaged: {'; '.join(damage)}: {advice}",
            trouble=DatabaseTrouble.DAMAGED,
        )
    if found != wanted:
        raise SchemaError(
            (
                f"the schema is {found or 'empty'}, this version wants {wanted}: "
                f"{schema_version.advise(found)}"
            )
        )
    if differences:
        raise SchemaError(
            "the tables differ from what this version expects: " + "; ".join(differences)
        )
    if not as_json:
        print_line(f"schema {found}: as expected")
    if examined and not as_json:
        print_line("file: sound")


@app.command("size")
def show_size(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Show what the database takes, by kind of data, and what a run adds."""
    with opened_database(config) as (store, _):
        found = store.maintenance.measure()
    if as_json:
        kinds = [
            pick(each, "kind", "used_bytes", "oldest", "bytes_per_run") for each in found.kinds
        ]
        print_json(pick(found, "used_bytes", "free_bytes") | {"kinds": kinds})
    else:
        print_table(
            ("kind", "size>", "oldest", "a run>"), [_size_row(each) for each in found.kinds]
        )
        free = f", and {_bytes(found.free_bytes)} free inside the file" if found.free_bytes else ""
        print_line(f"\n{_bytes(found.used_bytes)} used{free}")


@app.command("prune")
def prune_database(config: Config = DEFAULT_CONFIG, *, as_json: AsJson = False) -> None:
    """Delete now what `retention` lets go.

    As the daemon does every hour; safe beside a daemon.
    """
    from monitor.model.instants import utc_now
    from monitor.settings.loader import load_settings
    from monitor.storage import opened_store

    settings = load_settings(config)
    now = utc_now()
    cutoffs = settings.retention.cutoffs(now)
    with opened_store(settings.database) as store, progress() as shown:
        shown.add_task("deleting", total=None)
        found = store.maintenance.prune(cutoffs, now=now)
    if as_json:
        print_json(pick(found, "rows", "by_kind", "put_off", "refused"))
    else:
        _print_pruned(found)


def _print_pruned(found: Pruned) -> None:
    if found.rows:
        rows = [(table, f"{number:,}") for table, number in sorted(found.rows.items())]
        print_table(("table", "rows>"), rows, title="deleted:")
    else:
        print_line(f"nothing deleted: {found.refused}" if found.refused else "nothing deleted")
    for reason in found.put_off:
        print_line(f"put off: {reason}")


def _size_row(each: KindSize) -> tuple[str, ...]:
    oldest = each.oldest.strftime("%Y-%m-%d %H:%M") if each.oldest else "-"
    return (
        each.kind.value,
        _bytes(each.used_bytes),
        oldest,
        "-" if each.bytes_per_run is None else _bytes(each.bytes_per_run),
    )


def _bytes(count: float) -> str:
    from rich.filesize import decimal

    return decimal(round(count))  # in powers of 1000, as sizes in settings are written
