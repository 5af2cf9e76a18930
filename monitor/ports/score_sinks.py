"""Where all scores of a run go beside the database: to be read by others, or to wait until they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class ScoreSpool(Closable, Protocol):
    """Scores of one run that wait outside of memory until they are stored. Called from one thread; nothing is left when closed.

    OutputError when they cannot be taken or given back, as when the disk is full.
    """

    def add(self, scores: Scores) -> None:
        """Take scores of users who have not come before."""

    def batches(self) -> Iterator[Scores]:
        """All of them by user, ascending, as often as it is called; each batch has all metrics, NaN where there is no score."""
