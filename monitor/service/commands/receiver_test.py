"""A test of receivers: each gets a firing that says it is a test, then its end.

Nothing is stored.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from monitor.errors import ConfigError, DeliveryError
from monitor.model.alerts import State, Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Message, MessageStatus
from monitor.model.rankings import ALL
from monitor.ports import Clock, Receiver
from monitor.receivers import open_receivers
from monitor.settings.configuration import Settings

TEST_COMPARISON, TEST_ALERT = "TEST-of-rankwatch", "TestOfThisReceiver"
_BEGUN = (
    "THIS IS A TEST of the receiver, asked for by hand: nothing is wrong and nothing has to be done"
)
_OVER = "The test is over: nothing was wrong and nothing has to be done"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverReply:
    """The outcome of one test message.

    ``trouble``: why it was not accepted, though it ``may_be_known`` all the same.
    """

    receiver: str
    status: MessageStatus
    trouble: str | None = None
    may_be_known: bool = True


def send_test(
    settings: Settings,
    name: str | None,
    clock: Clock,
    *,
    wait: timedelta,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[ReceiverReply]:
    """Send a test to the named receiver, or to all, and after a time its end to those who may have it; ConfigError for none."""
    start, end = compose_test(clock)
    reached: list[Receiver] = []
    for receiver in _select_receivers(settings, name):
        reply = _send(receiver, start, clock)
        reached += [receiver] if reply.may_be_known else []
        yield reply
    if reached and wait:
        pause(wait.total_seconds())
    for receiver in reached:
        yield _send(receiver, end, clock)


def _select_receivers(settings: Settings, name: str | None) -> Sequence[Receiver]:
    entries = [
        entry for entry in settings.receivers if name is None or name in entry.receiver_names
    ]
    if not entries:
        there = (
            ", ".join(each for entry in settings.receivers for each in entry.receiver_names)
            or "none"
        )
        msg = (
            "the configuration has no receivers"
            if name is None
            else f"no receiver named {name!r}: there are {there}"
        )
        raise ConfigError(msg)
    receivers = open_receivers(entries, external_url=settings.external_url)
    return [receiver for receiver in receivers if name in (None, receiver.name)]


def _send(receiver: Receiver, message: Message, clock: Clock) -> ReceiverReply:
    try:
        receiver.send(message, now=clock.now())
    except DeliveryError as error:
        return ReceiverReply(
            receiver=receiver.name,
            status=message.status,
            trouble=str(error),
            may_be_known=error.may_be_known,
        )
    return ReceiverReply(receiver=receiver.name, status=message.status)


def compose_test(clock: Clock) -> tuple[Message, Message]:
    """The firing that says it is a test, and its end."""
    now = clock.now()
    # An incident that there never was before and never will be again.
    key = hashlib.sha256(f"test\n{format_instant(now)}\n{clock.monotonic()}".encode()).hexdigest()[
        :32
    ]
    start = Transition(
        comparison=TEST_COMPARISON,
        alert=TEST_ALERT,
        segment=ALL,
        slot=now,
        at=now,
        from_state=State.QUIET,
        to_state=State.FIRING,
        reason=_BEGUN,
        metric="test",
        statistic="mean",
        since=now,
        dedup_key=key,
        labels={"test": "true"},
        incident=key,
    )
    end = replace(start, from_state=State.FIRING, to_state=State.QUIET, reason=_OVER)
    begun = Message(
        incident=key,
        comparison=TEST_COMPARISON,
        severity=start.severity,
        changes=(start,),
        firing=(start,),
    )
    return begun, replace(begun, changes=(end,), firing=())
