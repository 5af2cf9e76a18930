"""The command line as its user meets it: what is printed, where, and the exit code."""

import json
import os
import re
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from forking import Done, ended, rankwatch, started
from monitor.cli.main import app
from monitor.errors import MonitorError
from monitor.storage import open_store
from servers.daemon import wait_for
from servers.webhook import Collector, answer
from service.lists_world import APART, SIMILAR, write_lists, write_world
from storage.worked import claimed

pytestmark = pytest.mark.early


def objects(done: Done) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def one_line(done: Done) -> str:
    """The error as a person sees it: one line, no traceback, nothing on standard output."""
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert done.stdout == ""
    return lines[0]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    write_world(tmp_path, "sqlite:///rankwatch.db", every="1d")
    return tmp_path


def test_a_report_is_written_whole_or_not_at_all(world: Path) -> None:
    assert rankwatch("run-once", "--slot", "2024-01-08", cwd=world).returncode == 0
    done = rankwatch("report", "feed", "-o", "report.html", "--slot", "2024-01-08", cwd=world)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "written: report.html\n")
    text = (world / "report.html").read_text()
    assert "<title>feed at 2024-01-08 00:00 - rankwatch</title>" in text
    assert text.endswith("</html>")
    for given, code, said in (
        (("nope", "-o", "report.html"), 2, "no finished run of a comparison named 'nope' is stored"),
        (("feed", "-o", "report.html", "--slot", "2024-01-09"), 2, "has the slot 2024-01-09T00:00:00Z: it was never run"),
        (("feed", "-o", "nowhere/report.html"), 74, "nowhere/report.html: No such file"),
    ):
        failed = rankwatch("report", *given, cwd=world)
        assert failed.returncode == code
        assert said in one_line(failed)
    assert rankwatch("report", "feed", "-o", "x.html", "--slot", "2024-01-08", "--to", "2024-01-08", cwd=world).returncode == 2
    assert (world / "report.html").read_text() == text


def test_a_low_slot_pends_the_next_fires_and_both_are_listed(world: Path) -> None:
    write_lists(world / "candidate.jsonl", APART)
    first, second = (
        objects(rankwatch("run-once", "--slot", day, "--json", cwd=world))[0] for day in ("2024-01-08", "2024-01-09")
    )
    assert (first["status"], first["paired"], first["summaries"]["extended_tau"]["all"]["mean"]) == ("ok", 60, -1.0)
    assert [each["to"] for each in (*first["transitions"], *second["transitions"])] == ["pending", "firing"]
    listed = objects(rankwatch("alerts", "--json", cwd=world))
    assert [(each["slot"], each["from"], each["to"]) for each in listed] == [
        ("2024-01-08T00:00:00Z", "quiet", "pending"),
        ("2024-01-09T00:00:00Z", "pending", "firing"),
    ]
    assert listed[1] | {"reason": ""} == listed[1] | {
        "comparison": "feed",
        "alert": "SimilarityLow",
        "segment": "all",
        "value": -1.0,
        "threshold": 0.35,
        "users": 60,
        "reason": "",
    }
    runs = objects(rankwatch("runs", "--json", cwd=world))
    assert [(each["slot"], each["status"], each["asked"]) for each in runs] == [
        ("2024-01-09T00:00:00Z", "ok", 60),
        ("2024-01-08T00:00:00Z", "ok", 60),
    ]
    table = rankwatch("alerts", cwd=world).stdout
    assert "firing" in table
    assert "below 0.35" in table


def test_a_slot_that_was_run_well_keeps_what_it_has_when_it_is_run_again_and_fails(world: Path) -> None:
    config, slot = world / "rankwatch.yaml", ("--slot", "2024-01-08", "--json")
    config.write_text(
        config.read_text().replace(
            "    k: 5", '    k: 5\n    scores_to: {file: {path: "out/{slot:%d}.parquet"}}\n    keep_scores: 10'
        )
    )
    (before,) = objects(rankwatch("run-once", *slot, cwd=world))
    written = (world / "out" / "08.parquet").read_bytes()
    assert pq.read_table(world / "out" / "08.parquet").num_rows == 60
    with closing(open_store(f"sqlite:///{world}/rankwatch.db", create=False)) as store:
        assert len(store.history.run_scores(1, ["extended_tau"]).users) == 10
    (world / "candidate.jsonl").rename(world / "away.jsonl")

    done = rankwatch("run-once", *slot, "--again", cwd=world)

    assert done.returncode == 3
    (told,) = (json.loads(line) for line in done.stdout.splitlines())
    assert (told["status"], told["reason"].rpartition("; ")[2]) == ("failed", "what the slot had before stays")
    assert [each["status"] for each in objects(rankwatch("runs", "--json", cwd=world))] == ["ok"]
    assert (world / "out" / "08.parquet").read_bytes() == written
    (world / "away.jsonl").rename(world / "candidate.jsonl")
    (world / "out" / "08.parquet").unlink()
    (world / "out" / "08.parquet").mkdir()
    (again,) = objects(rankwatch("run-once", *slot, "--again", cwd=world))
    assert (again["status"], again["summaries"]) == ("ok", before["summaries"])
    assert again["reason"] == f"scores_to: {world}/out/08.parquet was not written: Is a directory"


def test_run_once_tells_receivers_and_replay_does_not_unless_asked(world: Path, collector: Collector) -> None:
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook", secret: abc}}}}]\n'
    write_world(world, "sqlite:///rankwatch.db", every="1d", receivers=hook)
    write_lists(world / "candidate.jsonl", APART)
    objects(rankwatch("replay", "--from", "2024-01-01", "--to", "2024-01-03", "--json", cwd=world))
    assert collector.requests == []
    write_lists(world / "candidate.jsonl", SIMILAR)
    objects(rankwatch("run-once", "--slot", "2024-01-04", "--json", cwd=world))
    assert collector.requests == []  # nobody had been told that it fires
    write_lists(world / "candidate.jsonl", APART)
    objects(rankwatch("replay", "--from", "2024-01-05", "--to", "2024-01-06", "--notify", "--json", cwd=world))
    assert [json.loads(request.body)["status"] for request in collector.requests] == ["firing"]


def test_a_refused_notification_ends_with_5_and_stays_owed(
    world: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector.default = answer(503)
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook", secret: abc}}}}]\n'
    config = write_world(world, "sqlite:///rankwatch.db", every="1d", receivers=hook)
    config.write_text(config.read_text().replace("for: 2", "for: 1"))
    write_lists(world / "candidate.jsonl", APART)
    monkeypatch.setattr("monitor.service.commands.one_shot.DRAIN_S", 1.0)
    done = CliRunner().invoke(app, ["run-once", "--slot", "2024-01-08", "--config", str(config)])
    assert isinstance(done.exception, MonitorError)
    assert done.exception.exit_code == 5
    assert "messages not delivered: 1 to webhook" in str(done.exception)
    collector.default = answer(200)
    with closing(sqlite3.connect(world / "rankwatch.db", isolation_level=None)) as database:
        database.execute("update deliveries set next_attempt_at = '2024-01-08T00:00:00.000000Z'")
    objects(rankwatch("run-once", "--slot", "2024-01-09", "--json", cwd=world))
    assert json.loads(collector.requests[-1].body)["status"] == "firing"


def test_check_shows_both_lists_of_a_few_users_side_by_side(world: Path) -> None:
    write_lists(world / "candidate.jsonl", [2, 1, 3, 4, 99])
    (world / "rankwatch.db").touch()
    (world / "rankwatch.db").chmod(0o644)
    done = rankwatch("check", "--users", "2", cwd=world)
    assert done.returncode == 0, done.stderr
    assert "rankwatch.db has mode 0644, so every account of this machine may read users and lists" in done.stdout
    assert done.stdout.count("user u") == 2
    assert "was 2" in done.stdout
    assert "new" in done.stdout
    shown = objects(rankwatch("check", "--users", "2", "--json", cwd=world))
    assert [len(each["users"]) for each in shown] == [2]
    assert shown[0]["users"][0]["baseline"] == ["1", "2", "3", "4", "5"]


def test_check_says_how_many_ids_match_and_which_forms_would_help(world: Path) -> None:
    write_lists(world / "candidate.jsonl", ["item:2", "item:01", "item:x"])
    done = rankwatch("check", "--users", "2", cwd=world)
    assert "  0 of 5 items match\n" in done.stdout
    assert "  no item is in both arms: the ids differ in several ways, such as" in done.stdout
    assert 'Set item_ids: [{prefix: "item:"}, int] for both arms: then 2 of 3 match\n' in done.stdout
    assert re.search(r"  ([0-9]+) of \1 users match\n", done.stdout)
    text = (world / "candidate.jsonl").read_text()
    (world / "candidate.jsonl").write_text(text.replace(': "u', ': " u').replace("item:", "").replace('"01"', '"1.0"'))
    done = rankwatch("check", "--users", "2", cwd=world)
    assert "  the candidate has 0 of 60 users: the ids differ in blanks, such as 'u0' among the users" in done.stdout
    assert "Set user_ids: [strip] for users and both arms: then 60 of 60 match\n" in done.stdout


def test_an_arm_that_cannot_be_read_fails_a_check_and_a_run_with_3_and_is_named(world: Path) -> None:
    (world / "candidate.jsonl").unlink()
    for command in (("check",), ("run-once", "--slot", "2024-01-08")):
        done = rankwatch(*command, cwd=world)
        assert (done.returncode, "candidate.jsonl" in done.stdout, "Traceback" in done.stderr) == (3, True, False)
    (run,) = objects(rankwatch("runs", "--json", cwd=world))
    assert run["status"] == "failed"


def test_init_writes_a_configuration_that_loads_and_does_not_overwrite(tmp_path: Path) -> None:
    assert rankwatch("init", cwd=tmp_path).returncode == 0
    again = rankwatch("init", cwd=tmp_path)
    assert (again.returncode, one_line(again)) == (2, "rankwatch: rankwatch.yaml is there already; --force replaces it")
    assert rankwatch("db", "upgrade", cwd=tmp_path).returncode == 0
    assert rankwatch("db", "check", cwd=tmp_path).returncode == 0


def test_the_configuration_is_found_by_option_then_environment(world: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    config = str(world / "rankwatch.yaml")
    objects(rankwatch("run-once", "--config", config, "--slot", "2024-01-08", "--json", cwd=elsewhere))
    assert len(objects(rankwatch("runs", "--json", cwd=elsewhere, env={"RANKWATCH_CONFIG": config}))) == 1
    assert len(objects(rankwatch("--config", config, "runs", "--json", cwd=elsewhere))) == 1
    assert (world / "rankwatch.db").exists()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("runs", "--config", "none.yaml"), 2, "none.yaml"),
        (("runs",), 4, "rankwatch db upgrade"),
        (("run-once", "--slot", "2130-01-01"), 2, "lies in the future"),
        (("replay", "--from", "2024-01-01", "--to", "2130-01-01"), 2, "lies in the future"),
        (("run-once", "nope"), 2, "no comparison named 'nope'"),
        (("compare", "none.parquet", "candidate.jsonl"), 2, "none.parquet"),
        (("db", "downgrade", "base"), 4, "does not exist"),
    ],
)
def test_every_mistake_is_one_line_with_its_exit_code(world: Path, args: tuple[str, ...], code: int, words: str) -> None:
    done = rankwatch(*args, cwd=world)
    assert (done.returncode, words in one_line(done)) == (code, True), done.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("run-once", "--slot", "yesterday"),
        ("replay", "--from", "2024-01-02", "--to", "2024-01-01"),
        ("runs", "--limit", "0"),
        ("compare", "candidate.jsonl", "candidate.jsonl", "-k", "0"),
    ],
)
def test_a_wrong_argument_is_usage_and_ends_with_2(world: Path, args: tuple[str, ...]) -> None:
    done = rankwatch(*args, cwd=world)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_a_replay_with_its_code_and_leaves_no_half_written_run(
    world: Path, number: signal.Signals, code: int
) -> None:
    out, err = world / "out", world / "err"
    replay = started(("replay", "--from", "2000-01-01", "--to", "2024-01-01", "--json"), cwd=world, out=out, err=err)
    wait_for(lambda: out.exists() and out.read_text().count("\n") > 1, "some runs")
    os.kill(replay.pid or 0, number)
    assert ended(replay, 60) == code
    assert "Traceback" not in err.read_text()
    runs = objects(rankwatch("runs", "--limit", "100000", "--json", cwd=world))
    assert {run["status"] for run in runs} == {"ok"}


def test_one_comparison_is_named_by_the_argument(tmp_path: Path) -> None:
    write_world(tmp_path, "sqlite:///rankwatch.db", every="1d", names=("feed", "other"))
    period = ("--from", "2024-01-08", "--to", "2024-01-09")
    objects(rankwatch("replay", *period, "--json", cwd=tmp_path))
    for command in (("run-once", "--again"), ("replay", *period, "--again"), ("check",), ("runs",), ("alerts",)):
        found = objects(rankwatch(*command, "--json", "other", cwd=tmp_path))
        assert {each["comparison"] for each in found} == ({"other"} if command != ("alerts",) else set())


def test_rules_that_are_not_there_are_told_as_rules(world: Path) -> None:
    (world / "empty.yaml").write_text("# nothing\n")
    wanted = "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a whole configuration"
    for name, told in (("empty.yaml", "is empty"), ("gone.yaml", "no such file")):
        done = rankwatch("backtest", "--rules", name, cwd=world)
        assert (done.returncode, one_line(done)) == (2, f"rankwatch: {name}: {told}: {wanted}")


def test_show_prints_a_run_by_segment_and_the_worst_users_side_by_side(world: Path) -> None:
    write_lists(world / "candidate.jsonl", [2, 1, 3, 4, 99])
    objects(rankwatch("run-once", "--slot", "2024-01-08", "--json", cwd=world))
    done = rankwatch("show", "feed", "--users", "1", cwd=world)
    assert done.returncode == 0, done.stderr
    assert "60 of 60 users compared" in done.stdout
    assert "was 2" in done.stdout
    (found,) = objects(rankwatch("show", "feed", "--slot", "2024-01-08", "--json", cwd=world))
    assert found["evidence"][0]["candidate"] == ["2", "1", "3", "4", "99"]
    assert {each["metric"] for each in found["summaries"]} == {"extended_tau", "rbo(p=0.9)"}
    assert "What sets lists apart by extended_tau: No earlier lists to hold this against. " in done.stdout
    assert (found["explanation"]["metric"], found["explanation"]["before"]) == ("extended_tau", None)
    missing = rankwatch("show", "feed", "--slot", "2024-01-09", cwd=world)
    assert (missing.returncode, "2024-01-09" in one_line(missing)) == (2, True)


def test_show_and_messages_say_why_a_run_fell_since_the_one_before(world: Path, collector: Collector) -> None:
    config = world / "rankwatch.yaml"
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook"}}}}]\n'
    config.write_text(
        config.read_text().replace("for: 2", "for: 1").replace("    rules:", "    keep_lists: all\n    rules:") + hook
    )
    objects(rankwatch("run-once", "--slot", "2024-01-08", "--json", cwd=world))
    write_lists(world / "candidate.jsonl", APART)
    objects(rankwatch("run-once", "--slot", "2024-01-09", "--json", cwd=world))

    shown = rankwatch("show", "feed", cwd=world).stdout
    assert "Why, by extended_tau against the lists that 60 users had in the run of 2024-01-08 00:00: " in shown
    for title in ("Pieces of the drop", "Segments", "Items, users of ", "Lists, users of "):
        assert title in shown
    (found,) = objects(rankwatch("show", "feed", "--json", cwd=world))
    (alert,) = json.loads(collector.requests[-1].body)["alerts"]
    message = alert["annotations"]
    assert message["explanation"].startswith(found["explanation"]["sentence"])
    assert f"Why: {message['explanation']}" in message["description"]


def test_a_table_in_a_pipe_has_one_line_a_row_and_no_blanks_at_its_end(world: Path) -> None:
    objects(rankwatch("run-once", "--slot", "2024-01-08", "--json", cwd=world))
    lines = rankwatch("notify", "list", cwd=world).stdout.splitlines() + rankwatch("metrics", cwd=world).stdout.splitlines()
    assert len(rankwatch("runs", cwd=world).stdout.splitlines()) == 2
    assert lines
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_slot_that_another_comparison_lost_keeps_nobody_from_being_told(tmp_path: Path, collector: Collector) -> None:
    hook = f'receivers: [{{webhook: {{url: "{collector.url}/hook", secret: abc}}}}]\n'
    config = write_world(tmp_path, "sqlite:///rankwatch.db", every="1d", receivers=hook, names=("feed", "taken"))
    config.write_text(config.read_text().replace("for: 2", "for: 1"))
    write_lists(tmp_path / "candidate.jsonl", APART)
    with closing(open_store(f"sqlite:///{tmp_path}/rankwatch.db", create=True)) as store:
        claimed(store, comparison="taken", owner="other:1", until=datetime(2999, 1, 1, tzinfo=UTC))
    done = rankwatch("run-once", "--slot", "2024-01-08", "--json", cwd=tmp_path)
    assert done.returncode == 3
    assert (
        "taken: another process is running slot 2024-01-08T00:00:00Z at this moment: other:1 (host:process) holds it until "
        "2999-01-01T00:00:00Z; try again when it has ended, or after that time if it was killed: the slot is taken over then"
    ) in done.stderr
    assert [json.loads(line)["comparison"] for line in done.stdout.splitlines()] == ["feed"]
    assert [json.loads(request.body)["commonLabels"]["comparison"] for request in collector.requests] == ["feed"]
