"""A database that is away, cut, silent, slow or full: who notices, who is told what, and that work goes on by itself."""

import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import make_url

from factories import HOUR, HeldClock
from logs import captured
from monitor.export.publisher import PrometheusPublisher
from monitor.model.daemon_state import DatabaseAway
from monitor.model.errors import DatabaseError, DatabaseErrorKind
from monitor.model.notifications import MessageStatus, Treatment
from monitor.service.daemon import jobs, outage
from monitor.service.daemon.daemon import Daemon
from monitor.service.daemon.outage import (
    CALM_S,
    REFUSED_PAUSE_S,
    REPEAT_S,
    OutageAlert,
    OutageMonitor,
)
from monitor.storage import schema_version
from pipeline.test_delivery import DOWN, REFUSED, SILENT, FakeReceiver
from pipeline.test_message_keys import KeptMessages
from servers.daemon import wait_for
from servers.proxy import Proxy, proxying
from service.lists_world import write_world
from service.stepped_daemon import watching
from service.test_clock import NOON

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def proxy(postgres_url):
    port = make_url(postgres_url).port
    assert port is not None
    with proxying(port) as proxy:
        yield proxy


@pytest.fixture
def config(tmp_path, postgres_url, proxy, collector):
    url = make_url(postgres_url).set(port=proxy.port).render_as_string(hide_password=False)
    return write_world(tmp_path, url, every="1h", receivers=hook(collector))


def hook(collector):
    return f'receivers: [{{webhook: {{url: "{collector.url}/hook", timeout: 5s}}}}]\n'


def told(collector):
    return [
        json.loads(each.body)["status"]
        for each in collector.requests
        if b"DatabaseAway" in each.body
    ]


def is_away(watched):
    return watched.value("database_up") == 0 and watched.status_of("/-/ready") == 503


def test_a_database_that_is_away_at_the_start_is_waited_for_and_on_call_hears_of_it_once_until_it_is_back(
    config, proxy, collector
):
    proxy.refuse()
    with watching(config) as watched:
        assert is_away(watched)
        assert "No states have been read yet" in watched.text_of("/")
        assert watched.status_of("/-/healthy") == 200
        assert (watched.value('database_errors_total{reason="unreachable"}') or 0) >= 1
        watched.let_pass(MINUTE)
        assert told(collector) == []
        watched.pass_until(lambda: told(collector), "the message", 20 * SECOND)
        proxy.resume()
        watched.pass_until(lambda: watched.status_of("/-/ready") == 200, "readiness", SECOND)
        wait_for(watched.runs, "a run")
        watched.pass_until(lambda: told(collector)[-1] == "resolved", "the end")
        assert told(collector) == ["firing", "resolved"]
        assert watched.value("database_up") == 1


@pytest.mark.parametrize("fault", [Proxy.cut, Proxy.hang])
def test_after_a_fault_in_mid_run_the_slot_is_run_once_and_work_goes_on_by_itself_also_slowly(
    config, proxy, fault, monkeypatch
):
    monkeypatch.setattr(jobs, "PROBE_LIMIT", 2 * SECOND)
    with watching(config) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._in_force.wiring.watched["feed"]
        with hung.in_use:
            watched.let_pass(HOUR)
            wait_for(lambda: watched.daemon._runner.claims, "a run under way")
            fault(proxy)
        if fault is not Proxy.cut:
            watched.pass_until(lambda: is_away(watched), "that it is away", SECOND)
            wait_for(lambda: watched.status_of("/-/healthy") == 200, "the next look at the clocks")
            for page in ("/", "/daemon"):
                assert "The database has been away since" in watched.text_of(page)
            assert "was quiet" in watched.text_of("/")
        proxy.resume()
        watched.await_run(NOON + HOUR)
        watched.pass_until(lambda: watched.status_of("/-/ready") == 200, "readiness", SECOND)
        assert set(watched.runs()) == {NOON, NOON + HOUR}
        proxy.slow(0.02)  # slow is no outage
        watched.let_pass(HOUR)
        watched.await_run(NOON + 2 * HOUR)
        assert watched.status_of("/-/ready") == 200
        proxy.resume()


def test_what_waiting_will_not_mend_is_an_error_at_the_start(tmp_path, postgres_url):
    url = (
        make_url(postgres_url)
        .set(database="no_such_database")
        .render_as_string(hide_password=False)
    )
    daemon = Daemon(write_world(tmp_path, url))
    with pytest.raises(DatabaseError) as caught:
        daemon.start()
    assert caught.value.permanent


@pytest.mark.integration
def test_a_database_of_another_schema_is_away_until_it_is_upgraded_although_it_can_be_written(
    tmp_path, url
):
    with watching(write_world(tmp_path, url, every="1h")) as watched:
        refused = 'database_errors_total{reason="schema"}'
        watched.await_run(NOON)
        schema_version.downgrade(url, "-1")
        watched.pass_until(lambda: (watched.value(refused) or 0) >= 3, "looks", 5 * SECOND)
        assert is_away(watched)
        schema_version.upgrade(url)
        watched.pass_until(lambda: watched.value("database_up") == 1, "that it is back", 5 * SECOND)


AWAY = DatabaseError(
    "PostgreSQL database x at y:5432 cannot be reached",
    permanent=False,
    kind=DatabaseErrorKind.UNREACHABLE,
)


def heard(receiver):
    return [(each.status, each.is_repetition) for each in receiver.sent]


@dataclass
class World:
    clock: HeldClock
    database: OutageMonitor
    alert: OutageAlert
    publisher: PrometheusPublisher

    def after(self, seconds, receiver):
        self.clock.pass_by(seconds)
        self.alert.notify(receiver)


@pytest.fixture
def world():
    clock = HeldClock()
    publisher = PrometheusPublisher(version="1")
    publisher.register([], receivers=["pager"])
    database = OutageMonitor(clock=clock, publisher=publisher)
    two_minutes = timedelta(minutes=2)
    alert = OutageAlert(database=database, location="x", alert_after=lambda: two_minutes)
    return World(clock, database, alert, publisher)


def test_a_database_that_was_not_read_for_a_minute_is_said_to_be_away_before_anybody_knows_why(
    world,
):
    now = world.clock.now()
    assert outage.database_away(None, None, now) is None
    assert outage.database_away(None, now - MINUTE, now) is None
    unread = now - MINUTE - SECOND
    assert outage.database_away(None, unread, now) == DatabaseAway(
        since=unread, reason=None, read_at=unread
    )
    world.database.failed(AWAY)
    assert outage.database_away(world.database.outage, None, now) == DatabaseAway(
        since=now, reason=str(AWAY), read_at=None
    )


FIRING, RESOLVED = (MessageStatus.FIRING, False), (MessageStatus.RESOLVED, False)


def test_an_outage_is_told_after_two_minutes_again_every_four_hours_and_its_end_after_a_minute_of_calm(
    world,
):
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
    keys = {
        (each.incident, *(change.dedup_key for change in each.changes or each.firing))
        for each in pager.sent
    }
    assert len(keys) == 1
    world.after(REPEAT_S, pager)
    assert len(heard(pager)) == 3


def test_who_must_be_told_again_to_keep_it_firing_is_told_at_his_own_pace(world):
    alertmanager = FakeReceiver("pager", treatment=Treatment(resend_every_s=60))
    world.database.failed(AWAY)
    for seconds in (121, 61, 61, 61):
        world.after(seconds, alertmanager)
    assert len(heard(alertmanager)) == 4


@pytest.mark.parametrize(
    ("error", "told"), [(SILENT, [RESOLVED]), (DOWN, [])], ids=["may have arrived", "never told"]
)
def test_the_end_of_an_outage_is_told_to_who_may_have_heard_of_it_and_to_nobody_else(
    world, error, told
):
    pager = FakeReceiver("pager", errors=[error])
    world.database.failed(AWAY)
    world.after(121, pager)
    world.database.answered()
    world.after(CALM_S + 1, pager)
    assert heard(pager) == told


def test_the_end_of_an_outage_that_may_have_arrived_is_repeated_with_its_key(world):
    pager = KeptMessages("pager")
    world.database.failed(AWAY)
    world.after(121, pager)
    world.database.answered()
    pager.errors = [SILENT]
    world.after(CALM_S + 1, pager)
    world.after(121, pager)

    _, end, same = pager.sent
    assert (end.key, end.changes) == (same.key, same.changes)


def test_every_attempt_is_counted_so_that_one_who_watches_the_series_hears_of_a_receiver_that_cannot_be_told(
    world,
):
    pager = FakeReceiver("pager", errors=[DOWN, SILENT])
    world.database.failed(AWAY)
    for _ in range(3):
        world.after(121, pager)

    page = world.publisher.render()[0].decode()
    assert heard(pager) == [FIRING]
    for line in (
        'rankwatch_delivery_errors_total{reason="unreachable",receiver="pager"} 1.0',
        'rankwatch_delivery_errors_total{reason="no_answer",receiver="pager"} 1.0',
        'rankwatch_notifications_total{outcome="retry",receiver="pager"} 2.0',
        'rankwatch_notifications_total{outcome="sent",receiver="pager"} 1.0',
    ):
        assert line in page.splitlines()


def test_who_refuses_for_good_is_tried_again_after_a_long_pause(world):
    pager = FakeReceiver("pager", errors=[REFUSED])
    world.database.failed(AWAY)
    world.after(121, pager)
    world.after(REFUSED_PAUSE_S - 10, pager)
    assert heard(pager) == []
    world.after(11, pager)
    assert heard(pager) == [FIRING]


def test_writers_that_give_way_to_each_other_are_no_outage(world):
    world.database.failed(
        DatabaseError("gave way", permanent=False, kind=DatabaseErrorKind.CONFLICT)
    )
    assert world.database.outage is None


def test_databases_of_one_name_are_told_apart_by_the_installation_where_it_is_named(world):
    world.database.failed(AWAY)
    assert world.database.outage is not None
    starts = [
        outage.compose_outage_start(world.database.outage, world.clock.now(), "x", name)
        for name in (None, "a", "b")
    ]
    assert len({start.incident for start in starts}) == 3
    assert [start.labels for start in starts] == [{}, {"installation": "a"}, {"installation": "b"}]


def test_a_database_that_comes_and_goes_is_one_outage_until_a_minute_of_calm(world, monkeypatch):
    pager, lines = FakeReceiver("pager"), captured(monkeypatch, outage)
    for _ in range(3):
        world.database.failed(AWAY)
        world.after(30, pager)
        world.database.answered()
        world.after(CALM_S / 2, pager)
    for _ in range(2):
        world.database.failed(AWAY)
    world.after(10, pager)
    assert heard(pager) == [FIRING]
    world.database.answered()
    world.after(CALM_S + 1, pager)
    assert heard(pager) == [FIRING, RESOLVED]
    assert [line["event"] for line in lines.entries].count("database away") == 4
    world.database.failed(AWAY)  # the next one
    world.after(100, pager)
    assert len(heard(pager)) == 2
