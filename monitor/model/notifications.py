"""The outbox and what it sends: deliveries, notifications, messages, silences."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.model.alerts import Transition
from monitor.model.explanation import ExampleLists, Explanation
from monitor.model.instants import format_instant
from monitor.model.rules import Severity


class DeliveryStatus(StrEnum):
    """Where an outbox row stands."""

    PENDING = "pending"  # to be sent
    HELD = "held"  # not now (silenced, in maintenance, muted), looked at again and again
    SENT = "sent"
    DEAD = "dead"  # rejected permanently
    DROPPED = "dropped"  # no longer worth sending


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One transition owed to one receiver, and how it stands."""

    id: int
    transition_id: int
    receiver: str
    attempts: int  # made so far
    transition: Transition
    status: DeliveryStatus = DeliveryStatus.PENDING
    may_be_known: bool = (
        False  # an earlier attempt was not recorded: the process died, or the answer did not come
    )
    message_key: str | None = (
        None  # of the message that may have arrived with it: it is repeated under this key
    )
    reason: str | None = None  # why it is held, failed, was given up or dropped
    next_attempt_at: datetime | None = None  # None once it is settled
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What came of one attempt to deliver, or why none was made, in words."""

    delivery_id: int
    at: datetime
    status: DeliveryStatus
    reason: str | None
    next_attempt_at: datetime | None
    may_be_known: bool = False  # the receiver may have taken it although the attempt failed
    message_key: str | None = None  # of the message that it may have taken
    fallback: str | None = None  # who is owed it from now on
    repeat_at: datetime | None = None  # when it is repeated if it still fires then


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """What is known of the run in which something began to fire, beyond its transitions."""

    explanation: Explanation | None = None
    examples: tuple[ExampleLists, ...] = ()  # users whose lists show what changed, two at most
    models: tuple[str, ...] = ()  # sentences on those that changed


class MessageStatus(StrEnum):
    """The state of an incident as a whole, as a message shows it."""

    FIRING = "firing"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


class Updates(StrEnum):
    """What a receiver is sent of changes that need no page: of alerts that join an incident which it knows."""

    NONE = "none"  # the next message of the incident includes them
    UNPAGED = "unpaged"  # a message that it takes without paging anybody
    EACH = "each"  # each change at once, ends too: it groups and inhibits by itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """How a receiver wants to be treated."""

    resend_every_s: float | None = (
        None  # for firing alerts to stay firing there; None where sending once is enough
    )
    repeat_every_s: float | None = (
        None  # for an incident that lasts and that nobody looks after; None for never
    )
    updates: Updates = Updates.NONE
    shows_pictures: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one receiver is sent at once: changes of one incident of one comparison.

    ``changes`` or ``firing`` holds some.
    """

    incident: str  # shared by all messages of the incident and by nothing else
    comparison: str
    severity: Severity
    changes: tuple[
        Transition, ...
    ]  # starts, acknowledgements, ends in the order they were stored; none in a repetition
    firing: tuple[
        Transition, ...
    ] = ()  # starts of all firings that last and it then knows of, oldest first; none at the end
    first: tuple[
        Transition, ...
    ] = ()  # the start that was sent first of the incident; none where it is not known
    is_repetition: bool = False
    briefing: Briefing | None = None
    acknowledged: frozenset[str] = frozenset()  # keys of firings that somebody looks after
    pages: int = 1  # how many times the incident has paged this receiver, with this message
    pages_before: int = 0  # how many of these it had before this message
    worse: str | None = (
        None  # why it pages again, in words; None for the first page and where it pages nobody
    )
    is_update: bool = (
        False  # alerts joined an incident that the receiver knows: nobody needs to be paged
    )
    key: str | None = None  # given once it may have arrived: see `message_key`
    picture: bytes | None = field(
        default=None, repr=False
    )  # PNG of the metric over time, for receivers that show pictures

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
        """``resolved`` once nothing of the incident fires, ``acknowledged`` when all of it that fires has become so."""
        if not self.firing:
            return MessageStatus.RESOLVED
        is_told = bool(self.changes) and all(change.is_acknowledgement for change in self.changes)
        # An acknowledgement of a part must not stop those who are paged for the rest.
        looked_after = self.acknowledged | {change.dedup_key for change in self.changes}
        is_whole = all(start.dedup_key in looked_after for start in self.firing)
        return MessageStatus.ACKNOWLEDGED if is_told and is_whole else MessageStatus.FIRING


def message_key(message: Message, now: datetime) -> str:
    """The idempotency key, ``incident:digest``.

    A message that may have arrived keeps its key; each repetition has its own.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts that all ``matchers`` match are held back from ``starts_at`` until ``ends_at``."""

    id: int
    matchers: tuple[str, ...]
    author: str
    comment: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime

    def is_active(self, now: datetime) -> bool:
        """Whether it holds at this time."""
        return self.starts_at <= now < self.ends_at


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringSnapshot:
    """What fires in one comparison at the time when deliveries to one receiver are decided on."""

    firing: tuple[Transition, ...]  # the starts of all firings that last, oldest first
    delivered: frozenset[
        str
    ]  # keys of the firings, ended ones too, that the receiver has or may have
    told: tuple[
        Transition, ...
        # Starts that it was sent of incidents whose end it was not sent since, as they were sent
    ] = ()
    acknowledged: frozenset[str] = frozenset()  # keys of acknowledged firings
    silences: tuple[Silence, ...] = ()  # active ones
    refused: frozenset[tuple[str, str]] = (
        frozenset()
    )  # receivers, others too, that rejected a firing, each with its key
