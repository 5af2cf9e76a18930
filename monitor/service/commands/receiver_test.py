"""Tests receivers. Each receiver gets the start and the end of an alert that is marked as a test.

Nothing is stored.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from monitor.model.alerts import State, Transition
from monitor.model.errors import ConfigError, DeliveryError
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.notifications import Message, MessageStatus
from monitor.model.ports import Clock, Receiver
from monitor.model.rankings import ALL
from monitor.model.rules import RuleKind
from monitor.receivers import open_receivers
from monitor.settings.configuration import Settings

TEST_COMPARISON = "TEST-of-rankwatch"
TEST_ALERT = "TestOfThisReceiver"
RUNBOOK = "index"
"""A test has no runbook, so its message links to the list of all runbooks."""
_BEGUN = (
    "THIS IS A TEST of the receiver, started by hand. Nothing is wrong and nothing has to be done"
)
_OVER = "The test is over. Nothing was wrong and nothing has to be done"


@immutable
class ReceiverReply:
    """The outcome of one test message.

    ``reason`` says why the receiver did not accept the message. ``may_be_known`` says whether the
    message may have arrived in spite of this.
    """

    receiver: str
    status: MessageStatus
    reason: str | None = None
    may_be_known: bool = True


def send_test(
    settings: Settings,
    name: str | None,
    clock: Clock,
    *,
    wait: timedelta,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[ReceiverReply]:
    """Send the start of a test alert to the named receiver or to all, and after ``wait`` its end.

    A receiver gets the end only if it may have got the start. Raises ConfigError if there is no
    receiver.
    """
    start, end = compose_test(clock, settings.runbook_url(RUNBOOK))
    reached: list[Receiver] = []
    for receiver in _select_receivers(settings, name):
        reply = _send(receiver, start, clock)
        if reply.may_be_known:
            reached.append(receiver)
        yield reply
    if reached and wait:
        pause(wait.total_seconds())
    for receiver in reached:
        yield _send(receiver, end, clock)


def _select_receivers(settings: Settings, name: str | None) -> Sequence[Receiver]:
    """Open the named receiver, or all. Raises ConfigError if there is no such receiver."""
    if not settings.receivers:
        raise ConfigError("the configuration has no receivers: add one under receivers")
    entries = settings.receivers
    if name is not None:
        entries = tuple(entry for entry in entries if name in entry.receiver_names)
    if not entries:
        names = ", ".join(settings.receiver_names)
        raise ConfigError(f"no receiver named {name!r}: choose one of {names}")
    receivers = open_receivers(entries, external_url=settings.external_url)
    return [receiver for receiver in receivers if name in (None, receiver.name)]


def _send(receiver: Receiver, message: Message, clock: Clock) -> ReceiverReply:
    """Send the message once, and return what happened."""
    try:
        receiver.send(message, now=clock.now())
    except DeliveryError as error:
        return ReceiverReply(
            receiver=receiver.name,
            status=message.status,
            reason=str(error),
            may_be_known=error.may_be_known,
        )
    return ReceiverReply(receiver=receiver.name, status=message.status)


def compose_test(clock: Clock, runbook_url: str | None = None) -> tuple[Message, Message]:
    """Return the messages of the test: the start of an alert and its end."""
    now = clock.now()
    # Each test has a new key, so it is a new incident.
    name = f"test\n{format_instant(now)}\n{clock.monotonic()}"
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    start = Transition(
        comparison=TEST_COMPARISON,
        alert=TEST_ALERT,
        segment=ALL,
        slot=now,
        at=now,
        from_state=State.QUIET,
        to_state=State.FIRING,
        reason=_BEGUN,
        kind=RuleKind.TEST,
        metric=RuleKind.TEST,
        statistic="mean",
        since=now,
        dedup_key=key,
        labels={"test": "true"},
        runbook_url=runbook_url,
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
