"""The contents of the outbox: deliveries, notifications, messages, silences."""

import hashlib
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation, Finding
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.rules import Severity
from monitor.model.run_reasons import RunReasons


class DeliveryStatus(StrEnum):
    """The status of a delivery in the outbox."""

    PENDING = "pending"  # to be sent
    HELD = "held"  # not sent now (silenced, in maintenance or muted); decided again later
    SENT = "sent"
    DEAD = "dead"  # rejected permanently
    DROPPED = "dropped"  # no longer worth sending


@immutable
class Delivery:
    """One transition to deliver to one receiver, with its status."""

    id: int
    transition_id: int
    receiver: str
    attempts: int  # number of attempts so far
    transition: Transition
    status: DeliveryStatus = DeliveryStatus.PENDING
    # The receiver may have it, because the process died while sending, or because no answer came.
    may_be_known: bool = False
    # Key of the message that may have arrived with this delivery. It is repeated with the same key
    message_key: str | None = None
    reason: str | None = None  # why it is held, failed, was given up or dropped
    next_attempt_at: datetime | None = None  # None after the delivery is settled
    settled_at: datetime | None = None


@immutable
class Notification:
    """The result of one attempt to deliver, or the reason why there was no attempt."""

    delivery_id: int
    at: datetime
    status: DeliveryStatus
    reason: str | None
    next_attempt_at: datetime | None
    may_be_known: bool = False  # the receiver may have the message although the attempt failed
    message_key: str | None = None  # key of the message that the receiver may have
    fallback: str | None = None  # the receiver that gets the delivery instead
    repeat_at: datetime | None = None  # when to send the start again if the alert still fires
    is_receiver_removed: bool = False  # whether the receiver was removed from the configuration


@immutable
class KnownCause:
    """The cause that an earlier run of an incident found.

    ``slot`` is the slot of that run. ``sentence`` may contain several sentences.
    """

    slot: datetime
    sentence: str


@immutable
class Briefing:
    """Facts about a run. Messages show them."""

    slot: datetime | None = None  # None if the run is not stored
    explanation: Explanation | None = None
    examples: tuple[ExampleLists, ...] = ()  # users whose lists show what changed, two at most
    models: tuple[str, ...] = ()  # sentences on the models that changed
    reasons: RunReasons = ()  # why the run could not be judged
    # If this run found no cause, the cause from the newest earlier run of the incident that found
    # one.
    known_cause: KnownCause | None = None

    @property
    def finding(self) -> Finding | None:
        """The fault of the run. None if no fault is known."""
        return None if self.explanation is None else self.explanation.finding


class MessageStatus(StrEnum):
    """The state of a whole incident, as a message shows it."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Updates(StrEnum):
    """What a receiver gets if alerts join an incident and nobody has to be woken again."""

    NONE = "none"  # the next message of the incident includes them
    QUIET = "unpaged"  # it gets a message that wakes nobody
    EACH = "each"  # it gets each change at once, even ends, and groups alerts itself


@immutable
class Treatment:
    """How a receiver must be treated: resending, repetitions, updates and pictures."""

    # How often to resend firing alerts so that the receiver does not resolve them; None for never
    resend_every_s: float | None = None
    # How often to repeat an incident that nobody has acknowledged; None for never
    repeat_every_s: float | None = None
    updates: Updates = Updates.NONE
    shows_pictures: bool = False


@immutable
class Message:
    """One message to one receiver, about one incident of one comparison.

    ``changes`` and ``firing`` are not both empty.
    """

    incident: str  # key of the incident, the same in all its messages
    comparison: str
    severity: Severity
    # Starts, acknowledgements and ends, in the order of storing. Empty in a repetition
    changes: tuple[Transition, ...]
    # Starts of all current firings that the receiver got before or gets with this message, oldest
    # first. Empty at the end of the incident.
    firing: tuple[Transition, ...] = ()
    # The first start of the incident that was sent. Empty if it is unknown
    first: tuple[Transition, ...] = ()
    is_repetition: bool = False
    briefing: Briefing | None = None
    interval: timedelta | None = None  # the longest time between two runs of the comparison
    acknowledged: frozenset[str] = frozenset()  # keys of acknowledged firings
    wake_ups: int = 1  # how often the incident woke people by this receiver, including now
    wake_ups_before: int = 0  # how often it had woken them before this message
    # Why people are woken again, as a text. None for the first time, or if nobody is woken.
    worse: str | None = None
    # Alerts joined an incident that the receiver already has, so nobody has to be woken
    is_update: bool = False
    key: str | None = None  # set as soon as the message may have arrived
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
        """The status is ``acknowledged`` only if this message acknowledges all current firings."""
        if not self.firing:
            return MessageStatus.RESOLVED
        acknowledges = all(change.is_acknowledgement for change in self.changes)
        # If one firing is not acknowledged, people must still be woken.
        acknowledged = self.acknowledged | {change.dedup_key for change in self.changes}
        is_complete = all(start.dedup_key in acknowledged for start in self.firing)
        if self.changes and acknowledges and is_complete:
            return MessageStatus.ACKNOWLEDGED
        return MessageStatus.FIRING


def message_key(message: Message, now: datetime) -> str:
    """Return the idempotency key, ``incident:digest``.

    If a message may have arrived, it is sent again with the same key. A repetition gets a new key.
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
    """From ``starts_at`` until ``ends_at``, alerts that match all ``matchers`` are not sent."""

    id: int
    matchers: tuple[str, ...]
    author: str
    comment: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime

    def is_active(self, now: datetime) -> bool:
        """Return whether the silence is in force at this time."""
        return self.starts_at <= now < self.ends_at


@immutable
class FiringSnapshot:
    """The firings of one comparison at the time when deliveries to one receiver are decided."""

    firing: tuple[Transition, ...]  # the starts of all current firings, oldest first
    # Keys of firings that the receiver has or may have. Includes firings that have ended
    delivered: frozenset[str]
    # Starts that were sent after the last end of the same incident was sent, in the order of
    # sending.
    sent_starts: tuple[Transition, ...] = ()
    acknowledged: frozenset[str] = frozenset()  # keys of acknowledged firings
    silences: tuple[Silence, ...] = ()  # silences that have not ended, even if they have not begun
    # Each receiver that rejected a firing, with the firing's key. Includes other receivers
    refused: frozenset[tuple[str, str]] = frozenset()
