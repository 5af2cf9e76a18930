"""What a daemon says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """When a comparison is due next; ``running_since`` while a run of it is under way."""

    comparison: str
    next_at: datetime | None
    running_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the daemon says of itself, from memory; ``configuration`` is YAML without secrets."""

    version: str
    started_at: datetime
    role: str
    unready: str | None
    database: str
    schedule: tuple[ScheduledRun, ...]
    receivers: tuple[str, ...]
    configuration: str
