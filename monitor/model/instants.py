"""How an instant is written for people and machines alike."""

from __future__ import annotations

from datetime import UTC, datetime


def format_instant(instant: datetime) -> str:
    """ISO 8601 (RFC 3339) in UTC, to the second where that is exact: ``2024-01-08T06:00:00Z``."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
