"""What callers that still hand over single changes mean as messages: each firing is then an incident of its own."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model import Message, Transition


def messages_of(told: Message | Sequence[Transition]) -> tuple[Message, ...]:
    """The message itself, or one for each change."""
    if isinstance(told, Message):
        return (told,)
    return tuple(
        Message(
            incident=change.dedup_key or "",
            comparison=change.comparison,
            severity=change.severity,
            changes=(change,),
            firing=(change,) if change.is_start else (),
        )
        for change in told
    )
