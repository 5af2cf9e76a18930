"""What receivers are told of a database that is away, decided message by message."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from logs import captured
from monitor.errors import DatabaseError, DatabaseTrouble, DeliveryError
from monitor.export import PrometheusPublisher
from monitor.model.notifications import MessageStatus, Treatment
from monitor.service.daemon import outage
from monitor.service.daemon.outage import CALM_S, REFUSED_PAUSE_S, REPEAT_S, OutageAlert, OutageMonitor
from pipeline.test_delivery import FakeReceiver
from service.stepped_daemon import SteppedClock

AWAY = DatabaseError("PostgreSQL database x at y:5432 cannot be reached", permanent=False, trouble=DatabaseTrouble.UNREACHABLE)


def heard(receiver: FakeReceiver) -> list[tuple[MessageStatus, bool]]:
    return [(each.status, each.is_repetition) for each in receiver.sent]


@dataclass
class World:
    clock: SteppedClock
    database: OutageMonitor
    alert: OutageAlert
    publisher: PrometheusPublisher

    def after(self, seconds: float, receiver: FakeReceiver) -> None:
        self.clock.let_pass(timedelta(seconds=seconds))
        self.alert.notify(receiver)


@pytest.fixture
def world() -> World:
    clock = SteppedClock()
    publisher = PrometheusPublisher(version="1")
    publisher.watch([], receivers=["pager"])
    database = OutageMonitor(clock=clock, publisher=publisher)
    two_minutes = timedelta(minutes=2)
    alert = OutageAlert(database=database, place="x", alert_after=lambda: two_minutes)
    return World(clock, database, alert, publisher)


FIRING, RESOLVED = (MessageStatus.FIRING, False), (MessageStatus.RESOLVED, False)


def test_an_outage_is_told_after_two_minutes_again_every_four_hours_and_its_end_after_a_minute_of_calm(world: World) -> None:
    pager = FakeReceiver("pager")
    world.database.failed(AWAY)
    world.after(119, pager)
    assert heard(pager) == []
    world.after(2, pager)
    world.after(REPEAT_S - 10, pager)
    assert heard(pager) == [FIRING]
    world.after(11, pager)
    assert heard(pager) == [FIRING, (MessageStatus.FIRING, True)]
    world.database.answered()
    world.after(CALM_S - 5, pager)
    assert len(heard(pager)) == 2
    world.after(6, pager)
    assert heard(pager)[2:] == [RESOLVED]
    assert len({(each.incident, *(change.dedup_key for change in each.changes or each.firing)) for each in pager.sent}) == 1
    world.after(REPEAT_S, pager)
    assert len(heard(pager)) == 3


def test_who_must_be_told_again_to_keep_it_firing_is_told_at_his_own_pace(world: World) -> None:
    alertmanager = FakeReceiver("pager", treatment=Treatment(resend_every_s=60))
    world.database.failed(AWAY)
    world.after(121, alertmanager)
    for _ in range(3):
        world.after(61, alertmanager)
    assert len(heard(alertmanager)) == 4


def test_a_message_that_may_have_arrived_is_sent_again_and_its_end_is_told(world: World) -> None:
    pager = FakeReceiver("pager", errors=[DeliveryError("no answer", permanent=False, may_be_known=True)])
    world.database.failed(AWAY)
    world.after(121, pager)
    world.database.answered()
    world.after(CALM_S + 1, pager)
    assert heard(pager) == [RESOLVED]


def test_every_attempt_is_counted_so_that_one_who_watches_the_series_hears_of_a_receiver_that_cannot_be_told(
    world: World,
) -> None:
    pager = FakeReceiver(
        "pager",
        errors=[DeliveryError("no route", permanent=False), DeliveryError("no answer", permanent=False, may_be_known=True)],
    )
    world.database.failed(AWAY)
    for _ in range(3):
        world.after(121, pager)

    page = world.publisher.render()[0].decode()
    assert heard(pager) == [(MessageStatus.FIRING, False)]
    for line in (
        'rankwatch_delivery_errors_total{reason="unreachable",receiver="pager"} 1.0',
        'rankwatch_delivery_errors_total{reason="no_answer",receiver="pager"} 1.0',
        'rankwatch_notifications_total{outcome="retry",receiver="pager"} 2.0',
        'rankwatch_notifications_total{outcome="sent",receiver="pager"} 1.0',
    ):
        assert line in page.splitlines()


def test_of_an_outage_that_was_never_told_no_end_is_told(world: World) -> None:
    pager = FakeReceiver("pager", errors=[DeliveryError("refused the connection", permanent=False)])
    world.database.failed(AWAY)
    world.after(121, pager)
    world.database.answered()
    world.after(CALM_S + 1, pager)
    assert heard(pager) == []


def test_who_refuses_for_good_is_tried_again_after_a_long_pause(world: World) -> None:
    pager = FakeReceiver("pager", errors=[DeliveryError("answered 404", permanent=True)])
    world.database.failed(AWAY)
    world.after(121, pager)
    world.after(REFUSED_PAUSE_S - 10, pager)
    assert heard(pager) == []
    world.after(11, pager)
    assert heard(pager) == [FIRING]


def test_writers_that_give_way_to_each_other_are_no_outage(world: World) -> None:
    world.database.failed(DatabaseError("gave way", permanent=False, trouble=DatabaseTrouble.CONFLICT))
    assert world.database.outage is None


def test_databases_of_one_name_are_told_apart_by_the_installation_where_it_is_named(world: World) -> None:
    world.database.failed(AWAY)
    assert world.database.outage is not None
    starts = [outage.start_of(world.database.outage, world.clock.now(), "x", name) for name in (None, "a", "b")]
    assert len({start.incident for start in starts}) == 3
    assert [start.labels for start in starts] == [{}, {"installation": "a"}, {"installation": "b"}]


def test_of_several_outages_in_a_row_each_is_logged_with_how_long_it_lasted_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = captured(monkeypatch, outage)
    for away_s in (50, 5):
        world.database.failed(AWAY)
        world.clock.let_pass(timedelta(seconds=away_s))
        world.database.answered()
        world.clock.let_pass(timedelta(seconds=CALM_S / 2))
    assert [entry["away_s"] for entry in logged.entries if entry["event"] == "database back"] == [50.0, 5.0]


def test_a_database_that_comes_and_goes_is_one_outage(world: World) -> None:
    pager = FakeReceiver("pager")
    for _ in range(3):
        world.database.failed(AWAY)
        world.after(30, pager)
        world.database.answered()
        world.after(CALM_S / 2, pager)
    world.database.failed(AWAY)
    world.after(10, pager)
    assert heard(pager) == [FIRING]
    world.database.answered()
    world.after(CALM_S + 1, pager)
    assert heard(pager) == [FIRING, RESOLVED]


def test_the_next_outage_after_a_calm_begins_anew(world: World) -> None:
    world.database.failed(AWAY)
    world.clock.let_pass(timedelta(hours=1))
    world.database.answered()
    world.clock.let_pass(timedelta(seconds=CALM_S + 1))
    world.database.failed(AWAY)
    pager = FakeReceiver("pager")
    world.after(100, pager)
    assert heard(pager) == []
