"""Reads the wall clock, and writes and reads instants for people and machines."""

import math
import time
from datetime import UTC, datetime

FIRST_INSTANT = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current time, aware UTC. Only this function reads the machine's wall clock."""
    return datetime.fromtimestamp(time.time(), UTC)


def format_instant(instant: datetime) -> str:
    """Write the instant in UTC by ISO 8601 (RFC 3339), such as ``2024-01-08T06:00:00Z``."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_second(instant: datetime) -> str:
    """Write the instant like `format_instant`, without the fraction of its second."""
    return format_instant(instant.replace(microsecond=0))


def read_instant(text: str) -> datetime:
    """Read an ISO 8601 time.

    A time without a zone is UTC, and a date means its midnight. ValueError names the problem.
    """
    instant = _parse_instant(text)
    if instant < FIRST_INSTANT:
        raise ValueError(f"{text!r} is before 1970-01-01, the first slot")
    return instant


def read_since(text: str) -> datetime:
    """Read the start of a period like `read_instant`. A time before 1970 becomes 1970."""
    return max(_parse_instant(text), FIRST_INSTANT)


def _parse_instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
        return _assume_utc(instant).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no ISO 8601 time: write 2024-01-08 or 2024-01-08T06:00:00Z"
        ) from None


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Return the wait in seconds that a ``Retry-After`` header requests.

    The header contains a number of seconds or a date. Returns None if it cannot be read.
    """
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - slow, and rare

    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except (ValueError, OverflowError):
            return None
        seconds = (_assume_utc(at) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _assume_utc(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
