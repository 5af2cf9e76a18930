"""Classes for typer's commands. They write the help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

_METAVARS = {int: "N", float: "NUMBER", Path: "FILE", Path | None: "FILE"}
_METAVARS |= {int | None: "N", float | None: "NUMBER"}

# Click's classes have no types here, because typer uses a private copy of click.
_Context = Any


class Command(TyperCommand):
    """A command whose help has plain words for the types of options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - as in typer
        super().__init__(*args, **kwargs)
        _set_metavars(self.params)

    def collect_usage_pieces(self, ctx: _Context) -> list[str]:
        """Return the parts of the usage line, such as ``[OPTIONS] BASELINE [CANDIDATE]``."""
        pieces = ["[OPTIONS]"]
        for param in self.get_params(ctx):
            if param.param_type_name == "argument":
                name = str(param.metavar)
                pieces.append(name if param.required else f"[{name}]")
        return pieces

    def format_options(self, ctx: _Context, formatter: Any) -> None:  # noqa: ANN401 - likewise
        """Write a table of arguments and a table of options."""
        _write_params(self.get_params(ctx), formatter)


class CommandGroup(TyperGroup):
    """A group of commands. Its help lists the commands by their purpose."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - likewise
        super().__init__(*args, **kwargs)
        _set_metavars(self.params)

    def collect_usage_pieces(self, ctx: _Context) -> list[str]:  # noqa: ARG002 - as in typer
        """Return the parts of the usage line."""
        return ["[OPTIONS]", "COMMAND"]

    def format_options(self, ctx: _Context, formatter: Any) -> None:  # noqa: ANN401 - likewise
        """Write the commands and then the options, because people look for commands first."""
        self.format_commands(ctx, formatter)
        _write_params(self.get_params(ctx), formatter)

    def format_commands(self, ctx: _Context, formatter: Any) -> None:  # noqa: ANN401 - likewise
        """Write one table for each group of commands."""
        rows_by_group: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, self.commands))
        limit = formatter.width - 6 - width
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            group = "Commands"
            if isinstance(command.rich_help_panel, str):
                group = command.rich_help_panel
            row = (name.ljust(width), command.get_short_help_str(limit))
            rows_by_group.setdefault(group, []).append(row)
        for group, rows in rows_by_group.items():
            with formatter.section(group):
                formatter.write_dl(rows)


class ListingGroup(CommandGroup):
    """A group of commands whose default command is ``ls``."""

    def parse_args(self, ctx: _Context, args: list[str]) -> list[str]:
        """Insert ``ls`` if the first argument is not a command."""
        is_completed = ctx.resilient_parsing and not args
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not is_named and not is_completed:
            args = ["ls", *args]
        return super().parse_args(ctx, args)


def _set_metavars(params: Sequence[Any]) -> None:
    """Set each missing metavar to the usual word for the type, or else to the parameter's name."""
    for param in params:
        if param.metavar is not None:
            continue
        name = param.name.replace("_", "-").upper()
        if param.param_type_name == "argument":
            param.metavar = name
        else:
            param.metavar = _METAVARS.get(param.type_descriptor.annotation, name)


def _write_params(params: Sequence[Any], formatter: Any) -> None:  # noqa: ANN401 - likewise
    """Write the table of arguments and the table of options."""
    arguments = []
    options = []
    for param in params:
        if param.hidden:
            continue
        if param.param_type_name == "argument":
            arguments.append((param.metavar, help_of(param)))
        else:
            options.append((option_names(param), help_of(param)))
    for title, rows in (("Arguments", arguments), ("Options", options)):
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def option_names(param: Any) -> str:  # noqa: ANN401 - likewise
    """Return the names of an option, with the short name first, and its metavar."""
    names = ", ".join(sorted(param.opts, key=len))
    return names if param.is_flag else f"{names} {param.metavar}"


def help_of(param: Any) -> str:  # noqa: ANN401 - likewise
    """Return the help of an option or argument, with its default and environment variable."""
    notes = []
    if param.envvar is not None:
        notes.append(f"env var: {param.envvar}")
    has_default = param.default not in (None, "") and not getattr(param, "is_flag", False)
    if has_default and param.show_default:
        notes.append(f"default: {param.default}")
    if param.required:
        notes.append("required")
    if not notes:
        return str(param.help)
    return f"{param.help} [{'; '.join(notes)}]"
