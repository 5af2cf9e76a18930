"""The wall clock, and how an instant is written and read, for people and machines alike."""

import math
import time
from datetime import UTC, datetime

_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


def utc_now() -> datetime:
    """Return the time of the machine's clock, aware UTC.

    Nothing else in the program reads that clock.
    """
    return datetime.fromtimestamp(time.time(), UTC)


def format_instant(instant: datetime) -> str:
    """ISO 8601 (RFC 3339) in UTC, to the second where that is exact: ``2024-01-08T06:00:00Z``."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_instant(text: str) -> datetime:
    """Read an ISO 8601 time.

    Without a zone it is UTC, and a bare date is midnight UTC. ValueError says what is wrong.
    """
    instant = _parse_instant(text)
    if instant < _FIRST:
        raise ValueError(f"{text!r} lies before 1970-01-01, where slots begin")
    return instant


def read_since(text: str) -> datetime:
    """Read the beginning of a period likewise; one before 1970, where slots begin, is 1970."""
    return max(_parse_instant(text), _FIRST)


def _parse_instant(text: str) -> datetime:
    try:
        given = datetime.fromisoformat(text)
        return given.replace(tzinfo=UTC) if given.tzinfo is None else given.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is no ISO 8601 time: write 2024-01-08 or 2024-01-08T06:00:00Z"
        ) from None


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as such or as a date.

    None when there is none to be read.
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
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
