"""Finds the files of a path: one file, all files that match a pattern, or all files of a folder.

The files are on disk or in object storage.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeVar

import pyarrow.parquet

from monitor.boundary.foreign_errors import file_cause, store_cause
from monitor.boundary.slot_templates import fill_slot
from monitor.boundary.temporary_database import no_temporary_folder
from monitor.model.errors import SourceError
from monitor.sources.file import STORES, FileOptions
from monitor.sources.tables import MissingTableError
from monitor.texts.wording import write_extra

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_MOST_PARTS = 10_000  # the number of files
_PARQUET = b"PAR1"  # a Parquet file begins and ends with these bytes
MAX_LINE_BYTES = 16 << 20  # the largest number of bytes in a line, for JSON lines and logs
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files of one format.

    ``where`` is the path in the options. ``slot`` is the time up to which rows are read. ``store``
    is the file system of fsspec, or None for files on disk. If a file changes, its signature in
    ``signatures`` changes. ``find`` looks for the files again. ``originals`` has the path of the
    file that was copied, by the path of the copy.
    """

    where: str
    paths: tuple[str, ...]
    format: str
    slot: datetime
    store: Any
    signatures: tuple[object, ...]
    find: Callable[[], FileSet]
    originals: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, path: str) -> str:
        """Return the path of one of the files in messages. A copy has the name of its original."""
        return self.originals.get(path, path)

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files to read bytes. The caller closes it."""
        if self.store is None:
            return Path(path).open("rb")
        opened: IO[bytes] = self.store.open(path, "rb")
        return opened

    def read_head(self, path: str, most: int) -> bytes:
        """Return the first bytes of one of the files, decompressed."""
        is_gzip = path.lower().endswith(".gz")
        with self.open(path) as raw, gzip.open(raw) if is_gzip else raw as file:
            return bytes(file.read(most))

    def is_changed(self) -> bool:
        """Return whether a file was replaced, deleted or added."""
        try:
            now = self.find()
        except SourceError:
            return True
        return (now.paths, now.signatures) != (self.paths, self.signatures)

    def require_unchanged(self) -> None:
        """Raise SourceError if a file was replaced, deleted or added."""
        if self.is_changed():
            raise SourceError(
                f"{self.where} was replaced while it was read: repeat the run of this slot, and "
                "from now on write a new file for each slot, with {slot} in path",
                permanent=False,
            )


def end_of_period(options: FileOptions, slot: datetime) -> datetime:
    """The time up to which rows are read. It is the slot, except for a log with ``until``."""
    served = getattr(options, "served", None)
    if served is None:
        return slot
    end: datetime = served.period(slot)[1]
    return end


def find_files(options: FileOptions, slot: datetime) -> FileSet:
    """Return the slot's files, ordered by path. Raises MissingTableError if there is no file."""
    slot = end_of_period(options, slot)
    where = fill_slot(options.path, slot)

    def find() -> FileSet:
        store = None
        with source_errors(where):
            if where.startswith(STORES):
                signatures, store = _in_store(where)
            else:
                signatures = _find_on_disk(where, options)
            paths = tuple(path for path in signatures if _is_part(path, options))
            if len(signatures) == 1:  # a single file may have any name
                paths = tuple(signatures)
        if not paths:
            raise MissingTableError(
                f"{where} has no file: check the path, and check that the job which writes it "
                "has run",
                permanent=False,
            )
        if len(paths) > _MOST_PARTS:
            raise SourceError(
                f"{where} has {len(paths)} files, more than {_MOST_PARTS}: write fewer and "
                "larger files"
            )
        return FileSet(
            where,
            paths,
            options.format or _format_of(paths, where),
            slot,
            store,
            tuple(signatures[path] for path in paths),
            find,
        )

    return find()


@contextmanager
def held_files(options: FileOptions, slot: datetime) -> Iterator[FileSet]:
    """The slot's files. Logs on disk can grow, so a copy of their complete lines is read.

    A log of several files may get further files while it is read. They are read by later runs.
    """
    files = find_files(options, slot)
    if getattr(options, "served", None) is None:
        yield files
        return
    if files.store is not None or files.format == "parquet":
        yield replace(files, find=partial(_find_again, files))
        return
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(TemporaryDirectory(prefix="rankwatch-log-"))
        except OSError:
            raise SourceError(
                f"{files.where} is a log, which is copied before it is read: "
                f"{no_temporary_folder()}",
                permanent=False,
            ) from None
        with source_errors(files.where):
            originals = {}
            for number, path in enumerate(files.paths):
                originals[_copy_lines(Path(path), Path(folder, str(number)))] = path
        copies = replace(files, paths=tuple(originals), originals=originals)
        yield replace(copies, find=lambda: copies)


def _find_again(files: FileSet) -> FileSet:
    """Return the files without those that were added. The signature of a deleted file is None."""
    now = files.find()
    signatures = dict(zip(now.paths, now.signatures, strict=True))
    return replace(
        now,
        paths=files.paths,
        signatures=tuple(map(signatures.get, files.paths)),
    )


def _copy_lines(log: Path, folder: Path) -> str:
    if log.suffix == ".gz":
        return str(log)
    folder.mkdir()
    copy = folder / log.name
    shutil.copyfile(log, copy)
    with copy.open("r+b") as lines:
        size = lines.seek(0, os.SEEK_END)
        start = lines.seek(max(0, size - MAX_LINE_BYTES))
        lines.truncate(start + lines.read().rfind(b"\n") + 1)
    return str(copy)


def read_files(options: FileOptions, slot: datetime, read: Callable[[FileSet], _T]) -> _T:
    """Call ``read`` with the slot's files.

    If files are replaced during the call, it is repeated. There are at most three calls.
    """
    for tries_left in (2, 1, 0):
        with held_files(options, slot) as files:
            try:
                result = read(files)
                files.require_unchanged()
            except SourceError:
                if not tries_left or not files.is_changed():
                    raise
            else:
                return result
    raise AssertionError  # pragma: no cover - the last try returns or raises


def _is_part(path: str, options: FileOptions) -> bool:
    return bool(options.format) or _suffix(path) in _FORMATS


def _find_on_disk(where: str, options: FileOptions) -> dict[str, object]:
    """Return the signature of each file, by path."""
    path = Path(where).absolute()
    folder = path.parent
    if has_magic(str(path)) and not path.exists():
        folder = _folder_of_pattern(path)
        matches = sorted(map(Path, glob(str(path), recursive=True)))  # noqa: PTH207 - absolute
        paths = [match for match in matches if match.is_file()]
    elif stat.S_ISDIR(path.stat().st_mode):
        folder = path
        paths = []
        for file in sorted(path.rglob("*")):
            if not file.is_dir() and not _is_hidden(file, path):
                paths.append(file)
        if len(paths) > 1:
            paths = [file for file in paths if _is_part(str(file), options)]
    else:
        paths = [path]
    signatures: dict[str, object] = {}
    for file in paths:
        status = _stat_of(file)
        # Reading a pipe would block. Reading a device would never end.
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(
                f"{file} is not a regular file: name a file, a pattern or a folder of files"
            )
        signatures[str(file)] = (status.st_ino, status.st_size, status.st_mtime_ns)
    if not options.follow_links:
        _refuse_links_out_of(folder, paths)
    return signatures


def _folder_of_pattern(pattern: Path) -> Path:
    """The folder that the pattern searches. It is the last folder before the first wildcard."""
    return next(folder for folder in pattern.parents if not has_magic(str(folder)))


def _stat_of(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except FileNotFoundError:
        if path.is_symlink():
            raise SourceError(
                f"{path} is a link to a file that does not exist", permanent=False
            ) from None
        raise


def _refuse_links_out_of(folder: Path, paths: Sequence[Path]) -> None:
    inside = folder.resolve()
    for path in paths:
        if not path.resolve().is_relative_to(inside):
            advice = "put the file itself into the folder, or set follow_links: true"
            raise SourceError(f"{path} is a symbolic link that leads out of {folder}: {advice}")


def _is_hidden(path: PurePosixPath | Path, folder: PurePosixPath | Path) -> bool:
    # Jobs write files such as _SUCCESS, _temporary and checksums next to their results.
    return any(name.startswith(("_", ".")) for name in path.relative_to(folder).parts)


def _in_store(where: str) -> tuple[dict[str, object], Any]:
    """Return the signature of each file by path, and the file system."""
    scheme = where.partition("://")[0]
    try:
        import fsspec  # noqa: PLC0415 - an extra

        store, root = fsspec.core.url_to_fs(where, use_listings_cache=False)
    except ImportError:
        raise SourceError(
            f"{where} needs a library that is not installed: {write_extra(scheme)}"
        ) from None
    store.invalidate_cache()
    is_folder = False
    if has_magic(root) and not store.exists(root):
        listing = store.glob(root, detail=True)
    else:
        info = store.info(root)
        is_folder = info["type"] != "file"
        listing = store.find(root, detail=True) if is_folder else {root: info}
    signatures: dict[str, object] = {}
    for path, info in sorted(listing.items()):
        is_hidden = is_folder and _is_hidden(PurePosixPath(path), PurePosixPath(root))
        if info["type"] == "file" and not is_hidden:
            signatures[f"{scheme}://{path}"] = _signature(info)
    return signatures, store


def _signature(info: dict[str, Any]) -> object:
    marks = ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "generation")
    return (info.get("size"), *(str(info.get(mark)) for mark in marks))


def _suffix(path: str) -> str:
    """Return the last suffix before `.gz`, in lower case. It is empty if there is no suffix."""
    name = PurePosixPath(path).name.lower().removesuffix(".gz")
    return PurePosixPath(name).suffix


def _format_of(paths: Sequence[str], where: str) -> str:
    formats = sorted({_FORMATS.get(_suffix(path), "") for path in paths})
    if formats == [""]:
        raise SourceError(
            f"the format of {where} is unknown: use a suffix .parquet, .csv, .tsv or .jsonl, or "
            "set format in a configuration"
        )
    if len(formats) > 1:
        raise SourceError(
            f"{where} has files of several formats ({', '.join(formats)}): name files of one "
            f"format, such as {where}/*.{formats[0]}"
        )
    return formats[0]


@contextmanager
def opened_parquet(files: FileSet, path: str) -> Iterator[pyarrow.parquet.ParquetFile]:
    """Open the file. Raises SourceError if it does not begin and end as Parquet files do."""
    with files.open(path) as raw:
        head = raw.read(len(_PARQUET))
        if head != _PARQUET:
            problem = "is not a Parquet file" if head else "is empty"
            raise SourceError(
                f"{path} {problem}: check the path, and check that the job which writes it has "
                f"ended",
                permanent=False,
            )
        raw.seek(-len(_PARQUET), os.SEEK_END)
        if raw.read() != _PARQUET:
            raise SourceError(
                f"{path} is incomplete, because it is cut off or still being written: write it "
                "under another name until it is complete",
                permanent=False,
            )
        raw.seek(0)
        with pyarrow.parquet.ParquetFile(raw) as file:
            yield file


@contextmanager
def source_errors(where: str) -> Iterator[None]:
    """Turn errors of the operating system or of a store into a SourceError of one line."""
    is_stored = where.startswith(STORES)
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError:
        raise MissingTableError(
            f"{where} does not exist: check the path, and check that the job which writes it "
            "has run",
            permanent=False,
        ) from None
    except PermissionError as error:
        problem = f"this account may not read {where}"
        advice = "check its permissions"
        if is_stored:
            advice = "check the credentials in the environment, which may have expired"
            if error.__cause__:
                problem += f" ({store_cause(error).what})"
        raise SourceError(f"{problem}: {advice}", permanent=not is_stored) from None
    except Exception as error:  # noqa: BLE001 - stores raise their own errors
        cause = store_cause(error) if is_stored else file_cause(error)
        raise SourceError(f"{where} cannot be read: {cause}", permanent=False) from None
