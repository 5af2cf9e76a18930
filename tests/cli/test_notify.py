import json
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from factories import HeldClock
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.cli.main import app
from monitor.errors import ConfigError
from monitor.service.clock import SystemClock
from monitor.service.commands.receiver_test import send_test
from monitor.settings.loader import load_settings
from monitor.storage import open_store
from pipeline.outbox_process import store_run
from pipeline.test_delivery import REFUSED, FakeReceiver, deliver
from servers.smtp import MailServer
from servers.webhook import Collector, answer
from service.lists_world import write_world


@pytest.fixture
def config(tmp_path: Path, collector: Collector, mail_server: MailServer, certificate: Path) -> Path:
    receivers = f"""
receivers:
  - webhook: {{url: "{collector.url}/canary"}}
  - email: {{host: 127.0.0.1, port: {mail_server.port}, sender: r@x.test, to: [kim@x.test], ca_file: {certificate}}}
"""
    return write_world(tmp_path, f"sqlite:///{tmp_path / 'rankwatch.db'}", receivers=receivers)


def tried(config: Path, *args: str) -> Result:
    return CliRunner().invoke(app, ["notify", "test", *args, "--config", str(config)])


def test_every_receiver_is_told_a_firing_and_its_end_marked_as_a_test(
    config: Path, collector: Collector, mail_server: MailServer, tmp_path: Path
) -> None:
    done = tried(config, "--json")
    assert done.exit_code == 0, done.output
    assert [tuple(json.loads(line).values()) for line in done.stdout.splitlines()] == [
        ("webhook", "firing", True, None),
        ("email", "firing", True, None),
        ("webhook", "resolved", True, None),
        ("email", "resolved", True, None),
    ]
    start, end = (json.loads(request.body) for request in collector.requests)
    assert (start["status"], end["status"], start["groupKey"]) == ("firing", "resolved", end["groupKey"])
    assert start["commonLabels"]["test"] == "true"
    assert "THIS IS A TEST" in start["alerts"][0]["annotations"]["summary"]
    for mail in mail_server.mails:
        assert b"TEST-of-rankwatch" in mail.content.partition(b"Date:")[0]
    assert not (tmp_path / "rankwatch.db").exists()


def test_one_receiver_may_be_chosen_and_an_unknown_one_is_told_who_there_is(
    config: Path, mail_server: MailServer, collector: Collector
) -> None:
    assert tried(config, "email").exit_code == 0
    assert (len(mail_server.mails), len(collector.requests)) == (2, 0)
    unknown = tried(config, "pager")
    assert isinstance(unknown.exception, ConfigError)
    assert str(unknown.exception) == "no receiver named 'pager': there are webhook, email"


def test_a_receiver_that_refuses_ends_with_5_and_the_others_are_told_all_the_same(
    config: Path, collector: Collector, mail_server: MailServer
) -> None:
    collector.default = answer(401)
    done = tried(config)
    assert done.exit_code == 5
    assert len(collector.requests) == 1
    assert len(mail_server.mails) == 2
    assert "answered 401 Unauthorized: check its credentials" in done.stdout
    assert "canary" not in done.stdout


def test_a_configuration_without_receivers_says_so(tmp_path: Path) -> None:
    done = tried(write_world(tmp_path, "sqlite:///rankwatch.db"))
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception) == "the configuration has no receivers"


def test_the_end_is_told_after_the_wait_and_also_where_the_start_may_have_arrived(config: Path, collector: Collector) -> None:
    collector.replies.append(answer(500))
    waited: list[float] = []
    told = list(send_test(load_settings(config), "webhook", SystemClock(), wait=timedelta(minutes=1), pause=waited.append))
    assert [(each.status.value, each.trouble is None) for each in told] == [("firing", False), ("resolved", True)]
    assert waited == [60.0]


def listed(config: Path, *args: str) -> str:
    done = CliRunner().invoke(app, ["notify", "ls", *args, "--config", str(config)])
    assert done.exit_code == 0
    return done.stdout


def test_ls_shows_what_is_owed_and_why_and_with_all_what_was_given_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'rankwatch.db'}"
    config, clock, receiver = write_world(tmp_path, url), HeldClock(), FakeReceiver(errors=[REFUSED])
    with closing(open_store(url, create=True)) as store:
        store_run(store, 0.1, to=("fake", "other"))
        deliver(store, receiver, clock, policy=NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")})))
        waits, untried = (json.loads(line) for line in listed(config, "--json").splitlines())
        assert (waits["receiver"], waits["status"], waits["attempts"], waits["reason"]) == ("fake", "held", 0, "dry run")
        assert (waits["change"], waits["segment"], waits["since"]) == ("starts", "all", "2024-01-08T00:00:00Z")
        assert waits["message"].startswith("mean of extended_tau is 0.1")
        assert (untried["receiver"], untried["status"], untried["reason"]) == ("other", "pending", None)

        clock.pass_by(60)
        deliver(store, receiver, clock)
        assert listed(config, "fake", "--json") == ""
        table = listed(config, "--all")
        assert "fake answered 401" in table
        assert table.index("dead") < table.index("pending")
