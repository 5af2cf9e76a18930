"""Processes of rankwatch that begin in a moment: forked from one that has loaded the program and started nothing."""

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

PRELOADED = ["killing.steps", "monitor.cli.main", "monitor.service.daemon.daemon", "monitor.service.gate", "monitor.frames"]

Done = subprocess.CompletedProcess[str]


@cache
def context() -> ForkServerContext:
    """The processes' parent, one for all tests of this process."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
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


def rankwatch(*args: str, cwd: Path, env: Mapping[str, str] | None = None, timeout_s: float = 60.0) -> Done:
    """What ``python -m monitor`` with these arguments prints, and its exit code."""
    with tempfile.TemporaryDirectory() as aside:
        out, err = Path(aside, "out"), Path(aside, "err")
        environment = {**os.environ, **(env or {})}
        process = context().Process(target=_command, args=(args, str(cwd), environment, str(out), str(err)))
        process.start()
        process.join(timeout_s)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(args, timeout_s)
        return Done(args, process.exitcode or 0, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _command(args: Sequence[str], cwd: str, environment: Mapping[str, str], out: str, err: str) -> None:
    """Become the command: its folder, environment, output and arguments."""
    from monitor.cli.main import main  # noqa: PLC0415 - loaded already where this runs

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        with open(path, "wb") as file:  # noqa: PTH123 - for its descriptor
            os.dup2(file.fileno(), number)
    sys.argv = ["rankwatch", *args]
    main()
