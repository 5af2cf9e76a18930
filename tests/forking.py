"""Processes of rankwatch that begin in a moment: forked from one that has loaded the program and started nothing."""

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from functools import cache
from multiprocessing import connection, forkserver
from pathlib import Path
from unittest.mock import patch

import pytest

from clocks import shift_clock

Done = subprocess.CompletedProcess[str]

# Starting a process also polls all others. An exit code can be read once: of two threads that poll
# at once, one finds nothing.
_polling = threading.Lock()


def run_program(command, **options):
    """What another program says, and its exit code."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@cache
def context():
    """The processes' parent, one for all tests of this process."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(["preloaded", "killing.steps"])
    places = os.pathsep.join(path for path in sys.path if path)
    with patch.dict(os.environ, PYTHONPATH=places):  # it does not get ours otherwise
        forkserver.ensure_running()
    return forking


def rankwatch(*args, cwd, env=None, timeout_s=300):
    """What ``python -m monitor`` with these arguments prints, and its exit code."""
    with tempfile.TemporaryDirectory() as aside:
        out, err = Path(aside, "out"), Path(aside, "err")
        process = started(args, cwd=cwd, env=env, out=out, err=err)
        exit_code = ended(process, timeout_s)
        if exit_code is None:
            process.kill()
            ended(process, None)
            raise subprocess.TimeoutExpired(args, timeout_s)
        return Done(args, exit_code, out.read_text(), err.read_text())


@contextmanager
def running(args, *, cwd, out, env=None, before=None):
    """A command that writes all it says to one file, killed at the end if it still runs.

    The process calls ``before`` first.
    """
    process = started(args, cwd=cwd, env=env, out=out, err=out, before=before)
    try:
        yield process
    finally:
        process.kill()
        ended(process)


def start(target, *args):
    """A process that has loaded the program and runs this function."""
    process = context().Process(target=_begin, args=(target, *args), daemon=True)
    with _polling:
        process.start()
    return process


def _begin(target, *args):
    gc.freeze()  # what the parent has loaded is not gone through again and again
    target(*args)


def ended(process, timeout_s=300.0):
    """The exit code once the process has ended, None if it still runs after this time."""
    connection.wait([process.sentinel], timeout_s)
    with _polling:
        return process.exitcode


def started(args, *, cwd, out, err, env=None, before=None):
    """A command that runs; its output is appended to these files."""
    environment = {**os.environ, **(env or {})}
    return start(run_command, list(args), str(cwd), environment, str(out), str(err), before)


def run_command(args, cwd, environment, out, err, before):
    """Become the command: its folder, environment, output and arguments."""
    from monitor.cli.main import main  # noqa: PLC0415 - loaded already where this runs

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout = os.fdopen(
        1, "w", encoding=os.environ.get("PYTHONIOENCODING", "utf-8"), closefd=False
    )
    sys.stderr = os.fdopen(
        2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    sys.argv = ["rankwatch", *args]
    shift_clock(pytest.MonkeyPatch())
    if before is not None:
        before()
    main()
