"""Alertmanager keeps an alert of `run-once` until the next run is due, as nobody sends it again before."""

from datetime import datetime, timedelta

import pytest

from factories import HOUR, SECOND, SLOT
from monitor.service.commands.one_shot import open_one_shot
from monitor.storage.sqlite_file import FileLock
from service.lists_world import APART, write_lists, write_world


@pytest.mark.parametrize("every, resend, hours", [("1d", "1m", 96), ("1h", "2h", 8)])
def test_an_alert_ends_four_intervals_of_its_comparison_ahead(
    every, resend, hours, collector, url, tmp_path
):
    write_lists(tmp_path / "candidate.jsonl", APART)
    receivers = f'receivers: [alertmanager: {{urls: ["{collector.url}"], resend_every: {resend}}}]'
    config = write_world(tmp_path, url, every=every, receivers=receivers, streak=1)

    with open_one_shot(config, reconciles=True) as service:
        list(service.run_once("feed", SLOT))
        before = service.clock.now()
        service.deliver()

    (alert, *_) = collector.requests[0].json()
    ends_in = datetime.fromisoformat(alert["endsAt"]) - before
    assert hours * HOUR - SECOND <= ends_in < timedelta(hours=hours, minutes=5)


def test_alerts_that_another_configuration_lacks_end_unless_a_daemon_uses_the_database(
    url, tmp_path
):
    write_lists(tmp_path / "candidate.jsonl", APART)
    with open_one_shot(write_world(tmp_path, url, streak=1), reconciles=True) as service:
        list(service.run_once("feed", SLOT))
    other = write_world(tmp_path, url, names=("other",))
    daemon = FileLock(file=tmp_path / "rankwatch.db", holder="host:7")
    said = []
    for prepare in (daemon.take, daemon.release):
        prepare()
        assert not said
        with open_one_shot(other, reconciles=True, say=said.append) as service:
            assert bool(service.store.alerts.firing()) is not bool(said)
    assert "1 alert of feed ended" in said[0]
