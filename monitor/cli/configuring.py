"""Commands around the configuration file: `init` and `config`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.output import say
from monitor.cli.parameters import DEFAULT_CONFIG, Config
from monitor.errors import ConfigError

app = typer.Typer(help="The configuration file's grammar.", no_args_is_help=True)


def init(
    *,
    path: Annotated[Path | None, typer.Argument(help="Where to write; default as --config.")] = None,
    config: Config = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented configuration to start from."""
    from monitor.settings import example_text

    target = path or config
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(example_text())
    except FileExistsError:
        msg = f"{target} is there already; --force replaces it"
        raise ConfigError(msg) from None
    except OSError as error:
        msg = f"cannot write {target}: {error.strerror}"
        raise ConfigError(msg) from None
    say(f"Wrote {target}. Edit it, then run: rankwatch check --config {target}")


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    from monitor.settings import json_schema

    say(json.dumps(json_schema(), indent=2))
