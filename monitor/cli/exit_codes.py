"""Exit codes of the commands, and the line for output that could not be written.

Three codes of `gate` are verdicts, and no error of it ends with one of them: 0 safe, 1 breach, 2 inconclusive; 64 wrong usage,
configuration or input, 70 internal failure, 74 output that could not be written, 3 a source, 4 database, 130 interrupted. The
middle ones are those of sysexits.h.
"""

from __future__ import annotations

import contextlib

import typer

UNHEALTHY_EXIT = 1
SOURCE_EXIT = 3
DELIVERY_EXIT = 5
OUTPUT_EXIT = 74
INTERRUPTED_EXIT, TERMINATED_EXIT = 130, 143  # as a shell has them
VERDICT_EXITS = {"safe": 0, "breach": 1, "inconclusive": 2}
USAGE_EXIT = 64  # of `gate`, as the next one
INTERNAL_EXIT = 70


def report_unwritten(error: OSError) -> None:
    """Print what could not be written, unless whoever read the output has gone, as ``head`` does."""
    if isinstance(error, BrokenPipeError) and error.filename is None:
        return
    with contextlib.suppress(OSError):
        typer.echo(f"rankwatch: {error.filename or 'output'}: {error.strerror or error}", err=True)
