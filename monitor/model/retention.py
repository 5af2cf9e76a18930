"""How long results are kept, what was deleted, and what they take on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class DataKind(StrEnum):
    """What a database holds, by what it is kept for."""

    SCORES = "scores"
    """Scores of each user."""
    LISTS = "lists"
    """Lists of all compared users."""
    EVIDENCE = "evidence"
    """Lists of example users, and explanations."""
    SUMMARIES = "summaries"
    """Summaries, coverage and expectations by segment."""
    DAILY = "daily"
    """What each day came to."""
    RUNS = "runs"
    """Runs, and what later ones learn from."""
    ALERTS = "alerts"
    """Alert states, transitions, deliveries and silences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """What is older goes: slots, or days, before these. ``max_bytes``: what the database may take, None for no limit."""

    scores: datetime
    lists: datetime
    evidence: datetime
    summaries: datetime
    runs: datetime
    daily: datetime
    max_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Rows that were deleted: by table, and by kind those that went for their age and those that went ``early``, for room.

    Ages are counted back from ``reckoned_from``, None for the present that was given: runs or the server's clock bear it out.
    ``used_bytes``: what the database takes afterwards, None where it has no largest size; ``excess_bytes``: how much that is
    above it, nothing being left that may go, but for what was ``put_off``: sentences, each on what is there still and why.
    ``lasting_bytes``: scores that stay whatever the size, as they share a partition with the newest run of a comparison.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    aged: Mapping[DataKind, int] = field(default_factory=dict)
    early: Mapping[DataKind, int] = field(default_factory=dict)
    reckoned_from: datetime | None = None
    used_bytes: int | None = None
    excess_bytes: int = 0
    lasting_bytes: int = 0
    put_off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSize:
    """What one kind of data takes. ``is_estimate``: whether its rows were estimated, since counting them would take long.

    ``runs``: how many hold any; ``oldest``: slot (or day) of the oldest, None for none. ``grows``: not where each comparison
    has only those of its newest run, as of lists that nothing waits for.
    """

    kind: DataKind
    used_bytes: int
    rows: int
    is_estimate: bool
    runs: int
    oldest: datetime | None
    grows: bool = True

    @property
    def bytes_per_run(self) -> float | None:
        """What one run costs; None while there is none."""
        return self.used_bytes / self.runs if self.runs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSize:
    """What the database takes. ``file_bytes``: on disk, with room that is free inside; ``runs_per_day``: of the last week.

    ``lasting_bytes``: scores that stay whatever the largest size, see `Pruned`.
    """

    used_bytes: int
    file_bytes: int
    kinds: tuple[KindSize, ...]
    runs_per_day: float
    lasting_bytes: int = 0

    @property
    def bytes_per_day(self) -> float:
        """What a day of runs adds before anything is deleted."""
        of_run = sum(each.bytes_per_run or 0.0 for each in self.kinds if each.kind is not DataKind.DAILY and each.grows)
        return of_run * self.runs_per_day

    def days_until(self, max_bytes: int) -> float | None:
        """Days until so many bytes are used if nothing were deleted, 0 when they are already; None without any growth."""
        left = max(0, max_bytes - self.used_bytes)
        return left / self.bytes_per_day if self.bytes_per_day > 0 else None
