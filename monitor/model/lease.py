"""Who of several daemons leads: the right to run slots and to deliver, held by one of them at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right, taken. ``epoch`` grows by one each time it is taken; ``before``: who held it last, None when nobody did."""

    holder: str
    epoch: int
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """The right is somebody else's: whose, since which epoch, and how long it still lasts unless they renew it."""

    holder: str
    epoch: int
    free_in_s: float
