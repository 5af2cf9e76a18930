"""Reads small files without waiting for devices, and replaces files of any size atomically.

This module defines no settings.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import selectors
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO

PIPE_S = 5.0
"""The largest number of seconds to read all data from a pipe."""

_READ_BYTES = 1 << 16
_NO_FILE = "it is not a file"


def read_bounded(
    path: str | os.PathLike[str],
    most: int,
    *,
    may_be_pipe: bool = False,
    pipe_s: float = PIPE_S,
) -> bytes:
    """Return the content of a regular file of at most ``most`` bytes.

    With ``may_be_pipe``, the file may also be a pipe, which is read within ``pipe_s`` seconds.
    Raises OSError with the cause in ``strerror``. A missing file raises FileNotFoundError. The
    errno is EFBIG if the file has more bytes. Directories, devices and sockets raise OSError at
    once.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError:  # the path has "\0" or an unpaired surrogate
        raise OSError(errno.EINVAL, "no file can have that name") from None
    except OSError as error:
        cause = error.strerror or "input/output error"
        if error.errno == errno.ENXIO:  # a socket
            cause = _NO_FILE
        raise OSError(error.errno, cause) from None
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISREG(kind):
            return _read(most, partial(os.read, number))
        if may_be_pipe and stat.S_ISFIFO(kind):
            return _read_pipe(number, most, time.monotonic() + pipe_s)
        raise OSError(errno.EINVAL, _NO_FILE)
    finally:
        os.close(number)


def _read_pipe(number: int, most: int, until: float) -> bytes:
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_READ)

        def read(size: int) -> bytes:
            while (left_s := until - time.monotonic()) > 0 and selector.select(left_s):
                with suppress(BlockingIOError):  # another process has read the data already
                    return os.read(number, size)
            raise OSError(errno.ETIMEDOUT, "it is a pipe, and its writer did not close it in time")

        return _read(most, read)


def _read(most: int, read: Callable[[int], bytes]) -> bytes:
    content = bytearray()
    while piece := read(min(_READ_BYTES, most + 1 - len(content))):
        content += piece
        if len(content) > most:
            raise OSError(errno.EFBIG, f"it is larger than {most} bytes")
    return bytes(content)


def describe_readers(path: str | os.PathLike[str], consequence: str, remedy: str) -> str | None:
    """Return a warning if every account of this machine may read the file. Otherwise None.

    ``consequence`` follows the words "every account of this machine" in the warning.
    """
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - takes text too
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return (
        f"{os.fspath(path)} has mode {mode:04o}, so every account of this machine {consequence}: "
        f"{remedy}"
    )


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file by this content, or create it. See `replacing`.

    OSError names ``path``.
    """
    try:
        with replacing(path, mode=mode) as file:
            file.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def replacing(
    path: Path,
    *,
    mode: int | None = None,
    is_lasting: bool = False,
) -> Iterator[IO[bytes]]:
    """Write a new file that replaces the old file as a whole at the end of the block.

    The file gets the permissions ``mode``, by default those of the old file. With ``is_lasting``
    the file survives a power failure. A symbolic link is replaced, not followed. After an exception
    the old file is unchanged. If a process is killed, the next call deletes the new file that it
    left. Raises OSError.
    """
    old_mode = _mode_at(path)
    if mode is None:
        mode = old_mode
    number, draft = _begin_draft(path.absolute())
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - an open file
            if mode is not None:
                os.fchmod(number, mode)  # the permissions are set before the file has any content
            yield file
            if is_lasting:
                file.flush()
                os.fsync(number)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if is_lasting:
        _flush_folder(draft.parent)


def require_replaceable(path: Path) -> None:
    """Raise OSError, which names ``path``, if `replace_file` could not write. Changes nothing."""
    try:
        _mode_at(path)
        number, draft = _begin_draft(path.absolute())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    draft.unlink()
    os.close(number)


def _begin_draft(path: Path) -> tuple[int, Path]:
    """Create a new locked file in the same folder. Returns its open descriptor and its path.

    Deletes new files that ended processes left for the same path.
    """
    start = f".rankwatch.{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}."
    for leftover in path.parent.glob(f"{start}*"):
        _delete_unless_locked(leftover)
    while True:
        # The name is unpredictable, so that no other account can place a link there.
        draft = path.with_name(f"{start}{secrets.token_hex(8)}")
        number = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
        )
        with suppress(OSError):  # a file system without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        if os.fstat(number).st_nlink:
            return number, draft
        os.close(number)  # another process deleted the file as a leftover before it was locked


def _delete_unless_locked(draft: Path) -> None:
    with suppress(OSError):
        number = os.open(draft, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            draft.unlink()
        finally:
            os.close(number)


def _flush_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _mode_at(path: Path) -> int | None:
    """The permissions of the file at the path. None if there is no file or only a symbolic link.

    Raises OSError if the path must not be replaced, for example a pipe.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(mode):
        return None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device: name a file")
    return stat.S_IMODE(mode)
