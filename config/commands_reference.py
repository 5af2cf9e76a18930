"""The reference of commands, made from their help. `make generated` writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from monitor.cli.command_classes import help_of, option_names
from monitor.cli.main import COMMANDS, app

# Pages that explain a command.
_PAGES = {
    "backtest": "[Choose a metric, k and a threshold](../how-to/choose.md)",
    "compare": "[Compare two files in ten minutes](../tutorials/two-files.md)",
    "gate": "[Decisions that stay valid however often you look](../explanation/gate.md)",
    "replay": "[Run a slot again](../how-to/again.md#slots-that-are-run-again)",
    "run-once": "[Run from cron, Airflow or a pipeline](../how-to/one-run.md#without-a-daemon)",
    "serve": "[Install under systemd](../how-to/systemd.md)",
    "suggest": "[Choose a metric, k and a threshold](../how-to/choose.md)",
}


# An option outside of code. In prose a browser would show its two hyphens as a dash.
_OPTION = re.compile(r"(?<![\w`/-])--[a-z][a-z-]*")
_EXAMPLE = re.compile(r"^Example: (rankwatch .*)$")


def commands_reference() -> str:
    """Return a table of all commands, and a section for each command with all its options."""
    root: Any = get_command(app)
    lines = ["| command | what it does |", "|---|---|"]
    sections: list[str] = []
    for group, names in COMMANDS.items():
        sections += [f"## {group}", ""]
        for name in names:
            for path, command in _leaves(root.get_command(None, name), name):
                lines.append(f"| `rankwatch {path}` | {_cell(command.get_short_help_str(200))} |")
                sections += _section(path, command)
    return "\n".join([*lines, "", *sections])


def _leaves(command: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - typer's own click
    """Yield each command below this one, with its names."""
    if not isinstance(command, TyperGroup):
        yield path, command
        return
    for name, inner in command.commands.items():
        yield from _leaves(inner, f"{path} {name}")


def _section(path: str, command: Any) -> Iterator[str]:  # noqa: ANN401 - likewise
    yield from (f"### rankwatch {path}", "")
    pieces = " ".join(command.collect_usage_pieces(command.context_class(command)))
    yield from ("```text", f"rankwatch {path} {pieces}", "```", "")
    yield from (_prose(str(command.help)), "")
    if path in _PAGES:
        yield from (f'For details, see "{_PAGES[path]}".', "")
    rows = []
    for param in command.params:
        name = param.metavar if param.param_type_name == "argument" else option_names(param)
        rows.append(f"| `{name}` | {_cell(help_of(param))} |")
    if rows:
        yield from ("| argument or option | meaning |", "|---|---|", *rows, "")


def _prose(text: str) -> str:
    """Join the lines of each paragraph."""
    paragraphs = text.replace("<", "&lt;").split("\n\n")
    return "\n\n".join(_as_code(" ".join(paragraph.split())) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return _as_code(" ".join(text.split()).replace("|", "\\|").replace("<", "&lt;"))


def _as_code(line: str) -> str:
    """Mark a command or the options in this line as code."""
    example = _EXAMPLE.match(line)
    if example is not None:
        return f"Example: `{example[1]}`"
    parts = line.split("`")
    parts[::2] = [_OPTION.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)
