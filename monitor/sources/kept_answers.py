"""Answers of a pull that lasts, a second's a line behind its checksum, so that a run begun again asks for the rest alone."""

import json
import os
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from monitor.model.instants import utc_now
from monitor.model.model_versions import count_versions
from monitor.sources.list_collector import ListCollector

_PREFIX = "answers-1-"  # the number is that of the form
_ABANDONED_S = 86_400.0


class AnswerFolder:
    """Where the comparisons of one family, so many, keep answers."""

    def __init__(self, path: Path, family: str, count: int) -> None:
        self._path, self._start, self._count = path, f"{_PREFIX}{_digest(family)}-", count
        self._stored = set[tuple[datetime, str]]()

    def place(self, slot: datetime, whose: str) -> str:
        """The start of the path of the file for answers of an arm."""
        return str(self._path / f"{self._start}{_digest(slot)}-{_digest(whose)}")

    def run_stored(self, slot: datetime, name: str) -> None:
        """Remove what was kept for the slot once all runs of it are stored, for other slots, and by others a day ago."""
        self._stored = {(slot, name), *(each for each in self._stored if each[0] == slot)}
        of_slot, is_last = f"{self._start}{_digest(slot)}-", len(self._stored) == self._count
        for file in self._path.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                is_over = file.name.startswith(self._start) and (
                    is_last or not file.name.startswith(of_slot)
                )
                if is_over or utc_now().timestamp() - file.stat().st_mtime > _ABANDONED_S:
                    file.unlink()


class AnswerFile:
    """The file of one pull.

    ``question``: all that decides what is answered. ``trouble``: why nothing is kept.
    """

    def __init__(self, place: str | None, question: str) -> None:
        self._path = None if place is None else Path(f"{place}-{_digest(question)}")
        self._taken, self._versions = 0, Counter[str]()
        self.trouble: str | None = None

    def recall(self, users: list[str], lists: ListCollector, lasts_s: float) -> list[str]:
        """Give the answers of these users that are there, and not too old, to ``lists``.

        The other users.
        """
        wanted, now_s = dict.fromkeys(users), utc_now().timestamp()
        with suppress(OSError), (self._path or Path(os.devnull)).open("rb") as file:
            for checksum, _, content in (line.partition(b" ") for line in file):
                at, rows, versions = (
                    json.loads(content)
                    if checksum == b"%08x" % zlib.crc32(content)
                    else (0.0, (), {})
                )
                if 0 <= now_s - at <= lasts_s:
                    count_versions(lists.versions, versions.items())
                    for user, items, scores in rows:
                        if user in wanted:
                            del wanted[user]
                            lists.add(user, items, scores)
        self._taken, self._versions = len(lists), Counter(lists.versions)
        return list(wanted)

    def take(self, lists: ListCollector) -> Callable[[], None]:
        """What writes the lists that are new, in another thread: nobody else is to wait for a disk."""
        rows, self._taken = [] if self._path is None else lists.since(self._taken), len(lists)
        versions = Counter(lists.versions) - self._versions
        self._versions += versions
        return partial(self._write, rows, versions)

    def _write(self, rows: Sequence[object], versions: Mapping[str, int]) -> None:
        if self._path is None or self.trouble or not rows:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = json.dumps([utc_now().timestamp(), rows, versions]).encode() + b"\n"
            self._path.touch(mode=0o600)
            with self._path.open("ab") as file:
                file.write(
                    b"\n%08x %s" % (zlib.crc32(content), content)
                )  # the line before may have been cut
        except OSError as error:
            self.trouble = f"{self._path.parent}: {error.strerror or 'it cannot be written to'}"


def _digest(*what: object) -> str:
    return sha256(json.dumps(what, default=str).encode()).hexdigest()[:16]
