"""Processes of rankwatch that begin in a moment: forked from one that has loaded the program and started nothing."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path

Done = subprocess.CompletedProcess[str]

NOBODY = Path("a pipe whose reader has gone")
"""As a file for output."""


@cache
def context() -> ForkServerContext:
    """The processes' parent, one for all tests of this process."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(["preloaded", "killing.steps", "pipeline.outbox_process"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # it does not get ours otherwise
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return forking


def rankwatch(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, out: Path | None = None, timeout_s: float = 60.0
) -> Done:
    """What ``python -m monitor`` with these arguments prints, and its exit code; ``out`` takes its output instead."""
    with tempfile.TemporaryDirectory() as aside:
        printed, err = Path(aside, "out"), Path(aside, "err")
        process = started(args, cwd=cwd, env=env, out=out or printed, err=err)
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(args, timeout_s)
        shown = printed.read_text(encoding="utf-8") if out is None else ""
        return Done(args, process.exitcode or 0, shown, err.read_text(encoding="utf-8"))


@contextmanager
def running(args: Sequence[str], *, cwd: Path, out: Path, env: Mapping[str, str] | None = None) -> Iterator[BaseProcess]:
    """A command that writes all it says to one file, killed at the end if it still runs."""
    process = started(args, cwd=cwd, env=env, out=out, err=out)
    try:
        yield process
    finally:
        process.kill()
        process.join(10)


def started(args: Sequence[str], *, cwd: Path, out: Path, err: Path, env: Mapping[str, str] | None = None) -> BaseProcess:
    """A command that runs; its output is appended to these files."""
    environment = {**os.environ, **(env or {})}
    process = context().Process(target=_command, args=(list(args), str(cwd), environment, str(out), str(err)), daemon=True)
    process.start()
    return process


def _command(args: Sequence[str], cwd: str, environment: Mapping[str, str], out: str, err: str) -> None:
    """Become the command: its folder, environment, output and arguments."""
    from monitor.cli.main import main  # noqa: PLC0415 - loaded already where this runs

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        opened = _unread() if path == str(NOBODY) else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdout = os.fdopen(1, "w", encoding=os.environ.get("PYTHONIOENCODING", "utf-8"), closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    sys.argv = ["rankwatch", *args]
    main()


def _unread() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing
