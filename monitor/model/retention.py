"""Retention: what is too old, what was pruned, and what the rest takes on disk."""

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
    """Daily roll-ups."""
    RUNS = "runs"
    """Runs, and what later ones learn from."""
    ALERTS = "alerts"
    """Alert states, transitions, deliveries and silences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Slots, or days, before these are pruned."""

    scores: datetime
    lists: datetime
    evidence: datetime
    summaries: datetime
    runs: datetime
    daily: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Rows that were deleted, by table and by kind of data.

    ``put_off``: sentences, each on a partition of scores that could not be dropped, and why. ``refused``: why nothing was
    deleted at all, None when it was.
    """

    rows: Mapping[str, int] = field(default_factory=dict)
    by_kind: Mapping[DataKind, int] = field(default_factory=dict)
    put_off: tuple[str, ...] = ()
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSize:
    """What one kind of data takes on disk. ``is_estimate``: whether its rows were estimated, since counting them takes long.

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
    """What the database takes on disk. ``free_bytes``: room inside a SQLite file; ``runs_per_day``: of the last week."""

    used_bytes: int
    free_bytes: int
    kinds: tuple[KindSize, ...]
    runs_per_day: float

    @property
    def bytes_per_day(self) -> float:
        """What a day of runs adds before anything is deleted."""
        of_run = sum(each.bytes_per_run or 0.0 for each in self.kinds if each.kind is not DataKind.DAILY and each.grows)
        return of_run * self.runs_per_day
