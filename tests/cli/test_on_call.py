"""What on-call types: acknowledge, resolve, silence, and what waits in the outbox."""

import getpass
import json
import re
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cli.test_commands import objects, one_line
from factories import HeldClock
from commands import rankwatch
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.cli.main import app
from monitor.errors import ConfigError
from monitor.service.clock import SystemClock
from monitor.service.commands.receiver_test import send_test
from monitor.settings.loader import load_settings
from monitor.storage import open_store
from pipeline.owed_run import store_run
from pipeline.test_delivery import REFUSED, FakeReceiver, outlet
from servers.smtp import MailServer
from servers.webhook import Collector, answer
from service.lists_world import APART, write_lists, write_world


@pytest.fixture(scope="module")
def fired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fired")
    write_world(folder, "sqlite:///rankwatch.db", every="1d")
    write_lists(folder / "candidate.jsonl", APART)
    for day in ("2024-01-08", "2024-01-09"):
        assert rankwatch("run-once", "--slot", day, cwd=folder).returncode == 0
    return folder


@pytest.fixture
def world(fired: Path, tmp_path: Path) -> Path:
    """A comparison whose alert fires since 2024-01-09."""
    return shutil.copytree(fired, tmp_path, dirs_exist_ok=True)


def drift(world: Path) -> dict[str, Any]:
    """Where the alert of the configuration's own rule stands."""
    states = objects(rankwatch("alerts", "--states", "--json", cwd=world))
    return next(each for each in states if each["alert"] == "SimilarityLow")


def test_alerts_lists_without_a_command_and_by_name(world: Path) -> None:
    for arguments in ((), ("ls",), ("feed",), ("ls", "feed")):
        table = rankwatch("alerts", *arguments, cwd=world).stdout
        assert "firing" in table, arguments


def test_who_acknowledges_is_shown_until_the_alert_is_resolved_by_hand(world: Path) -> None:
    (done,) = objects(rankwatch("alerts", "ack", "feed", "--by", "anna", "-m", "known", "--json", cwd=world))
    assert (done["from"], done["to"], done["reason"]) == ("firing", "firing", "acknowledged by anna: known")
    state = drift(world)
    assert (state["state"], state["acknowledged_by"]) == ("firing", "anna")
    assert re.search("firing +anna", rankwatch("alerts", cwd=world).stdout)
    again = rankwatch("alerts", "ack", "feed", "--by", "anna", cwd=world)
    assert "no firing alert matches that anna has not acknowledged: see" in one_line(again)

    (done,) = objects(rankwatch("alerts", "resolve", "--alert", state["alert"], "--json", cwd=world))
    assert (done["to"], done["reason"]) == ("quiet", f"resolved by {getpass.getuser()}")
    state = drift(world)
    assert (state["state"], state["acknowledged_by"]) == ("quiet", None)


def test_who_accepted_which_level_is_recorded_once_and_shown(world: Path) -> None:
    (done,) = objects(rankwatch("accept", "feed", "--from", "2024-01-08", "--by", "anna", "-m", "v2", "--json", cwd=world))
    assert (done["slot"], done["reason"]) == ("2024-01-08T00:00:00Z", "accepted by anna: v2")
    assert objects(rankwatch("accept", "feed", "--from", "2024-01-08", "--by", "ben", "--json", cwd=world)) == [done]

    assert (
        f"normal since 2024-01-08T00:00:00Z: accepted by anna: v2, {done['at'][:16]}"
        in rankwatch("show", "feed", cwd=world).stdout
    )
    assert "accepted by anna: v2" in rankwatch("alerts", cwd=world).stdout
    assert objects(rankwatch("accept", "feed", "--from", "2024-01-08", "--undo", "--json", cwd=world)) == [done]
    assert "accepted by" not in rankwatch("show", "feed", cwd=world).stdout


@pytest.mark.parametrize(
    ("command", "arguments", "told"),
    [
        (
            "accept",
            ("feed", "--from", "2024-01-07"),
            "no ok run of feed has the slot 2024-01-07T00:00:00Z: see `rankwatch runs feed`",
        ),
        ("accept", ("feed", "--from", "2024-01-08", "--undo"), "nothing of feed was accepted from 2024-01-08T00:00:00Z on"),
        ("accept", ("feeds", "--from", "2024-01-08"), "no comparison named 'feeds': nothing of it is stored"),
        ("accept", ("feed", "--from", "2999-01-08"), "--from 2999-01-08 lies in the future"),
        ("accept", ("feed", "--from", "monday"), "'monday' is no ISO 8601 time"),
        ("silence add", ("alert", "--for", "1h"), "'alert' is no matcher"),
        ("silence add", ("alert=x",), "give either --for or --until"),
        ("silence add", ("alert=x", "--for", "1h", "--until", "2024-01-08"), "give either --for or --until"),
        ("silence add", ("alert=x", "--until", "2024-01-08"), "nothing would be held back"),
        ("silence add", ("alert=~(", "--for", "1h"), "is no regular expression"),
        ("silence add", ("--for", "1h"), "Missing argument"),
    ],
    ids=str,
)
def test_what_cannot_be_accepted_or_silenced_is_told(world: Path, command: str, arguments: tuple[str, ...], told: str) -> None:
    done = rankwatch(*command.split(), *arguments, cwd=world)
    assert (done.returncode, told in " ".join(done.stderr.replace("│", " ").split())) == (2, True), done.stderr


@pytest.mark.parametrize("command", ["ack", "resolve"])
def test_to_mean_nothing_that_fires_is_an_error(world: Path, command: str) -> None:
    done = rankwatch("alerts", command, "--segment", "country=UK", cwd=world)
    assert (done.returncode, re.sub(" that .* not acknowledged", "", one_line(done))) == (
        2,
        "rankwatch: no firing alert matches: see `rankwatch alerts`",
    )


def test_silences_are_added_listed_and_ended(world: Path) -> None:
    wanted = ('alert=~"Similarity.*"', "segment=all")
    (added,) = objects(rankwatch("silence", "add", *wanted, "--for", "2h", "--by", "anna", "-m", "known", "--json", cwd=world))
    assert (added["id"], added["matchers"], added["author"], added["comment"]) == (1, list(wanted), "anna", "known")

    assert objects(rankwatch("silence", "--json", cwd=world)) == [added]
    assert "anna" in rankwatch("silence", "ls", cwd=world).stdout
    assert rankwatch("silence", "expire", "1", "--json", cwd=world).stdout == '{"ended": [1]}\n'
    assert objects(rankwatch("silence", "ls", "--json", cwd=world)) == []
    (ended,) = objects(rankwatch("silence", "ls", "--all", "--json", cwd=world))
    assert ended["ends_at"] < added["ends_at"]
    done = rankwatch("silence", "expire", "1", cwd=world)
    assert (done.returncode, one_line(done)) == (
        2,
        "rankwatch: no silence 1 that has not ended yet: see `rankwatch silence ls`",
    )
    for args in (("silence", "expire"), ("show", "feed", "--users")):
        done = rankwatch(*args, "9223372036854775808", cwd=world)
        assert (done.returncode, "less than or equal" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


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
        outlet(
            store, receiver, clock, policy=NotificationPolicy(muted=frozenset({("home-feed", "SimilarityLow")}))
        ).deliver_due()
        waits, untried = (json.loads(line) for line in listed(config, "--json").splitlines())
        assert (waits["receiver"], waits["status"], waits["attempts"], waits["reason"]) == ("fake", "held", 0, "dry run")
        assert (waits["change"], waits["segment"], waits["since"]) == ("starts", "all", "2024-01-08T00:00:00Z")
        assert waits["message"].startswith("mean of extended_tau is 0.1")
        assert (untried["receiver"], untried["status"], untried["reason"]) == ("other", "pending", None)

        clock.pass_by(60)
        outlet(store, receiver, clock).deliver_due()
        assert listed(config, "fake", "--json") == ""
        table = listed(config, "--all")
        assert "fake answered 401" in table
        assert table.index("dead") < table.index("pending")
