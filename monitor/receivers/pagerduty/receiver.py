"""The receiver: post an event, and believe it only when PagerDuty says so."""

from __future__ import annotations

import json
import re
from datetime import datetime

from monitor.errors import DeliveryError
from monitor.model import Message
from monitor.receivers.answers import accept, is_taken, name_of
from monitor.receivers.guarded import Answer, Guard
from monitor.receivers.pagerduty.event import event_of
from monitor.receivers.pagerduty.options import PagerDutyOptions
from monitor.receivers.wording import clean

_LONGEST_REASON = 200
_LONGEST_WORD = 24
_WORD = re.compile(r"[0-9A-Za-z]{6,}")


class PagerDuty:
    """One service of PagerDuty."""

    def __init__(self, options: PagerDutyOptions, *, external_url: str) -> None:
        self._options, self._external_url = options, external_url
        (self._name,) = options.receiver_names
        url, timeout_s = f"{options.url.rstrip('/')}/v2/enqueue", options.timeout.total_seconds()
        self._guard = Guard(url, who=self._name, timeout_s=timeout_s, ca_file=options.ca_file)

    @property
    def name(self) -> str:
        """Name from configuration."""
        return self._name

    @property
    def resend_every_s(self) -> float | None:
        """An alert stays open there until it is resolved."""
        return None

    @property
    def repeat_every_s(self) -> float | None:
        """From configuration."""
        return None if self._options.repeat_every is None else self._options.repeat_every.total_seconds()

    @property
    def is_ungrouped(self) -> bool:
        """It is told incidents."""
        return False

    def send(self, message: Message, *, now: datetime) -> None:
        """Trigger, acknowledge or resolve the incident's alert. DeliveryError when PagerDuty did not say that it took it."""
        key = self._options.routing_key.get_secret_value()
        event = event_of(message, key, self._external_url)
        body = json.dumps(event, ensure_ascii=False, allow_nan=False).encode()
        answer = self._guard.post(body, {"Content-Type": "application/json"})
        accept(answer, who=self._guard.who, now=now, said=_reason(answer, key), is_bounded=True)
        _require_success(answer, self._guard.who, key)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()


def _require_success(answer: Answer, who: str, key: str) -> None:
    """What came to its end must say that it succeeded: ``status`` holds a short error where it did not, even with a 202."""
    if not is_taken(answer) or answer.body is None or _read(answer.body).get("status") == "success":
        return
    said = _reason(answer, key)
    msg = (
        f"{who} answered {name_of(answer)} but not success{f' ({said})' if said else ''}: check its URL; it will be tried again"
    )
    raise DeliveryError(msg, permanent=False, may_be_known=True)


def _read(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _reason(answer: Answer, key: str) -> str | None:
    """What the answer says went wrong, on one line, without any piece of the key that it may echo."""
    found = _read(answer.body or b"")
    errors = found.get("errors")
    said = [found.get("message"), *(errors if isinstance(errors, list) else [])]
    line = clean("; ".join(text for text in said if isinstance(text, str)), 4 * _LONGEST_REASON)
    return clean(_WORD.sub(lambda word: "***" if _gives_away(word[0], key) else word[0], line), _LONGEST_REASON) or None


def _gives_away(word: str, key: str) -> bool:
    """Whether it is of the key; or longer than any word, as the key is in some encoding."""
    return len(word) > _LONGEST_WORD or word.lower() in key.lower() or key.lower() in word.lower()
