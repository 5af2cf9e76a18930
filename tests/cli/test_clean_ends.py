"""An unexpected error ends each command with its exit code and one line, shows no data, and aborts nothing."""

import importlib
import os
import re
import sys
import time
from threading import Event
from types import ModuleType
from typing import Any

import duckdb
import pytest
import typer.main
from typer.testing import CliRunner

import monitor.cli
from forking import Done, ended, run_command, start
from monitor.boundary.deadline import BackgroundCall
from monitor.cli.main import app
from monitor.service.daemon.daemon import Daemon
from service.lists_world import write_world

FAULT = re.compile(
    r"rankwatch: internal error: KeyError in \w+\.py, line \d+\. This is a bug in rankwatch: "
    r"please report it\. RANKWATCH_TRACEBACK=1 shows the traceback, but it may contain data\.\n"
)
NEEDLE = "ann@example.com"
"""Data in the text of the error."""
ENDS_AS_PYTHON = 99
"""The exit code of a command that leaves its end to Python, which the thread would abort."""


def fail(*_, **__):
    """Raise KeyError while DuckDB works in a thread: a process that ends as Python does is aborted then."""
    begun = Event()

    def go_on():
        begun.set()
        while True:
            time.sleep(0.001)

    def query():
        with duckdb.connect() as database:
            database.create_function("go_on", go_on, [], int)
            database.execute("SELECT go_on()")

    BackgroundCall(query, name="query")
    assert begun.wait(60)
    raise KeyError(NEEDLE)


def fail_inside(words, folder, environment):
    """Run this command, which fails at once."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.get_command(None, word)
    command.params, command.callback = [], fail
    _run(words, folder, environment)


def fail_after_start(words, folder, environment):
    """Run the daemon, which fails once its threads run."""
    start_daemon = Daemon.start

    def start_and_fail(self):
        start_daemon(self)
        fail()

    Daemon.start = start_and_fail  # type: ignore[method-assign]
    _run(words, folder, environment)


def _run(words, folder, environment):
    try:
        out, err = f"{folder}/out", f"{folder}/err"
        run_command(words, str(folder), environment, out, err, before=None)
    finally:
        os._exit(ENDS_AS_PYTHON)


def done(target, words, folder, **environment):
    """What the command printed in a process of its own, and its exit code."""
    process = start(target, words, folder, environment)
    code = ended(process)
    process.kill()
    assert code is not None, "it still runs"
    return Done(words, code, (folder / "out").read_text(), (folder / "err").read_text())


@pytest.mark.integration  # a process is aborted, or not
@pytest.mark.parametrize("words", [("runs",), ("db", "current"), ("gate",)], ids=" ".join)
def test_a_command_ends_with_one_line_after_an_error_inside_while_a_source_still_works(
    words, tmp_path
):
    found = done(fail_inside, words, tmp_path)
    assert FAULT.fullmatch(found.stderr), found.stderr
    assert (found.returncode, found.stdout) == (70 if words == ("gate",) else 1, "")


@pytest.mark.integration
def test_a_variable_shows_the_traceback(tmp_path):
    found = done(fail_inside, ("metrics",), tmp_path, RANKWATCH_TRACEBACK="1")
    assert FAULT.match(found.stderr)
    assert found.stderr.endswith(f"KeyError: '{NEEDLE}'\n")


@pytest.mark.integration
def test_a_daemon_whose_threads_run_ends_likewise(tmp_path):
    config = write_world(tmp_path, "sqlite:///rankwatch.db")
    found = done(fail_after_start, ("serve", "--config", str(config)), tmp_path)
    *logged, last = found.stderr.splitlines(keepends=True)
    assert FAULT.fullmatch(last)
    assert all(line.startswith("{") for line in logged)
    assert (found.returncode, NEEDLE in found.stderr) == (1, False)


def test_a_run_that_breaks_is_a_failed_run_whose_reason_names_the_place_and_shows_no_data(
    tmp_path, monkeypatch
):
    def broken(*_):
        raise KeyError(NEEDLE)

    config = write_world(tmp_path, "sqlite:///rankwatch.db")
    monkeypatch.setattr("monitor.service.runner.execute", broken)
    found = CliRunner().invoke(app, ["run-once", "--config", str(config)])
    assert found.exit_code == 3
    assert re.search(
        r"internal error: KeyError in runner\.py, line \d+: please report it\n", found.stdout
    )
    assert re.search(r"because of a bug .*: KeyError in runner\.py, line \d+\n$", found.stderr)
    assert NEEDLE not in found.output


def test_an_interrupt_while_the_program_loads_ends_with_its_code(monkeypatch):
    class Interrupted(ModuleType):
        def __getattr__(self, name):
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "monitor.cli.main", Interrupted("monitor.cli.main"))
    with pytest.raises(SystemExit) as end:
        importlib.reload(monitor.cli)
    assert end.value.code == 130
