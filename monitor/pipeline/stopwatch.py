"""Measures how long each stage of a run takes, and how much of its time is left."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from monitor.model.ports import Clock

_T = TypeVar("_T")


@dataclass(slots=True)
class Stopwatch:
    """Measures the seconds that each stage of a run takes. It starts when it is made."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)
    _begun_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun_at = self.clock.monotonic()

    def seconds_left(self, limit: timedelta) -> float:
        """Return the seconds until ``limit`` after the start. Negative if this time is over."""
        return self._begun_at + limit.total_seconds() - self.clock.monotonic()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the `with` block takes to the time of the stage."""
        start = self.clock.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + self.clock.monotonic() - start

    def iterate(self, name: str, items: Iterable[_T]) -> Iterator[_T]:
        """Yield the items. The time of waiting for the items is added to the stage."""
        iterator = iter(items)
        while True:
            with self.stage(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item
