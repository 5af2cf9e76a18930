"""How the command `gate` ends: three exit codes are verdicts, and no error ever ends with one of them.

0 safe, 1 breach, 2 inconclusive; 64 wrong usage, configuration or input, 70 internal failure, 74 output that could not be
written, 3 a source, 4 database, 130 interrupted. The middle ones are those of sysexits.h.
"""

from __future__ import annotations

import contextlib
import traceback
from typing import Any

import typer
from typer.core import TyperCommand

from monitor.errors import ConfigError, InputError, MonitorError
from monitor.redaction import escape_controls

VERDICT_EXITS = {"safe": 0, "breach": 1, "inconclusive": 2}
USAGE_EXIT = 64
INTERNAL_EXIT = 70
OUTPUT_EXIT = 74
_CLICK_USAGE = 2
"""What usage errors end with elsewhere."""


class GateCommand(TyperCommand):
    """A command whose errors never end with an exit code that is a verdict."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the signature of the command line's library
        """Wrong options end with 64."""
        try:
            return super().make_context(*args, **kwargs)
        except Exception as error:
            _move_usage(error)
            raise

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - likewise
        """What goes wrong below ends with an exit code of its own, a fault of the program too: Python's own is 1, a breach."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, KeyboardInterrupt):
            raise
        except MonitorError as error:
            typer.echo(f"rankwatch: {escape_controls(str(error))}", err=True)
            raise typer.Exit(_exit_of(error)) from None
        except OSError as error:
            if error.filename is None:
                raise  # the output itself, which the end of the program tells of
            report_unwritten(error)
            raise typer.Exit(OUTPUT_EXIT) from None
        except Exception as error:
            if hasattr(error, "exit_code"):
                _move_usage(error)
                raise
            traceback.print_exc()
            raise typer.Exit(INTERNAL_EXIT) from None


def _move_usage(error: Exception) -> None:
    if getattr(error, "exit_code", None) == _CLICK_USAGE:
        error.exit_code = USAGE_EXIT  # type: ignore[attr-defined] # just seen


def _exit_of(error: MonitorError) -> int:
    if isinstance(error, (ConfigError, InputError)):
        return USAGE_EXIT
    return error.exit_code if error.exit_code not in VERDICT_EXITS.values() else INTERNAL_EXIT


def report_unwritten(error: OSError) -> None:
    """Say what could not be written; nothing of a reader of the output who has gone, as ``head`` does."""
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return
    with contextlib.suppress(OSError):
        typer.echo(f"rankwatch: {error.filename or 'output'}: {error.strerror or error}", err=True)
