"""Commands around the database's schema: `db`."""

from __future__ import annotations

from typing import Annotated

import typer

from monitor.cli.output import say
from monitor.cli.parameters import DEFAULT_CONFIG, Config
from monitor.errors import SchemaError

app = typer.Typer(help="The database's schema.", no_args_is_help=True)


@app.command()
def upgrade(
    config: Config = DEFAULT_CONFIG,
    revision: Annotated[str, typer.Argument(help="Revision to go up to.")] = "head",
) -> None:
    """Create the tables, or bring them up to this version."""
    from monitor.settings import load
    from monitor.storage import schema

    url = load(config).database.get_secret_value()
    before = schema.current(url)
    schema.upgrade(url, revision)
    after = schema.current(url)
    say(f"schema {after}: was there already" if before == after else f"schema {before or 'none'} -> {after}")


@app.command()
def downgrade(
    revision: Annotated[str, typer.Argument(help="Revision to go down to; `base` drops every table and all data.")],
    config: Config = DEFAULT_CONFIG,
) -> None:
    """Take the schema back to an earlier revision."""
    from monitor.settings import load
    from monitor.storage import schema

    url = load(config).database.get_secret_value()
    schema.downgrade(url, revision)
    say(f"schema {schema.current(url) or 'none'}")


@app.command()
def current(config: Config = DEFAULT_CONFIG) -> None:
    """Print the schema's revision and the one this version wants."""
    from monitor.settings import load
    from monitor.storage import schema

    say(f"{schema.current(load(config).database.get_secret_value()) or 'none'} (this version wants {schema.head()})")


@app.command()
def check(config: Config = DEFAULT_CONFIG) -> None:
    """Exit 0 when the tables are exactly what this version expects, 4 with the differences otherwise."""
    from monitor.settings import load
    from monitor.storage import schema

    url = load(config).database.get_secret_value()
    found = schema.current(url)
    if found != schema.head():
        msg = f"the schema is {found or 'empty'}, this version wants {schema.head()}: run rankwatch db upgrade"
        raise SchemaError(msg)
    if differences := schema.check(url):
        msg = "the tables differ from what this version expects: " + "; ".join(differences)
        raise SchemaError(msg)
    say(f"schema {found}: as expected")
