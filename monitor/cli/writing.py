"""A text written to a file that a user names, which may be a device, a pipe or a link."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO


def write_whole(path: Path, text: str) -> None:
    """Write the text to a file whole or not at all: a pipeline may pick it up at any moment.

    A link stays, and what it points to is replaced. What is no file, such as a pipe or a device, is written straight into, and
    so is what the output goes to already (``/dev/stdout``). OSError names the path as it was given.
    """
    try:
        if (stream := _stream_of(path)) is not None:
            stream.write(text)
            stream.flush()
        elif path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
        else:
            _replace(path.resolve(), text)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _stream_of(path: Path) -> TextIO | None:
    """The stream of this process that writes to the path, None where none does."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        with suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(number)):
                return stream
    return None


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".rankwatch.{os.getpid()}")  # short: the name itself may be as long as names may be
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
