"""Where all scores of a run go beside the database, for others to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from monitor.model import Scores
from monitor.ports.sources import Closable


class ScoreSink(Closable, Protocol):
    """Takes every user's scores, run by run."""

    def open(
        self, slot: datetime, metrics: Sequence[str], about: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[Scores], object]]:
        """Take the scores of the run of this slot in these metrics: what is yielded is called with each batch of users.

        When the block ends they stand in place of what an earlier run of the slot left, whole, with ``about`` beside them. With
        an exception nothing has changed and nothing is left over. OutputError when they cannot be written.
        """
