"""Idempotency keys of messages, and which recipients have a message already while others wait for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from monitor.model import Message, format_instant


def idempotency_key(message: Message, now: datetime) -> str:
    """``incident:digest``: the same for the same changes of the same firings; each repetition has its own."""
    parts = [
        f"{change.dedup_key} {change.from_state} {change.to_state} {format_instant(change.at)}" for change in message.changes
    ]
    parts += ["firing", *(str(start.dedup_key) for start in message.firing)]
    if message.is_repetition:
        parts.append(format_instant(now))
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{message.incident}:{digest[:16]}"


_REMEMBERED = 256


class DeliveredRecipients:
    """Recipients by message. Not for several threads."""

    def __init__(self) -> None:
        self._reached: dict[str, set[str]] = {}

    def add(self, key: str, addressees: Iterable[str]) -> None:
        """These have the message; of many messages the oldest is forgotten."""
        self._reached.setdefault(key, set()).update(addressees)
        while len(self._reached) > _REMEMBERED:
            del self._reached[next(iter(self._reached))]

    def without(self, key: str, addressees: Sequence[str]) -> tuple[str, ...]:
        """The recipients that do not have it yet; all of them once each has it."""
        reached = self._reached.get(key, set())
        # Whoever asks once all have it means to send it anew.
        return tuple(each for each in addressees if each not in reached) or tuple(addressees)
