"""The real command line in a process of its own that begins in a moment, its output in files."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from forking import context


def run(arguments: Sequence[str], environ: Mapping[str, str], output: str) -> None:
    """The body of such a process: output and errors go to one file, those of the interpreter and its libraries too."""
    opened = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(opened, 1)
    os.dup2(opened, 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.update(environ)
    sys.argv = ["rankwatch", *arguments]
    from monitor.cli.main import main  # noqa: PLC0415 - what it prints to is in place now

    main()


@contextmanager
def command(arguments: Sequence[str], environ: Mapping[str, str], output: Path) -> Iterator[BaseProcess]:
    """A command that runs; killed at the end if it still does."""
    process = context().Process(target=run, args=(list(arguments), dict(environ), str(output)), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(10)
