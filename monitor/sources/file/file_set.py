"""The files behind a path: one file, all that match a pattern, or all parts of a folder.

On disk or in object storage.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from glob import glob, has_magic
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, Any, TypeVar

import pyarrow.parquet

from monitor.errors import SourceError
from monitor.foreign_errors import file_cause, store_cause
from monitor.scratch import no_temporary_folder
from monitor.slot_templates import fill_slot
from monitor.sources.file import STORES, FileOptions
from monitor.sources.tables import MissingTableError

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_MOST_PARTS = 10_000
_PARQUET = b"PAR1"
"""What files of Parquet begin and end with."""
LONGEST_LINE = 16 << 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files of one format.

    ``where`` is the path that they were found by, ``store`` their fsspec file system if on no disk.
    """

    where: str
    paths: tuple[str, ...]
    format: str
    slot: datetime
    store: Any
    signatures: tuple[object, ...]
    find: Callable[[], FileSet]

    def open(self, path: str) -> IO[bytes]:
        """Open one of the files to read bytes."""
        opened: IO[bytes] = (
            Path(path).open("rb") if self.store is None else self.store.open(path, "rb")
        )  # noqa: SIM115 - the caller closes
        return opened

    def is_changed(self) -> bool:
        """Whether a file is another one by now, is gone, or has come."""
        try:
            found = self.find()
        except SourceError:
            return True
        return (found.paths, found.signatures) != (self.paths, self.signatures)

    def require_unchanged(self) -> None:
        """SourceError where a file is another one by now, is gone, or has come."""
        if self.is_changed():
            msg = (
                f"{self.where} was written anew while it was read: run the slot again, and "
                "replace files by renaming"
            )
            raise SourceError(msg, permanent=False)


def find_files(options: FileOptions, slot: datetime) -> FileSet:
    """The slot's files in the order of their paths. MissingTableError where there is none."""
    where = fill_slot(options.path, slot)

    def find() -> FileSet:
        with source_errors(where):
            paths, signatures, store = (
                _in_store(where) if where.startswith(STORES) else _on_disk(where, options)
            )
            kept = [
                place
                for place, path in enumerate(paths)
                if len(paths) == 1 or _is_part(path, options)
            ]
            paths, signatures = (
                [paths[place] for place in kept],
                [signatures[place] for place in kept],
            )
        if not paths:
            msg = f"{where} holds no file: check the path, and that the job which writes it has run"
            raise MissingTableError(msg, permanent=False)
        if len(paths) > _MOST_PARTS:
            raise SourceError(
                (
                    f"{where} holds {len(paths)} files, more than {_MOST_PARTS}: write fewer and "
                    "larger ones"
                )
            )
        return FileSet(
            where,
            tuple(paths),
            options.format or _format_of(paths, where),
            slot,
            store,
            tuple(signatures),
            find,
        )

    return find()


@contextmanager
def held_files(options: FileOptions, slot: datetime) -> Iterator[FileSet]:
    """The slot's files; of a log on disk that may grow a copy of each up to its last whole line."""
    files = find_files(options, slot)
    if (
        getattr(options, "served", None) is None
        or files.store is not None
        or files.format == "parquet"
    ):
        yield files
        return
    with ExitStack() as ends:
        try:
            folder = ends.enter_context(TemporaryDirectory(prefix="rankwatch-log-"))
        except OSError:
            msg = (
                f"{files.where} is a log, which is copied before it is read: "
                f"{no_temporary_folder()}"
            )
            raise SourceError(msg, permanent=False) from None
        with source_errors(files.where):
            paths = tuple(
                _copy_lines(Path(path), Path(folder, str(place)))
                for place, path in enumerate(files.paths)
            )
        yield replace(files, paths=paths, find=lambda: replace(files, paths=paths))


def _copy_lines(log: Path, folder: Path) -> str:
    if log.suffix == ".gz":
        return str(log)
    folder.mkdir()
    copy = folder / log.name
    shutil.copyfile(log, copy)
    with copy.open("r+b") as lines:
        size = lines.seek(0, os.SEEK_END)
        start = lines.seek(max(0, size - LONGEST_LINE))
        lines.truncate(start + lines.read().rfind(b"\n") + 1)
    return str(copy)


def read_files(options: FileOptions, slot: datetime, read: Callable[[FileSet], T]) -> T:
    """What ``read`` makes of the slot's files, again where they were replaced meanwhile.

    SourceError at the third time.
    """
    for tries_left in (2, 1, 0):
        with held_files(options, slot) as files:
            try:
                found = read(files)
                files.require_unchanged()
            except SourceError:
                if not tries_left or not files.is_changed():
                    raise
            else:
                return found
    raise AssertionError  # pragma: no cover - the last try returns or raises


def _is_part(path: str, options: FileOptions) -> bool:
    return bool(options.format) or _suffix(path) in _FORMATS


def _on_disk(where: str, options: FileOptions) -> tuple[list[str], list[object], None]:
    path = Path(where).absolute()
    folder = path.parent
    if has_magic(str(path)) and not path.exists():
        folder = _folder_of_pattern(path)
        paths = sorted(map(Path, glob(str(path), recursive=True)))  # noqa: PTH207 - an absolute pattern
        paths = [each for each in paths if each.is_file()]
    elif stat.S_ISDIR(path.stat().st_mode):
        folder = path
        found = sorted(
            each for each in path.rglob("*") if not each.is_dir() and not _is_hidden(each, path)
        )
        paths = [each for each in found if len(found) == 1 or _is_part(str(each), options)]
    else:
        paths = [path]
    stats = [_stat_of(each) for each in paths]
    # Pipes would block, and devices never end.
    for each, found_stat in zip(paths, stats, strict=True):
        if not stat.S_ISREG(found_stat.st_mode):
            raise SourceError(
                f"{each} is no regular file: name a file, a pattern or a folder of files"
            )
    if not options.follow_links:
        _refuse_links_out_of(folder, paths)
    signatures: list[object] = [(each.st_ino, each.st_size, each.st_mtime_ns) for each in stats]
    return [str(each) for each in paths], signatures, None


def _folder_of_pattern(pattern: Path) -> Path:
    """The folder in which the pattern begins."""
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
            advice = "put the file itself there, or set follow_links: true"
            raise SourceError(f"{path} is a symbolic link that leads out of {folder}: {advice}")


def _is_hidden(path: PurePosixPath | Path, folder: PurePosixPath | Path) -> bool:
    # Such as _SUCCESS, _temporary and checksums, which jobs leave beside what they write.
    return any(name.startswith(("_", ".")) for name in path.relative_to(folder).parts)


def _in_store(where: str) -> tuple[list[str], list[object], Any]:
    scheme = where.partition("://")[0]
    try:
        import fsspec  # noqa: PLC0415 - an extra

        store, root = fsspec.core.url_to_fs(where, use_listings_cache=False)
    except ImportError:
        raise SourceError(
            f"{where} needs a library that is not installed: pip install 'rankwatch[{scheme}]'"
        ) from None
    store.invalidate_cache()
    if has_magic(root) and not store.exists(root):
        found = store.glob(root, detail=True)
    else:
        one = store.info(root)
        found = {root: one} if one["type"] == "file" else store.find(root, detail=True)
        if one["type"] != "file":
            found = {
                path: info
                for path, info in found.items()
                if not _is_hidden(PurePosixPath(path), PurePosixPath(root))
            }
    files = sorted((path, info) for path, info in found.items() if info["type"] == "file")
    return [f"{scheme}://{path}" for path, _ in files], [_written(info) for _, info in files], store


def _written(info: dict[str, Any]) -> object:
    marks = ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "generation")
    return (info.get("size"), *(str(info.get(name)) for name in marks))


def _suffix(path: str) -> str:
    suffixes = [each.lower() for each in PurePosixPath(path).suffixes if each.lower() != ".gz"]
    return suffixes[-1] if suffixes else ""


def _format_of(paths: Sequence[str], where: str) -> str:
    kinds = sorted({_FORMATS.get(_suffix(path), "") for path in paths})
    if kinds == [""]:
        raise SourceError(
            (
                f"the format of {where} is unknown: use a suffix .parquet, .csv, .tsv or .jsonl, "
                "or set format"
            )
        )
    if len(kinds) > 1:
        msg = (
            f"{where} holds files of several formats ({', '.join(kinds)}): name those of one, "
            f"such as {where}/*.{kinds[0]}"
        )
        raise SourceError(msg)
    return kinds[0]


@contextmanager
def opened_parquet(files: FileSet, path: str) -> Iterator[pyarrow.parquet.ParquetFile]:
    """The file; SourceError if it does not begin and end as Parquet does."""
    with files.open(path) as raw:
        head = raw.read(len(_PARQUET))
        if head != _PARQUET:
            found = "is empty" if not head else "is no Parquet file"
            raise SourceError(
                f"{path} {found}: check the path, and that the job which writes it has ended",
                permanent=False,
            )
        raw.seek(-len(_PARQUET), os.SEEK_END)
        if raw.read() != _PARQUET:
            msg = (
                f"{path} has no end, it is cut off or still being written: write it under "
                "another name until it is whole"
            )
            raise SourceError(msg, permanent=False)
        raw.seek(0)
        with pyarrow.parquet.ParquetFile(raw) as file:
            yield file


@contextmanager
def source_errors(where: str) -> Iterator[None]:
    """Turn what the system or a store raises into a SourceError of one line."""
    is_stored = where.startswith(STORES)
    try:
        yield
    except SourceError:
        raise
    except FileNotFoundError:
        msg = f"{where} does not exist: check the path, and that the job which writes it has run"
        raise MissingTableError(msg, permanent=False) from None
    except PermissionError as error:
        ours = (
            "the credentials in the environment, which may have expired"
            if is_stored
            else "its permissions"
        )
        reason = f" ({store_cause(error).what})" if is_stored and error.__cause__ else ""
        msg = f"{where} may not be read by this user{reason}: check {ours}"
        raise SourceError(msg, permanent=not is_stored) from None
    except Exception as error:  # noqa: BLE001 - stores raise whatever their vendors raise
        cause = store_cause(error) if is_stored else file_cause(error)
        raise SourceError(f"{where} cannot be read: {cause}", permanent=False) from None
