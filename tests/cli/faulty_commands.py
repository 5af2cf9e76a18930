"""Commands that meet an error which nobody expected, while a thread of a source still runs."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import typer.main

from forking import Done, ended, run_command, start
from monitor.cli.main import app
from monitor.deadline import BackgroundCall
from monitor.service.daemon.daemon import Daemon

NEEDLE = "ann@example.com"
"""Data in the text of the error."""
ENDS_AS_PYTHON = 99
"""The exit code of a command that leaves its end to Python, which the thread would abort."""


def _leaves(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from _leaves(inner, *path, name)
        else:
            yield (*path, name), inner


COMMANDS = dict(_leaves(typer.main.get_command(app)))
"""Every command by its words."""


def fail(*_: object, **__: object) -> None:
    """Raise KeyError while DuckDB works in a thread: a process that ends as Python does is aborted then."""
    begun = Event()

    def go_on() -> int:
        begun.set()
        while True:
            time.sleep(0.001)

    def query() -> None:
        with duckdb.connect() as database:
            database.create_function("go_on", go_on, [], int)
            database.execute("SELECT go_on()")

    BackgroundCall(query, name="query")
    assert begun.wait(60)
    raise KeyError(NEEDLE)


def fail_inside(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    """Run this command, which fails at once."""
    COMMANDS[words].params, COMMANDS[words].callback = [], fail
    _run(words, folder, environment)


def fail_after_start(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    """Run the daemon, which fails once its threads run."""
    start_daemon = Daemon.start

    def start_and_fail(self: Daemon) -> None:
        start_daemon(self)
        fail()

    Daemon.start = start_and_fail  # type: ignore[method-assign]
    _run(words, folder, environment)


def _run(words: tuple[str, ...], folder: Path, environment: dict[str, str]) -> None:
    try:
        run_command(words, str(folder), environment, str(folder / "out"), str(folder / "err"))
    finally:
        os._exit(ENDS_AS_PYTHON)


def done(target: Any, words: tuple[str, ...], folder: Path, **environment: str) -> Done:
    """What the command printed in a process of its own, and its exit code."""
    process = start(target, words, folder, environment)
    code = ended(process, 60)
    process.kill()
    assert code is not None, "it still runs"
    return Done(words, code, (folder / "out").read_text(), (folder / "err").read_text())
