"""A database that is away, cut off, silent or slow: who is notified, and that the daemon continues."""

import pytest
from sqlalchemy import make_url

from factories import HOUR, MINUTE, SECOND, HeldClock
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
    return [each.json()["status"] for each in collector.requests if b"DatabaseAway" in each.body]


def is_away(watched):
    return watched.value("database_up") == 0 and watched.status_of("/-/ready") == 503


def test_the_daemon_waits_for_a_database_that_is_away_and_notifies_once(config, proxy, collector):
    proxy.refuse()
    with watching(config) as watched:
        assert is_away(watched)
        assert "No states have been read yet" in watched.text_of("/")
        assert watched.status_of("/-/healthy") == 200
        assert (watched.value('database_errors_total{reason="unreachable"}') or 0) >= 1
        watched.let_pass(MINUTE)
        assert not told(collector)
        watched.pass_until(lambda: told(collector), "the message", 20 * SECOND)
        proxy.resume()
        watched.pass_until(lambda: watched.status_of("/-/ready") == 200, "readiness", SECOND)
        wait_for(watched.runs, "a run")
        watched.pass_until(lambda: told(collector)[-1] == "resolved", "the end")
        assert told(collector) == ["firing", "resolved"]
        assert watched.value("database_up") == 1


@pytest.mark.parametrize("fault", [Proxy.cut, Proxy.hang])
def test_after_a_fault_of_the_database_the_slot_runs_once_and_the_daemon_continues(
    config, proxy, fault, monkeypatch
):
    monkeypatch.setattr(jobs, "PROBE_LIMIT", 2 * SECOND)
    with watching(config) as watched:
        watched.await_run(NOON)
        hung = watched.daemon._wiring.watched["feed"]
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


def test_a_permanent_error_of_the_database_ends_the_start(tmp_path, postgres_url):
    url = make_url(postgres_url).set(database="no_such_database")
    daemon = Daemon(write_world(tmp_path, url.render_as_string(hide_password=False)))
    with pytest.raises(DatabaseError) as caught:
        daemon.start()
    assert caught.value.permanent


@pytest.mark.integration
def test_a_database_with_another_schema_is_away_until_it_is_upgraded(tmp_path, url):
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


class World:
    """A monitor of the database, and a receiver that gets its alert."""

    def __init__(self):
        self.clock = HeldClock()
        self.pager = FakeReceiver("pager")
        self.publisher = PrometheusPublisher(version="1")
        self.publisher.register([], receivers=["pager"])
        self.database = OutageMonitor(clock=self.clock, publisher=self.publisher)
        self.alert = OutageAlert(
            database=self.database, location="x", alert_after=lambda: 2 * MINUTE
        )

    def fail(self):
        self.database.failed(AWAY)

    def after(self, seconds):
        self.clock.pass_by(seconds)
        self.alert.notify(self.pager)

    @property
    def heard(self):
        return [(each.status, each.is_repetition) for each in self.pager.sent]


@pytest.fixture
def world():
    return World()


def test_a_database_that_was_not_read_for_a_minute_is_reported_as_away(world):
    now = world.clock.now()
    assert outage.database_away(None, None, now) is None
    assert outage.database_away(None, now - MINUTE, now) is None
    unread = now - MINUTE - SECOND
    away = DatabaseAway(since=unread, reason=None, read_at=unread)
    assert outage.database_away(None, unread, now) == away
    world.fail()
    away = DatabaseAway(since=now, reason=str(AWAY), read_at=None)
    assert outage.database_away(world.database.outage, None, now) == away


FIRING = (MessageStatus.FIRING, False)
RESOLVED = (MessageStatus.RESOLVED, False)


def test_an_outage_is_reported_after_two_minutes_and_every_four_hours_and_its_end_after_a_calm_minute(
    world,
):
    world.fail()
    world.after(119)
    assert not world.heard
    world.after(2)
    world.after(REPEAT_S - 10)
    assert world.heard == [FIRING]
    world.after(11)
    assert world.heard == [FIRING, (MessageStatus.FIRING, True)]
    world.database.answered()
    world.after(CALM_S - 5)
    assert len(world.heard) == 2
    world.after(6)
    assert world.heard[2:] == [RESOLVED]
    sent = world.pager.sent
    assert len({each.incident for each in sent}) == 1
    assert len({change.dedup_key for each in sent for change in each.changes or each.firing}) == 1
    world.after(REPEAT_S)
    assert len(world.heard) == 3


def test_a_receiver_that_needs_resends_gets_them_at_its_interval(world):
    world.pager.treatment = Treatment(resend_every_s=60)
    world.fail()
    for seconds in (121, 61, 61, 61):
        world.after(seconds)
    assert len(world.heard) == 4


@pytest.mark.parametrize("error, sent", [(SILENT, [RESOLVED]), (DOWN, [])])
def test_the_end_of_an_outage_is_sent_only_if_its_start_may_have_arrived(world, error, sent):
    world.pager.errors = [error]
    world.fail()
    world.after(121)
    world.database.answered()
    world.after(CALM_S + 1)
    assert world.heard == sent


def test_the_end_of_an_outage_that_may_have_arrived_is_repeated_with_its_key(world):
    world.pager = KeptMessages("pager")
    world.fail()
    world.after(121)
    world.database.answered()
    world.pager.errors = [SILENT]
    world.after(CALM_S + 1)
    world.after(121)

    _, end, same = world.pager.sent
    assert end.key == same.key
    assert end.changes == same.changes


def test_every_attempt_to_report_an_outage_is_counted(world):
    world.pager.errors = [DOWN, SILENT]
    world.fail()
    for _ in range(3):
        world.after(121)

    page = world.publisher.render()[0].decode()
    assert world.heard == [FIRING]
    for line in (
        'rankwatch_delivery_errors_total{reason="unreachable",receiver="pager"} 1.0',
        'rankwatch_delivery_errors_total{reason="no_answer",receiver="pager"} 1.0',
        'rankwatch_notifications_total{outcome="retry",receiver="pager"} 2.0',
        'rankwatch_notifications_total{outcome="sent",receiver="pager"} 1.0',
    ):
        assert line in page.splitlines()


def test_a_receiver_that_rejects_the_message_is_tried_again_after_a_long_pause(world):
    world.pager.errors = [REFUSED]
    world.fail()
    world.after(121)
    world.after(REFUSED_PAUSE_S - 10)
    assert not world.heard
    world.after(11)
    assert world.heard == [FIRING]


def test_a_conflict_between_writers_is_no_outage(world):
    conflict = DatabaseErrorKind.CONFLICT
    world.database.failed(DatabaseError("gave way", permanent=False, kind=conflict))
    assert world.database.outage is None


def test_databases_of_one_name_are_distinguished_by_the_installation(world):
    world.fail()
    starts = [
        outage.compose_outage_start(world.database.outage, world.clock.now(), "x", name)
        for name in (None, "a", "b")
    ]
    assert len({start.incident for start in starts}) == 3
    assert [start.labels for start in starts] == [{}, {"installation": "a"}, {"installation": "b"}]


def test_a_database_that_comes_and_goes_is_one_outage_until_a_minute_of_calm(world, monkeypatch):
    lines = captured(monkeypatch, outage)
    for _ in range(3):
        world.fail()
        world.after(30)
        world.database.answered()
        world.after(CALM_S / 2)
    for _ in range(2):
        world.fail()
    world.after(10)
    assert world.heard == [FIRING]
    world.database.answered()
    world.after(CALM_S + 1)
    assert world.heard == [FIRING, RESOLVED]
    assert [line["event"] for line in lines.entries].count("database away") == 4
    world.fail()  # the next one
    world.after(100)
    assert len(world.heard) == 2
