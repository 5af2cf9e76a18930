"""Reads a small file whole, so that nothing about it can hold anybody up.

Replaces one of any size. Knows no setting.
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
from pathlib import Path
from typing import IO

PIPE_S = 5.0
"""How long all of what comes through a pipe may take, in seconds."""

_PIECE = 1 << 16
_NO_FILE = "it is no file"


def read_bounded(
    path: str | os.PathLike[str], most: int, *, may_be_pipe: bool = False, pipe_s: float = PIPE_S
) -> bytes:
    """Content of a regular file of at most ``most`` bytes.

    Of a pipe too where that may be, within ``pipe_s`` seconds.

    OSError, whose ``strerror`` is the reason in words: FileNotFoundError, EFBIG when there is more,
    and for directories, devices and sockets, of which nothing is waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except ValueError:  # "\0" and halves of characters
        raise OSError(errno.EINVAL, "no file can have that name") from None
    except OSError as error:
        is_socket = error.errno == errno.ENXIO
        raise OSError(
            error.errno, _NO_FILE if is_socket else error.strerror or "input/output error"
        ) from None
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISREG(kind):
            return _read(most, lambda size: os.read(number, size))
        if may_be_pipe and stat.S_ISFIFO(kind):
            return _read_pipe(number, most, time.monotonic() + pipe_s)
        raise OSError(errno.EINVAL, _NO_FILE)
    finally:
        os.close(number)


def _read_pipe(number: int, most: int, until: float) -> bytes:
    with selectors.DefaultSelector() as selector:
        selector.register(number, selectors.EVENT_READ)

        def read(size: int) -> bytes:
            while (left := until - time.monotonic()) > 0 and selector.select(left):
                with suppress(BlockingIOError):  # somebody else has read it
                    return os.read(number, size)
            raise OSError(
                errno.ETIMEDOUT, "it is a pipe, and whoever writes to it does not come to an end"
            )

        return _read(most, read)


def _read(most: int, read: Callable[[int], bytes]) -> bytes:
    content = bytearray()
    while piece := read(min(_PIECE, most + 1 - len(content))):
        content += piece
        if len(content) > most:
            raise OSError(errno.EFBIG, f"it holds more than {most} bytes")
    return bytes(content)


def describe_exposure(path: str | os.PathLike[str], told: str, remedy: str) -> str | None:
    """What to say where every account of this machine may read the file: ``told`` is what that means; None where none may."""
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - takes text too
    except OSError:
        return None
    if not mode & stat.S_IROTH:
        return None
    return (
        f"{os.fspath(path)} has mode {mode:04o}, so every account of this machine {told}: {remedy}"
    )


def replace_file(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Replace the file by this content at once, or make it, see `replacing`.

    OSError names the path as it was given.
    """
    try:
        with replacing(path, mode=mode) as file:
            file.write(content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextmanager
def replacing(
    path: Path, *, mode: int | None = None, is_lasting: bool = False
) -> Iterator[IO[bytes]]:
    """What is written becomes the file when the block ends: a reader finds all of the old one or all of the new.

    ``mode``: permissions; None for those it has. ``is_lasting``: it outlives a power cut. A symbolic link is itself replaced.
    OSError; any exception leaves the old file alone, and what a killed process left beside it goes the next time.
    """
    found = _mode_at(path)
    kept = found if mode is None else mode
    number, draft = _begin_draft(path.absolute())
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - an open file
            if kept is not None:
                os.fchmod(number, kept)  # before there is anything to read
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
    """OSError, which names the path as it was given, where `replace_file` could not write now.

    Nothing is changed.
    """
    try:
        _mode_at(path)
        number, draft = _begin_draft(path.absolute())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    draft.unlink()
    os.close(number)


def _begin_draft(path: Path) -> tuple[int, Path]:
    """A new file beside the path, open and locked as long as it is open.

    Those of dead processes for this path are deleted.
    """
    start = f".rankwatch.{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}."
    for left in path.parent.glob(f"{start}*"):
        _delete_unless_held(left)
    while True:
        # A name that nobody can guess, made anew: no link that somebody laid there is written
        # through.
        draft = path.with_name(f"{start}{secrets.token_hex(8)}")
        number = os.open(
            draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666
        )
        with suppress(OSError):  # a file system without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        if os.fstat(number).st_nlink:
            return number, draft
        os.close(number)  # somebody took it for one that was left, before it was locked


def _delete_unless_held(draft: Path) -> None:
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
    """Permissions of the file there, None for none that counts.

    OSError for what must not be replaced, such as a pipe.
    """
    try:
        found = path.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(found) or stat.S_ISLNK(found)):
        raise OSError(errno.EINVAL, f"{_NO_FILE} but a pipe, socket or device: name a file")
    return stat.S_IMODE(found) if stat.S_ISREG(found) else None
