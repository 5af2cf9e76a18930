"""Which slots went by unrun, and why. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime


def count_skipped(passed: Sequence[datetime], busy_until: datetime | None) -> dict[str, int]:
    """Count slots that passed without a run by reason.

    ``overlap``: this process was still at its last run, which ended at ``busy_until``; ``missed``: nobody was there.
    """
    overlapped = sum(1 for slot in passed if busy_until is not None and slot <= busy_until)
    counts = {"overlap": overlapped, "missed": len(passed) - overlapped}
    return {reason: count for reason, count in counts.items() if count}
