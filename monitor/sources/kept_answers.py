"""Stores the answers of a long pull in a file. A repeated run asks only for users without one.

Each line of the file has a checksum and the answers that came in about one second.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from hashlib import sha256
from pathlib import Path

from monitor.model.instants import utc_now
from monitor.sources.list_collector import ListCollector

_PREFIX = "answers-2-"  # 2 is the version of the file format
_ABANDONED_S = 86_400.0


class AnswerFolder:
    """The folder in which the comparisons of one family store answers.

    ``count`` is the number of these comparisons.
    """

    def __init__(self, path: Path, family: str, count: int) -> None:
        self._path = path
        self._count = count
        self._start = f"{_PREFIX}{_digest(family)}-"
        self._stored = set[tuple[datetime, str]]()  # the slot and comparison of each run

    def path_start(self, slot: datetime, whose: str) -> str:
        """The first part of the path of the file that stores the answers of one arm."""
        return str(self._path / f"{self._start}{_digest(slot)}-{_digest(whose)}")

    def run_stored(self, slot: datetime, name: str) -> None:
        """Delete the answers that are no longer needed, after the run of a comparison was stored.

        Deletes answers of the family for other slots. If the runs of all its comparisons for this
        slot are stored, deletes the answers for this slot too. Deletes answers of other families a
        day after their last change.
        """
        self._stored = {run for run in self._stored if run[0] == slot} | {(slot, name)}
        is_last = len(self._stored) == self._count
        slot_start = f"{self._start}{_digest(slot)}-"
        for file in self._path.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                is_expired = file.name.startswith(self._start) and (
                    is_last or not file.name.startswith(slot_start)
                )
                if is_expired or utc_now().timestamp() - file.stat().st_mtime > _ABANDONED_S:
                    file.unlink()


class AnswerFile:
    """The file with the answers of one pull.

    ``question`` contains everything that the answers depend on. ``write_error`` is the reason why
    answers are not stored.
    """

    def __init__(self, path_start: str | None, question: str) -> None:
        self._path = None if path_start is None else Path(f"{path_start}-{_digest(question)}")
        self.write_error: str | None = None

    def recall(self, users: list[str], lists: ListCollector, lasts_s: float) -> list[str]:
        """Add the stored answers of these users to ``lists``.

        Answers that are older than ``lasts_s`` seconds are ignored. Returns the users without an
        answer.
        """
        if self._path is None:
            return users
        missing = dict.fromkeys(users)
        now_s = utc_now().timestamp()
        with suppress(OSError), self._path.open("rb") as file:
            for record in file:
                checksum, _, content = record.partition(b" ")
                if checksum != b"%08x" % zlib.crc32(content):
                    continue
                stored_s, rows = json.loads(content)
                if not 0 <= now_s - stored_s <= lasts_s:
                    continue
                for user, items, scores, version in rows:
                    if user in missing:
                        del missing[user]
                        lists.add(user, items, scores, version)
        lists.new_lists()  # so that `take` does not store the recalled lists again
        return list(missing)

    def take(self, lists: ListCollector) -> Callable[[], None]:
        """Return a function that writes the new lists.

        Call this function in another thread, so that the pull does not wait for the disk.
        """
        rows = [] if self._path is None else lists.new_lists()
        return partial(self._write, rows)

    def _write(self, rows: Sequence[object]) -> None:
        path = self._path
        if path is None or self.write_error or not rows:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            content = json.dumps([utc_now().timestamp(), rows]).encode() + b"\n"
            path.touch(mode=0o600)
            with path.open("ab") as file:
                # The previous line may be incomplete.
                file.write(b"\n%08x %s" % (zlib.crc32(content), content))
        except OSError as error:
            self.write_error = f"{path.parent}: {error.strerror or 'it cannot be written to'}"


def _digest(*values: object) -> str:
    return sha256(json.dumps(values, default=str).encode()).hexdigest()[:16]
