"""Commands of rankwatch in this process and its current folder: what they print, and how they end."""

import atexit
import gc
import io
import os
import shlex
import signal
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from forking import Done
from json_keys import read_listed
from monitor.cli.main import app, main
from tables import rows


def _ignore(*_):
    pass


def rankwatch(command, *, env=None, out=None):
    """Run the command line. ``out`` is a descriptor that takes the output instead; it is closed."""
    codes = []
    binary = io.BytesIO() if out is None else io.BufferedWriter(io.FileIO(out, "w"))
    shown = io.TextIOWrapper(binary, encoding=(env or {}).get("PYTHONIOENCODING", "utf-8"))
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with ExitStack() as stack:
        for replaced in (
            patch.dict(os.environ, env or {}),
            patch.object(sys, "argv", ["rankwatch", *shlex.split(command)]),
            patch.object(os, "_exit", codes.append),
            patch.object(atexit, "_run_exitfuncs", _ignore),
            patch.object(gc, "set_threshold", _ignore),
            patch.object(
                signal, "signal", _ignore
            ),  # at its end the command line ignores interrupts, and this process goes on
            redirect_stdout(shown),
            redirect_stderr(said),
        ):
            stack.enter_context(replaced)
        main()
    if out is not None:
        _drop_what_was_not_written(out)
        shown.close()
    stdout = binary.getvalue().decode() if isinstance(binary, io.BytesIO) else ""
    said.seek(0)
    return Done(command, int(codes[0]), stdout, said.read())


def _drop_what_was_not_written(descriptor):
    """A buffer that could not be written is written again when it is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def find_command(words):
    """The command that the words begin with, and the words after it."""
    command: Any = get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.get_command(None, words[0]), words[1:]
    return command, words


def objects(done):
    """The lines of a command that ended well, each a JSON object."""
    assert done.returncode == 0, done.stderr
    return [read_listed(line) for line in done.stdout.splitlines()]


def read_json(command):
    """The objects that this command prints for machines."""
    return objects(rankwatch(f"{command} --json"))


def of_all(printed):
    """The summaries of all users, by metric."""
    return {each["metric"]: each for each in printed["summaries"] if each["segment"] == "all"}


def one_line(done):
    """The error as a person sees it: one line, no traceback, nothing on standard output."""
    lines = done.stderr.splitlines()
    assert (len(lines), done.stdout) == (1, ""), done.stderr
    return lines[0]


def assert_refused(table):
    """Each line of the table is a command, its exit code, and words of its error, which is one line or of usage."""
    for command, code, words in rows(table):
        done = rankwatch(command)
        said = " ".join(done.stderr.split())
        assert (done.returncode, words in said, done.stdout) == (int(code), True, ""), (
            command,
            said,
        )
        assert done.stderr.startswith("Usage: ") or len(done.stderr.splitlines()) == 1, said
