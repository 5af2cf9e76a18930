"""How long each stage of a run takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from monitor.ports import Clock


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
