"""Delivery loops, turn by turn."""

from factories import DAY, SLOT, HeldClock, comparison, rule
from monitor.errors import DeliveryError
from monitor.model.notifications import Treatment
from monitor.service.daemon.delivery_loops import LONGEST_REST_S, POLL_S, DeliveryLoop
from pipeline.owed_run import store_run
from pipeline.test_delivery import FakeReceiver, outlet

BUSY = DeliveryError("fake answered 429", permanent=False, retry_after_s=120)


def test_a_receiver_that_asks_for_a_pause_is_told_nothing_at_all_until_it_is_over(store) -> None:
    clock, receiver = HeldClock(), FakeReceiver(errors=[BUSY], treatment=Treatment(resend_every_s=1))
    loop = DeliveryLoop(sender=outlet(store, receiver, clock))
    store_run(store, 0.1)
    assert loop.take_turn() == LONGEST_REST_S
    store_run(store, 0.1, watched=comparison(name="search", rules=(rule(for_runs=1),)))
    clock.pass_by(119)
    assert loop.take_turn() == 1
    assert receiver.sent == []
    clock.pass_by(DAY.total_seconds())
    assert loop.take_turn() == POLL_S
    assert {change.comparison for change in receiver.told} == {"home-feed", "search"}


def test_what_lasts_is_told_again_in_the_turn_in_which_it_is_due(store) -> None:
    clock, receiver = HeldClock(SLOT), FakeReceiver(treatment=Treatment(resend_every_s=60))
    loop = DeliveryLoop(sender=outlet(store, receiver, clock))
    store_run(store, 0.1)
    for _ in range(3):
        loop.take_turn()
        clock.pass_by(30)
    assert [message.is_repetition for message in receiver.sent] == [False, True, True]
