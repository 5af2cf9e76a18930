"""Documentation that lags behind the code fails here."""

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from typer.main import get_command

import monitor
from monitor import errors
from monitor.cli import exits
from monitor.cli.main import EPILOG, app
from monitor.export import OF_DAEMONS, PREFIX
from monitor.export import reference as series_reference
from monitor.settings.reference import reference as settings_reference
from servers import require

ROOT = Path(__file__).resolve().parents[1]
README, DEPLOYING, STABILITY = ((ROOT / name).read_text() for name in ("README.md", "deploy/README.md", "deploy/STABILITY.md"))


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and subcommand with its names, the root without any."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


COMMANDS = dict(commands(get_command(app)))


def row_of(command: str) -> str:
    """Its line in the README's table."""
    return next((line for line in README.splitlines() if re.match(rf"\| `rankwatch {re.escape(command)}[ `]", line)), "")


def section(text: str, title: str) -> str:
    """What stands below that heading."""
    _, found, rest = text.partition(f"\n## {title}\n")
    assert found, title
    return rest.partition("\n## ")[0]


def test_readme_holds_every_series_as_the_code_tells_it() -> None:
    begin, end = README.index("compared by a test -->"), README.index("<!-- end of series -->")
    assert README[begin:end].partition("\n")[2].strip() == series_reference().strip()


def test_the_configuration_reference_is_what_the_options_say() -> None:
    assert settings_reference().strip() in (ROOT / "config" / "README.md").read_text()


@pytest.mark.parametrize("path", [path for path in COMMANDS if path], ids=" ".join)
def test_readme_s_table_names_every_command_and_subcommand(path: tuple[str, ...]) -> None:
    group, *inner = path
    whole = row_of(" ".join(path))
    assert whole or all(re.search(rf"`{name}\b", row_of(group)) for name in inner)
    assert row_of(group) or row_of(" ".join(path)) or any(row_of(" ".join(each)) for each in COMMANDS if each[:1] == (group,))


def test_readme_s_table_names_no_command_that_is_none() -> None:
    named = re.findall(r"(?m)^\| `rankwatch ([a-z -]+?)`", README)
    assert [each for each in named if tuple(each.split()) not in COMMANDS] == []


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "rankwatch")
def test_every_command_and_each_of_its_options_has_help(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    assert [one.name for one in command.params if not getattr(one, "help", None)] == []


def test_no_option_is_written_about_that_is_none() -> None:
    known = {name for command in COMMANDS.values() for one in command.params for name in one.opts} | {"--help"}
    for line in (README + DEPLOYING).splitlines():
        for text in re.findall(r"`[^`]*\brankwatch [^`]*`", line) + ([line] if line.startswith("| `rankwatch ") else []):
            assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) <= known, text
