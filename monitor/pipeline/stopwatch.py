"""How long each stage of a run takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from monitor.ports import Clock

T = TypeVar("T")


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent by stage."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the block takes to the stage."""
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - start

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the time that each takes to come is added to the stage."""
        waiting = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(waiting)
                except StopIteration:
                    return
            yield item
