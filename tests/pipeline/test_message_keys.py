"""A message that may have arrived is repeated unchanged and with its key.

Alerts that join are in the next message.
"""

import pytest

from factories import DAY, HOUR, MINUTE
from monitor.model.errors import DeliveryError
from monitor.model.notifications import Treatment
from pipeline.test_delivery import DOWN, SILENT, FakeReceiver, Scene

BOTH = ("all", "a=1")


class KeptMessages(FakeReceiver):
    """Keeps each message that it reads, also a message that it does not answer."""

    def send(self, message, *, now):
        error = self.errors.pop(0) if self.errors else None
        if not isinstance(error, DeliveryError) or error.may_be_known:
            self.sent.append(message)
        if error is not None:
            raise error


def messages_of(scene):
    """Return the messages that were read: the key, and the segments that change or fire."""
    return [
        (each.key, sorted(change.segment for change in each.changes or each.firing))
        for each in scene.receiver.sent
    ]


@pytest.fixture
def scene(store):
    return Scene(store, receiver=KeptMessages())


def test_alerts_that_join_do_not_change_a_message_that_may_have_arrived(scene):
    scene.receiver.errors = [SILENT, SILENT]
    scene.fire_and_deliver()
    scene.fire_and_deliver(HOUR, segments=BOTH)
    scene.deliver(after=HOUR)

    (key, _), *again = messages_of(scene)
    assert again == [(key, ["all"])] * 2
    assert scene.receiver.sent[-1].is_update is False
    scene.end(HOUR, segments=BOTH)
    scene.deliver(after=HOUR)
    assert messages_of(scene)[-1][1] == ["a=1", "all"]
    assert scene.waiting() == 0


def test_a_message_that_was_not_sent_is_composed_again_with_the_alerts_that_joined(scene):
    scene.receiver.errors = [DOWN]
    scene.fire_and_deliver()
    scene.fire(HOUR, segments=BOTH)
    scene.deliver(after=HOUR)

    assert [segments for _, segments in messages_of(scene)] == [["a=1", "all"]]


@pytest.mark.parametrize("ends", [True, False])
def test_a_part_that_ended_or_is_silenced_is_repeated_with_the_rest(scene, ends):
    scene.receiver.errors = [SILENT]
    scene.fire_and_deliver(segments=BOTH)
    scene.resolve("a=1") if ends else scene.silence("segment=a=1")
    scene.deliver(after=HOUR)

    first, second = messages_of(scene)
    assert first == second
    assert scene.held() == 0
    scene.end(HOUR, segments=BOTH)
    scene.deliver(after=HOUR)
    assert messages_of(scene)[2][1] == ["a=1", "all"]


def test_after_a_sender_died_the_next_one_uses_the_same_key(scene):
    scene.receiver.errors = [KeyboardInterrupt()]
    scene.fire()
    with pytest.raises(KeyboardInterrupt):
        scene.deliver()
    assert scene.deliver().sent == 0  # until the claim of the dead process expires
    (left,) = scene.store.outbox.deliveries(receiver="fake", given_up_limit=0, limit=9)
    scene.fire(HOUR, segments=BOTH)
    scene.deliver(after=HOUR)

    assert messages_of(scene) == [(left.message_key, ["all"])] * 2


def test_a_repetition_that_may_have_arrived_keeps_its_key_until_it_has(scene):
    scene.receiver.treatment = Treatment(repeat_every_s=DAY.total_seconds())
    scene.fire_and_deliver()
    scene.receiver.errors = [SILENT, DOWN]
    sender = scene.open_sender()
    for pause in (DAY, HOUR):
        scene.wait(pause)
        with pytest.raises(DeliveryError):
            sender.repeat_due()
    for pause in (HOUR, DAY + MINUTE):
        scene.wait(pause)
        sender.repeat_due()

    start, first, _, next_day = (key for key, _ in messages_of(scene))
    assert len({start, first, next_day}) == 3
    assert scene.receiver.sent[1] == scene.receiver.sent[2]
