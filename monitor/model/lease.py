"""The lease on leading: of several daemons its holder runs slots and delivers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease, taken. ``epoch`` grows by one each time it is taken; ``before``: its last holder, None for nobody."""

    holder: str
    epoch: int
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """The lease is held by another daemon: its name and epoch, and how long the lease lasts unless it is renewed."""

    holder: str
    epoch: int
    free_in_s: float
