"""A point in time by which a pull must be over."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Deadline:
    """``at`` on the monotonic clock; real time, because what it bounds (sockets, statements, disks) runs on real time."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self.at - time.monotonic())

    @property
    def is_past(self) -> bool:
        """Whether it is over."""
        return time.monotonic() >= self.at


class TooLateError(Exception):
    """The deadline passed while reading; never leaves the sources, the users become ``timeout``."""
