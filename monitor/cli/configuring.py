"""Commands around the configuration file: `init` and `config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.output import say
from monitor.cli.parameters import DEFAULT_CONFIG
from monitor.errors import ConfigError

app = typer.Typer(help="The configuration file's grammar.", no_args_is_help=True)


def init(
    *,
    path: Annotated[Path, typer.Argument(help="Where to write.")] = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented configuration to start from."""
    from monitor.settings import example_text

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(example_text())
    except FileExistsError:
        msg = f"{path} is there already; --force replaces it"
        raise ConfigError(msg) from None
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}"
        raise ConfigError(msg) from None
    say(f"Wrote {path}. Edit it, then run: rankwatch check --config {path}")


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    from monitor.settings import json_schema

    say(json.dumps(json_schema(), indent=2))
