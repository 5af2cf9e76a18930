"""When to try a failed delivery again."""

from __future__ import annotations

from datetime import datetime, timedelta

BASE_S = 2.0
CAP_S = 300.0
LONGEST_ASKED_S = 3600.0


def next_attempt(attempts: int, *, now: datetime, draw: float, retry_after_s: float | None = None) -> datetime:
    """Time of the next attempt after one more failure, with ``attempts`` made before it.

    Exponential backoff with full jitter: ``draw``, uniform in [0, 1), of min(300 s, 2 s * 2^attempts). A receiver that asks
    for a pause gets it, up to an hour, and the jitter on top.
    """
    ceiling = min(CAP_S, BASE_S * 2.0 ** min(attempts, 32))
    # Jitter, so that many waiting senders spread out.
    return now + timedelta(seconds=asked_pause_s(retry_after_s) + draw * ceiling)


def asked_pause_s(retry_after_s: float | None) -> float:
    """The pause in seconds that a receiver asked for and gets, in [0, 3600]."""
    return min(max(retry_after_s or 0.0, 0.0), LONGEST_ASKED_S)
