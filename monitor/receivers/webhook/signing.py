"""The signature of a request, made and verified."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime, timedelta

SIGNATURE, TIMESTAMP = "X-Rankwatch-Signature", "X-Rankwatch-Timestamp"
_TOLERANCE = timedelta(minutes=5)


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """Value of the signature header."""
    return "sha256=" + hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, now: datetime, tolerance: timedelta = _TOLERANCE) -> bool:
    """Whether a request was signed with this secret and sent within ``tolerance`` of ``now``; for the receiving side."""
    given = {name.lower(): value for name, value in headers.items()}
    timestamp = given.get(TIMESTAMP.lower(), "")
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):  # noqa: PLR2004 - enough until the year 33658
        return False
    is_fresh = abs(now.timestamp() - int(timestamp)) <= tolerance.total_seconds()
    signature = given.get(SIGNATURE.lower(), "").encode("utf-8", "replace")
    return hmac.compare_digest(signature, sign(secret, timestamp, body).encode()) and is_fresh
