"""Decides when a failed delivery is tried again."""

from datetime import datetime, timedelta

_BASE_S = 2.0
_CAP_S = 300.0
_MOST_DOUBLINGS = 32
_LONGEST_RETRY_AFTER_S = 3600.0


def next_notification_at(
    attempts: int,
    *,
    now: datetime,
    draw: float,
    retry_after_s: float | None,
) -> datetime:
    """Return the time of the next attempt after a failure (exponential backoff with full jitter).

    The wait is ``draw``, a random number from 0 to 1, times min(300 s, 2 s * 2^attempts).
    ``attempts`` is the number of attempts before the failed one. If the receiver requested a pause,
    at most one hour of the pause is added.
    """
    # The exponent is limited, because the power would overflow after many attempts.
    longest_wait_s = min(_CAP_S, _BASE_S * 2.0 ** min(attempts, _MOST_DOUBLINGS))
    wait_s = requested_pause_s(retry_after_s) + draw * longest_wait_s
    return now + timedelta(seconds=wait_s)


def requested_pause_s(retry_after_s: float | None) -> float:
    """Return the pause that a receiver requested, in seconds. It is at least 0 and at most 3600."""
    return min(max(retry_after_s or 0.0, 0.0), _LONGEST_RETRY_AFTER_S)
