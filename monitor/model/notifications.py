"""The outbox and what it sends: deliveries, notifications, messages, silences."""

import hashlib
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from monitor.immutable import immutable
from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation
from monitor.model.instants import format_instant
from monitor.model.rules import Severity


class DeliveryStatus(StrEnum):
    """The status of a delivery in the outbox."""

    PENDING = "pending"  # to be sent
    HELD = "held"  # silenced, in maintenance or muted; decided again later
    SENT = "sent"
    DEAD = "dead"  # rejected permanently
    DROPPED = "dropped"  # no longer worth sending


@immutable
class Delivery:
    """One transition to deliver to one receiver, with its status."""

    id: int
    transition_id: int
    receiver: str
    attempts: int  # made so far
    transition: Transition
    status: DeliveryStatus = DeliveryStatus.PENDING
    # An earlier attempt was not recorded: the process died, or the answer did not come
    may_be_known: bool = False
    # Of the message that may have arrived with it: it is repeated under this key
    message_key: str | None = None
    reason: str | None = None  # why it is held, failed, was given up or dropped
    next_attempt_at: datetime | None = None  # None once it is settled
    settled_at: datetime | None = None


@immutable
class Notification:
    """The result of one attempt to deliver, or the reason why there was no attempt."""

    delivery_id: int
    at: datetime
    status: DeliveryStatus
    reason: str | None
    next_attempt_at: datetime | None
    may_be_known: bool = False  # the receiver may have taken it although the attempt failed
    message_key: str | None = None  # of the message that it may have taken
    fallback: str | None = None  # the receiver that gets it instead
    repeat_at: datetime | None = None  # when it is repeated if it still fires then
    is_receiver_removed: bool = False  # from the configuration


@immutable
class KnownCause:
    """The cause that an earlier run of an incident found: its slot, and sentences."""

    slot: datetime
    sentence: str


@immutable
class Briefing:
    """Facts on the run in which an alert began to fire, besides its transitions."""

    explanation: Explanation | None = None
    examples: tuple[ExampleLists, ...] = ()  # users whose lists show what changed, two at most
    models: tuple[str, ...] = ()  # sentences on those that changed
    # Of the newest earlier run of the incident that found a cause, if this run found none
    known_cause: KnownCause | None = None


class MessageStatus(StrEnum):
    """The state of an incident as a whole, as a message shows it."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Updates(StrEnum):
    """What a receiver gets if alerts join an incident that it knows without a new page."""

    NONE = "none"  # the next message of the incident includes them
    UNPAGED = "unpaged"  # a message that pages nobody
    EACH = "each"  # each change at once, ends too: the receiver groups and inhibits alerts


@immutable
class Treatment:
    """What a receiver needs: resending, repetitions, updates and pictures."""

    # For firing alerts to stay firing there; None where sending once is enough
    resend_every_s: float | None = None
    # For an incident that lasts and that nobody looks after; None for never
    repeat_every_s: float | None = None
    updates: Updates = Updates.NONE
    shows_pictures: bool = False


@immutable
class Message:
    """One message to one receiver: changes of one incident of one comparison.

    ``changes`` and ``firing`` are not both empty.
    """

    incident: str  # shared by all messages of the incident and by nothing else
    comparison: str
    severity: Severity
    # Starts, acknowledgements, ends in the order they were stored; none in a repetition
    changes: tuple[Transition, ...]
    # Starts of all firings that last and it then knows of, oldest first; none at the end
    firing: tuple[Transition, ...] = ()
    # The start that was sent first of the incident; none where it is not known
    first: tuple[Transition, ...] = ()
    is_repetition: bool = False
    briefing: Briefing | None = None
    acknowledged: frozenset[str] = frozenset()  # keys of firings that somebody looks after
    pages: int = 1  # how many times the incident has paged this receiver, with this message
    pages_before: int = 0  # how many of these it had before this message
    # Why it pages again, in words; None for the first page and where it pages nobody
    worse: str | None = None
    # Alerts joined an incident that the receiver knows: nobody needs to be paged
    is_update: bool = False
    key: str | None = None  # given once it may have arrived: see `message_key`
    # PNG of the metric over time, for receivers that show pictures
    picture: bytes | None = field(default=None, repr=False)

    @property
    def starts(self) -> tuple[Transition, ...]:
        """The firings that begin."""
        return tuple(change for change in self.changes if change.is_start)

    @property
    def ends(self) -> tuple[Transition, ...]:
        """The firings that end."""
        return tuple(change for change in self.changes if change.is_end)

    @property
    def status(self) -> MessageStatus:
        """``resolved`` if nothing fires, ``acknowledged`` if this acknowledges all that fires."""
        if not self.firing:
            return MessageStatus.RESOLVED
        acknowledges = all(change.is_acknowledgement for change in self.changes)
        # The people paged for a part that is not acknowledged must still be paged.
        acknowledged = self.acknowledged | {change.dedup_key for change in self.changes}
        is_complete = all(start.dedup_key in acknowledged for start in self.firing)
        if self.changes and acknowledges and is_complete:
            return MessageStatus.ACKNOWLEDGED
        return MessageStatus.FIRING


def message_key(message: Message, now: datetime) -> str:
    """The idempotency key, ``incident:digest``.

    A message that may have arrived has the same key again. Each repetition has a new key.
    """
    if message.key is not None:
        return message.key
    parts = [
        f"{change.dedup_key} {change.from_state} {change.to_state} {format_instant(change.at)}"
        for change in message.changes
    ]
    parts += ["firing", *(str(start.dedup_key) for start in message.firing)]
    if message.is_repetition:
        parts.append(format_instant(now))
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{message.incident}:{digest[:16]}"


@immutable
class Silence:
    """Holds alerts that match all ``matchers``, from ``starts_at`` until ``ends_at``."""

    id: int
    matchers: tuple[str, ...]
    author: str
    comment: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime

    def is_active(self, now: datetime) -> bool:
        """Whether it is in force at this time."""
        return self.starts_at <= now < self.ends_at


@immutable
class FiringSnapshot:
    """The firings of one comparison when deliveries to one receiver are decided."""

    firing: tuple[Transition, ...]  # the starts of all firings that last, oldest first
    # Keys of the firings, ended ones too, that the receiver has or may have
    delivered: frozenset[str]
    # Starts that it was sent of incidents whose end it was not sent since, as they were sent
    sent_starts: tuple[Transition, ...] = ()
    acknowledged: frozenset[str] = frozenset()  # keys of acknowledged firings
    silences: tuple[Silence, ...] = ()  # active ones
    refused: frozenset[tuple[str, str]] = (
        frozenset()
    )  # receivers, others too, that rejected a firing, each with its key
