"""Adds facts about a run to a message: the briefing."""

from dataclasses import replace
from datetime import datetime

from monitor.alerts.notification_policy import NotificationPolicy
from monitor.model.notifications import (
    KnownCause,
    Message,
)
from monitor.model.ports import Outbox


def brief_message(message: Message, outbox: Outbox, policy: NotificationPolicy) -> Message:
    """Add the briefing on the newest run in which an alert of the message began.

    If no alert of the message begins, this is the newest run in which a firing alert began. If an
    alert begins and its run found no cause, the newest cause that earlier runs found is added. A
    repetition is about the newest run if this run found the same cause in the same arms again.
    Items are left out if the configuration does not allow items in messages.
    """
    message = replace(message, interval=policy.intervals.get(message.comparison))
    starts = message.starts or message.firing
    newest_slot = max((start.slot for start in starts), default=None)
    if newest_slot is None:
        return message
    briefing = outbox.briefing(message.comparison, newest_slot)
    cause = briefing.finding
    if message.is_repetition:
        newest = outbox.briefing(message.comparison, None)
        again = newest.finding
        if cause and again and (again.kind, again.arms) == (cause.kind, cause.arms):
            briefing = newest
    elif message.starts and cause is None:
        briefing = replace(briefing, known_cause=_find_known_cause(message, newest_slot, outbox))
    if not policy.shows_items:
        explanation = briefing.explanation and briefing.explanation.without_items
        briefing = replace(briefing, explanation=explanation, examples=())
    return replace(message, briefing=briefing)


def _find_known_cause(message: Message, newest_slot: datetime, outbox: Outbox) -> KnownCause | None:
    """Return the newest cause that an earlier run found in which a firing alert began, or None."""
    slots = {start.slot for start in message.firing if start.has_run and start.slot < newest_slot}
    for slot in sorted(slots, reverse=True):
        explanation = outbox.briefing(message.comparison, slot).explanation
        if explanation is not None and explanation.finding is not None:
            return KnownCause(slot=slot, sentence=explanation.sentence)
    return None
