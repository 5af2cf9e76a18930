"""Retention: which data is expired, which data was pruned, and disk usage."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from monitor.model.immutable import immutable


class DataKind(StrEnum):
    """Kinds of data in a database, each with its own retention."""

    SCORES = "scores"  # scores of each user
    LISTS = "lists"  # lists of all compared users
    EVIDENCE = "evidence"  # lists of example users, and explanations
    SUMMARIES = "summaries"  # summaries, coverage and expectations by segment
    DAILY = "daily"  # daily roll-ups
    RUNS = "runs"  # runs, and the numbers that later runs learn from
    ALERTS = "alerts"  # alert states, transitions, deliveries and silences


Cutoffs: TypeAlias = Mapping[DataKind, datetime]
"""Data of each kind that is older than this slot or day is pruned. Alerts have no entry."""


@immutable
class Pruned:
    """Rows that were deleted, by table and by kind of data."""

    deleted_rows: Mapping[str, int] = field(default_factory=dict)
    deleted_by_kind: Mapping[DataKind, int] = field(default_factory=dict)
    # One sentence for each partition of scores that could not be dropped, with the reason
    put_off: tuple[str, ...] = ()
    reason: str | None = None  # why nothing could be deleted; None if pruning took place


@immutable
class KindSize:
    """Disk usage of one kind of data."""

    kind: DataKind
    used_bytes: int
    runs: int  # number of runs with this kind of data
    oldest: datetime | None  # slot or day of the oldest data

    @property
    def bytes_per_run(self) -> float | None:
        """Mean number of bytes for each run. None without runs."""
        return self.used_bytes / self.runs if self.runs else None


@immutable
class DatabaseSize:
    """Disk usage of the database."""

    used_bytes: int
    free_bytes: int  # unused bytes within a SQLite file
    kinds: tuple[KindSize, ...]
