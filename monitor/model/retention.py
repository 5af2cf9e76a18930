"""Retention: what is kept and by what, what is too old, and what was pruned."""

from __future__ import annotations

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
    RUNS = "runs"  # runs, and what later ones learn from
    ALERTS = "alerts"  # alert states, transitions, deliveries and silences


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoffs:
    """Slots before these are pruned."""

    scores: datetime  # and kept lists
    evidence: datetime
    runs: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """Rows that were deleted, by table and by kind of data."""

    rows: Mapping[str, int] = field(default_factory=dict)
    by_kind: Mapping[DataKind, int] = field(default_factory=dict)
    put_off: tuple[str, ...] = ()  # sentences, each on a partition of scores that could not be dropped, and why
    refused: str | None = None  # why nothing was deleted at all; None when it was
