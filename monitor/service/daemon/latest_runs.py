"""Keeps the newest run of each comparison in memory, for pages, metrics and staleness."""

import threading
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import count

from monitor.export.publisher import PrometheusPublisher
from monitor.model.ports import Clock
from monitor.model.runs import LatestRun, Watermark
from monitor.service.clock import MAX_CLOCK_SKEW
from monitor.storage import SqlStore

REFRESHES_PER_READ = 20
"""After this many refreshes a comparison is read again, because old runs may have been deleted."""


class LatestRuns:
    """Reads and publishes the newest run of each comparison.

    Threads may share it. Readers of the memory never wait for the database.
    """

    def __init__(self, store: SqlStore, publisher: PrometheusPublisher, clock: Clock) -> None:
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self._lock = threading.Lock()
        self._reads = count()
        self._refreshes = count()
        self._names: tuple[str, ...] = ()
        self._seen: Watermark | None = None
        self.read_at: datetime | None = None  # when all comparisons were last read
        # The newest run of each comparison, after the number of the read that returned it.
        self._cached: dict[str, tuple[int, LatestRun | None]] = {}

    @property
    def all(self) -> tuple[LatestRun, ...] | None:
        """The newest run of each comparison, from memory. None before the first read."""
        if self._seen is None:
            return None
        return self.of_all(self._names)

    def of(self, name: str) -> LatestRun | None:
        """Return the newest run of one comparison, from memory. None if it has no run."""
        _, latest = self._cached.get(name, (0, None))
        return latest

    def of_all(self, names: Iterable[str]) -> tuple[LatestRun, ...]:
        """Return the newest run of each of these comparisons, from memory."""
        runs = map(self.of, names)
        return tuple(run for run in runs if run is not None)

    def read(self, name: str) -> None:
        """Read and publish one comparison after a change.

        Raises DatabaseError if it cannot be read.
        """
        if self._seen is None:
            self.refresh(self._names)
        else:
            self._read((name,))

    def refresh(self, names: Sequence[str]) -> None:
        """Read what other daemons stored for these comparisons, and publish only these comparisons.

        Raises DatabaseError if the database cannot be read.
        """
        began = self._clock.now()
        self._names = tuple(names)
        # The marks of known runs keep this daemon from reading its own runs again.
        marks = {latest.comparison: latest.mark for latest in self.of_all(names)}
        before = Watermark(runs=marks)
        if self._seen is not None:
            before = Watermark(runs=marks, transition=self._seen.transition)
        changed, seen = self._store.history.changes(
            names, before, until=self._clock.now() + MAX_CLOCK_SKEW
        )
        unread = [name for name in names if name not in self._cached]
        # In each refresh another twentieth of the comparisons is read without a known change.
        in_turn = names[next(self._refreshes) % REFRESHES_PER_READ :: REFRESHES_PER_READ]
        self._read({*changed, *unread, *in_turn})
        self._seen = seen
        self.read_at = began

    def _read(self, names: Collection[str]) -> None:
        """Read these comparisons, forget removed ones, and publish all."""
        number = next(self._reads)
        latest: Sequence[LatestRun] = ()
        if names:
            until = self._clock.now() + MAX_CLOCK_SKEW
            latest = self._store.history.latest(tuple(names), until=until)
        by_name = {run.comparison: run for run in latest}
        with self._lock:
            for name in names:
                number_before, before = self._cached.get(name, (-1, None))
                # If two reads overlap, keep the result of the read that began later.
                if number > number_before:
                    after = by_name.get(name)
                    if after == before:
                        # An equal run stays the same object, so that pages can reuse its row.
                        after = before
                    self._cached[name] = (number, after)
            for name in self._cached.keys() - set(self._names):
                del self._cached[name]
            self._publisher.publish(self.of_all(self._cached))
