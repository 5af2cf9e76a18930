"""What a receiver's HTTP status means for a delivery."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from monitor.errors import DeliveryError
from monitor.receivers.guarded import Answer

_ADVICE = {
    401: "check its credentials",
    403: "check its credentials",
    404: "check its URL",
    405: "check its URL",
    410: "check its URL",
    413: "the message is too large for it",
}
_LATER = frozenset({408, 421, 425, 429})
_OF_MESSAGE = frozenset({400, 413, 422})
"""What is said of a message and not of who sends it where."""
_REFUSED = 400
_BROKEN = 500


def accept(answer: Answer, *, who: str, now: datetime, said: str | None = None, is_bounded: bool = False) -> None:
    """Return if the receiver took the message (2xx), else DeliveryError.

    Permanent: 4xx, which says that the same message will be refused again, but for 408, 421, 425 and 429. Not permanent:
    these, 5xx, after which the message may be known, and redirects, which are never followed. ``Retry-After`` is handed on.
    ``said``: what its body says, fit to be shown. ``is_bounded``: the message is as long however much it tells, so that a part
    of it would be refused no less.
    """
    status = answer.status
    if is_taken(answer):
        return
    is_permanent = _REFUSED <= status < _BROKEN and status not in _LATER
    advice = _ADVICE.get(status, "it refuses this message" if is_permanent else "it will be tried again")
    if 300 <= status < _REFUSED:  # noqa: PLR2004 - likewise
        advice = "redirects are not followed: write the final URL"
    msg = f"{who} answered {name_of(answer)}: {advice}{f' ({said})' if said else ''}"
    raise DeliveryError(
        msg,
        permanent=is_permanent,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now),
        may_be_known=status >= _BROKEN,
        of_message=status in _OF_MESSAGE and not is_bounded,
    )


def is_taken(answer: Answer) -> bool:
    """Whether the status says that the message was taken."""
    return 200 <= answer.status < 300  # noqa: PLR2004 - the statuses themselves are the clearest names


def retry_after_s(text: str | None, now: datetime) -> float | None:
    """Seconds that a ``Retry-After`` header asks for, given as such or as a date; None when there is none to be read."""
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            at = parsedate_to_datetime(text)
        except ValueError:
            return None
        seconds = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - now).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def name_of(answer: Answer) -> str:
    """Its status with the words that belong to it."""
    try:
        return f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        return str(answer.status)
