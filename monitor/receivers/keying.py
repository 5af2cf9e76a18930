"""A key for what one message tells, so that a receiver that gets it twice can see that it is the same."""

from __future__ import annotations

import hashlib
from datetime import datetime

from monitor.model import Message, spell


def key_of(message: Message, now: datetime) -> str:
    """``incident:digest``: the same for the same changes told of the same firings; each repetition has its own."""
    parts = [f"{change.dedup_key} {change.from_state} {change.to_state} {spell(change.at)}" for change in message.changes]
    parts += ["firing", *(str(start.dedup_key) for start in message.firing)]
    if message.is_repetition:
        parts.append(spell(now))
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{message.incident}:{digest[:16]}"
