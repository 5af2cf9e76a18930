"""What a daemon says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """When a job is due next, and for how long it has been under way; None where it is not."""

    name: str
    next_at: datetime | None
    running_s: float | None


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
