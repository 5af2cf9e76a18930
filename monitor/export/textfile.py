"""The file that node_exporter's textfile collector reads."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from monitor.errors import ConfigError

_MODE = 0o644
"""node_exporter runs under a user of its own."""


def require_textfile(path: Path) -> Path:
    """The path, if a file can be written there; ConfigError for a name that node_exporter passes over, or no such place."""
    if path.suffix != ".prom":
        msg = f"{path} is no textfile for node_exporter, which reads files whose names end in .prom: give it that ending"
        raise ConfigError(msg)
    folder = path.absolute().parent
    if not folder.is_dir():
        msg = f"{path}: there is no directory {folder}: make it, or name node_exporter's --collector.textfile.directory"
        raise ConfigError(msg)
    if len(os.fsencode(path.name)) > (longest := os.pathconf(folder, "PC_NAME_MAX")):
        msg = f"{path}: its name is longer than the {longest} bytes that names may have there"
        raise ConfigError(msg)
    if path.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        msg = f"{path} cannot be written: it must be a file in a directory that this user may write to"
        raise ConfigError(msg)
    return path


def write_textfile(path: Path, page: bytes) -> None:
    """Put the page in the file's place at once, so that nobody reads half of one. OSError, with the path, leaves the old."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.absolute().parent, prefix=".rankwatch.", delete=False) as draft:
            _replace(path, draft, page)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, draft: IO[bytes], page: bytes) -> None:
    """The draft's name does not end in .prom: nobody reads it."""
    try:
        draft.write(page)
        draft.flush()
        os.fchmod(draft.fileno(), _MODE)
        Path(draft.name).replace(path)
    except BaseException:
        Path(draft.name).unlink(missing_ok=True)
        raise
