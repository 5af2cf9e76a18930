"""The newest run of each comparison as it was last read and published: after a run its own, every few seconds what changed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from itertools import count

from monitor.export import PrometheusPublisher
from monitor.model import LatestRun, Watermark
from monitor.ports import Clock, Store
from monitor.service.clock import SKEW

ROUNDS = 20
"""In how many refreshes each comparison is read anew although nothing says that it changed: old runs may have been deleted."""


class LatestRuns:
    """Reads newest runs and publishes them. Safe to share between threads; no lock is held while the database is read."""

    def __init__(self, store: Store, publisher: PrometheusPublisher, clock: Clock) -> None:
        self._store, self._publisher, self._clock = store, publisher, clock
        self._lock = threading.Lock()
        self._reads, self._refreshes = count(), count()
        self._names: tuple[str, ...] = ()
        self._seen: Watermark | None = None
        self._found: dict[str, tuple[int, LatestRun | None]] = {}

    @property
    def all(self) -> tuple[LatestRun, ...] | None:
        """Those of all comparisons that have one, from memory; None before they were first read."""
        return None if self._seen is None else tuple(found for name in self._names if (found := self.of(name)) is not None)

    def of(self, name: str) -> LatestRun | None:
        """That of one comparison, from memory."""
        return self._found.get(name, (0, None))[1]

    def read(self, name: str) -> None:
        """Read and publish one comparison, of which something was stored; DatabaseError when it cannot be read."""
        if self._seen is None:
            self.refresh(self._names)
        else:
            self._read((name,))

    def refresh(self, names: Sequence[str]) -> None:
        """Read what others have stored of these comparisons, and publish these alone; DatabaseError when it cannot be read."""
        self._names = tuple(names)
        # What was read meanwhile, after a run of this daemon's own, is not read again.
        marks = {name: found.run.mark for name in names if (found := self.of(name)) is not None}
        before = Watermark(runs=marks, transition=self._seen.transition if self._seen else 0)
        changed, seen = self._store.history.changes(names, before, until=self._clock.now() + SKEW)
        unread = (name for name in names if name not in self._found)
        self._read({*changed, *unread, *names[next(self._refreshes) % ROUNDS :: ROUNDS]})
        self._seen = seen

    def _read(self, wanted: Collection[str]) -> None:
        ticket = next(self._reads)
        found = self._store.history.latest(tuple(wanted), until=self._clock.now() + SKEW) if wanted else ()
        by_name = {each.run.comparison: each for each in found}
        with self._lock:
            for name in wanted:
                read_at, before = self._found.get(name, (-1, None))
                # Of two that read at the same time the one that began later knows more.
                if ticket > read_at:
                    after = by_name.get(name)
                    self._found[name] = ticket, (before if before == after else after)
            self._found = {name: self._found[name] for name in self._names if name in self._found}
            self._publisher.publish([run for _, run in self._found.values() if run is not None])
