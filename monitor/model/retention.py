"""Retention: what is too old, what was pruned, and what the rest takes on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class DataKind(StrEnum):
    """What a database holds, by what it is kept for."""

    SCORES = "scores"  # scores of each user
    LISTS = "lists"  # lists of all compared users
    EVIDENCE = "evidence"  # lists of example users, and explanations
    SUMMARIES = "summaries"  # summaries, coverage and expectations by segment
    DAILY = "daily"  # daily roll-ups
    RUNS = "runs"  # runs, and what later ones learn from
    ALERTS = "alerts"  # alert states, transitions, deliveries and silences


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
    """Rows that were deleted, by table and by kind of data."""

    rows: Mapping[str, int] = field(default_factory=dict)
    by_kind: Mapping[DataKind, int] = field(default_factory=dict)
    put_off: tuple[
        str, ...
    ] = ()  # sentences, each on a partition of scores that could not be dropped, and why
    refused: str | None = None  # why nothing was deleted at all; None when it was


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSize:
    """What one kind of data takes on disk."""

    kind: DataKind
    used_bytes: int
    runs: int  # how many hold any
    oldest: datetime | None  # slot, or day

    @property
    def bytes_per_run(self) -> float | None:
        """What one run costs; None while there is none."""
        return self.used_bytes / self.runs if self.runs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSize:
    """What the database takes on disk."""

    used_bytes: int
    free_bytes: int  # room inside a SQLite file
    kinds: tuple[KindSize, ...]
