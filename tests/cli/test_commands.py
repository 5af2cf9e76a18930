"""The command line as its user meets it: what is printed, where, and the exit code."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from commands import assert_refused, objects, rankwatch, read_json
from forking import ended, started
from servers.daemon import wait_for
from servers.webhook import answer
from service.lists_world import APART, SIMILAR, write_lists, write_world
from storage.worked import claimed, store_at, store_over

RUN = "run-once --slot 2024-01-08"
CANDIDATE = Path("candidate.jsonl")


def adjust(*changes):
    """Replace texts of the configuration."""
    config = Path("rankwatch.yaml")
    text = config.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)


def hook(collector):
    return f'receivers: [{{webhook: {{url: "{collector.url}/hook", secret: abc}}}}]\n'


def alert_at_once(world, collector, **options):
    """Write lists far apart, whose first run sends a message to the collector."""
    receivers = hook(collector)
    write_world(
        world, "sqlite:///rankwatch.db", every="1d", receivers=receivers, streak=1, **options
    )
    write_lists(CANDIDATE, APART)


@pytest.mark.usefixtures("fired")
def test_a_report_is_written_whole_or_not_at_all():
    done = rankwatch("report feed -o report.html --slot 2024-01-08")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "written: report.html\n")
    text = Path("report.html").read_text()
    assert "<title>feed at 2024-01-08 00:00 - rankwatch</title>" in text
    assert text.endswith("</html>")
    assert_refused("""
        report nope -o report.html | 2 | no finished run of a comparison named 'nope' is stored
        report feed -o report.html --slot 2024-01-10 | 2 | has the slot 2024-01-10T00:00:00Z: it was never run
        report feed -o report.html --until 2001-01-01 | 2 | is stored up to 2001
        report feed -o nowhere/report.html | 74 | nowhere/report.html: No such file
        report feed -o x.html --slot 2024-01-08 --until 2024-01-08 | 2 | --slot
    """)
    assert Path("report.html").read_text() == text


def test_a_low_slot_pends_the_next_fires_and_both_are_listed(fired):
    first, second = map(json.loads, (fired / "runs.jsonl").read_text().splitlines())
    ((pending,), (firing,)) = first["transitions"], second["transitions"]
    assert (pending["to_state"], firing["to_state"]) == ("pending", "firing")
    _, listed = read_json("alerts")
    assert (listed["slot"][:10], listed["to_state"]) == ("2024-01-09", "firing")


def test_a_slot_that_was_run_well_keeps_what_it_has_when_it_is_run_again_and_fails(world):
    kept = '    k: 5\n    scores_to: {file: {path: "out/{slot:%d}.parquet"}}\n    keep_scores: 10'
    adjust(("    k: 5", kept))
    read_json(RUN)
    file = world / "out" / "08.parquet"
    written = file.read_bytes()
    assert pq.read_table(file).num_rows == 60
    with store_over(f"{world}/rankwatch.db") as store:
        assert len(store.history.run_scores(1, ["extended_tau"]).users) == 10
    CANDIDATE.rename("away.jsonl")

    done = rankwatch(f"{RUN} --again --json")

    assert done.returncode == 3
    run = json.loads(done.stdout)
    assert run["status"] == "failed"
    assert run["reason"].endswith("; the earlier run of the slot is kept")
    assert [each["status"] for each in read_json("runs")] == ["ok"]
    assert file.read_bytes() == written


def test_run_once_notifies_receivers_and_replay_of_a_day_does_so_with_an_option(world, collector):
    alert_at_once(world, collector)
    read_json("replay --since 2024-01-03 --until 2024-01-03")
    write_lists(CANDIDATE, SIMILAR)
    read_json("run-once --slot 2024-01-04")
    assert not collector.requests  # replay did not send that it fires
    write_lists(CANDIDATE, APART)
    adjust(("1d", "12h"))
    assert len(read_json("replay --since 2024-01-05 --until 2024-01-05 --notify")) == 2
    assert [request.json()["status"] for request in collector.requests] == ["firing"]


def test_a_refused_notification_ends_with_5_and_is_sent_later(world, collector, monkeypatch):
    collector.default = answer(503)
    alert_at_once(world, collector)
    with monkeypatch.context() as impatient:
        impatient.setattr("monitor.service.commands.one_shot.DRAIN_S", 0.1)
        done = rankwatch(RUN)
    assert done.returncode == 5
    assert "messages not delivered: 1 to webhook" in done.stderr
    collector.default = answer(200)
    with closing(sqlite3.connect("rankwatch.db", isolation_level=None)) as database:
        database.execute("update deliveries set next_attempt_at = '2024-01-08T00:00:00.000000Z'")
    read_json("run-once --slot 2024-01-09")
    assert collector.requests[-1].json()["status"] == "firing"


def test_check_shows_both_lists_of_a_few_users_side_by_side(world):
    write_lists(CANDIDATE, [2, 1, 3, 4, 99])
    (world / "rankwatch.db").chmod(0o644)
    floor = "noise_floor: {retrain: {file: {path: gone.csv, user: u, items: i}}}\n    metrics"
    adjust(("metrics", floor))
    done = rankwatch("check --users 2")
    assert done.returncode == 0, done.stderr
    for said in (
        "rankwatch.db has mode 0644, so every account of this machine may read users and lists",
        "was 2",
        "noise_floor: ",
    ):
        assert said in done.stdout
    assert done.stdout.count("user u") == 2
    (shown,) = read_json("check --users 2")
    assert [each["baseline"] for each in shown["evidence"]] == [["1", "2", "3", "4", "5"]] * 2
    (world / "rankwatch.db").write_text("no database\n" * 99)
    done = rankwatch("check --json")
    problem = json.loads(done.stdout)["database"]["problem"]
    assert (done.returncode, problem in done.stderr) == (4, True)


@pytest.mark.usefixtures("world")
def test_an_arm_that_cannot_be_read_fails_a_check_and_a_run_with_3_and_is_named():
    CANDIDATE.unlink()
    for command in ("check", RUN):
        done = rankwatch(command)
        assert done.returncode == 3
        assert "candidate.jsonl" in done.stdout
        assert "Traceback" not in done.stderr
        assert ("no lists could be compared for feed" in done.stdout) is (command == "check")
    assert [run["status"] for run in read_json("runs")] == ["failed"]


def test_the_configuration_is_found_by_option_then_environment(
    world, tmp_path_factory, monkeypatch
):
    elsewhere, config = tmp_path_factory.mktemp("elsewhere"), f"{world}/rankwatch.yaml"
    monkeypatch.chdir(elsewhere)
    read_json(f"{RUN} --config {config}")
    assert len(read_json(f"--config {config} runs")) == 1
    assert len(objects(rankwatch("runs --json", env={"RANKWATCH_CONFIG": config}))) == 1
    assert (world / "rankwatch.db").exists()
    assert not list(elsewhere.iterdir())


@pytest.mark.usefixtures("world")
def test_every_mistake_has_its_message_and_exit_code():
    rules = (
        "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a complete"
    )
    Path("empty.yaml").write_text("# nothing\n")
    Path("rankwatch.db").unlink()
    assert_refused(f"""
        runs --config none.yaml | 2 | none.yaml
        runs | 4 | does not exist yet: run `rankwatch run-once`
        db downgrade base | 4 | does not exist
        run-once --slot 2130-01-01 | 2 | --slot 2130-01-01T00:00:00Z is in the future
        replay --since 2024-01-01 --until 2130-01-01 | 2 | --until 2130-01-01T00:00:00Z is in the future
        run-once nope | 2 | no comparison named 'nope'
        compare none.parquet candidate.jsonl | 2 | none.parquet
        run-once --slot yesterday | 2 | 'yesterday' is no ISO 8601 time
        replay --since 2024-01-02 --until 2024-01-01 | 2 | --until
        runs --limit 0 | 2 | --limit
        compare candidate.jsonl candidate.jsonl -k 0 | 2 | -k
        backtest --rules empty.yaml | 2 | rankwatch: empty.yaml: is empty: {rules}
        backtest --rules gone.yaml | 2 | rankwatch: gone.yaml: no such file: {rules}
    """)


@pytest.mark.integration
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_a_replay_with_its_code_and_leaves_no_half_written_run(
    world, number, code
):
    out, err = world / "out", world / "err"
    replay = started(
        ("replay", "--since", "2000-01-01", "--until", "2024-01-01", "--json"),
        cwd=world,
        out=out,
        err=err,
    )
    wait_for(lambda: out.exists() and out.read_text().count("\n") > 1, "some runs")
    os.kill(replay.pid or 0, number)
    assert ended(replay) == code
    assert "Traceback" not in err.read_text()
    assert {run["status"] for run in read_json("runs --limit 100000")} == {"ok"}


@pytest.mark.usefixtures("fired")
def test_show_prints_a_run_by_segment_and_the_worst_users_side_by_side():
    shown = rankwatch("show feed --users 1").stdout
    why = "Both arms compared by extended_tau: No earlier lists to compare with. "
    assert [words in shown for words in ("60 of 60 users compared", "new", why)] == [True] * 3
    (found,) = read_json("show feed --slot 2024-01-08")
    assert found["evidence"][0]["candidate"] == [str(item) for item in APART]
    assert {each["metric"] for each in found["summaries"]} == {"extended_tau", "rbo(p=0.9)"}
    explained = found["explanation"]
    assert (explained["metric"], explained["before"]) == ("extended_tau", None)


@pytest.mark.usefixtures("world")
def test_show_and_messages_say_why_a_run_fell_since_the_one_before(collector):
    adjust(
        ("for: 2", "for: 1"),
        ("    rules:", "    keep_lists: all\n    rules:"),
        ("comparisons:", f"{hook(collector)}comparisons:"),
    )
    read_json(RUN)
    write_lists(CANDIDATE, APART)
    read_json("run-once --slot 2024-01-09")

    shown = rankwatch("show feed").stdout
    assert "Compared with the run of 2024-01-08 00:00 by extended_tau, for 60 users: " in shown
    for title in ("Pieces of the drop", "Segments", "Items, users of ", "Lists, users of "):
        assert title in shown
    (found,) = read_json("show feed")
    (alert,) = collector.requests[-1].json()["alerts"]
    assert alert["annotations"]["explanation"].startswith(found["explanation"]["sentence"])


def test_a_slot_that_another_process_runs_does_not_stop_the_other_comparisons(world, collector):
    alert_at_once(world, collector, names=("feed", "taken"))
    with store_at(f"sqlite:///{world}/rankwatch.db", create=True) as store:
        claimed(store, comparison="taken", owner="other:1", until=datetime(2999, 1, 1, tzinfo=UTC))
    done = rankwatch(f"{RUN} --json")
    assert done.returncode == 3
    assert (
        "taken: another process is running slot 2024-01-08T00:00:00Z now: other:1 "
        "(host:process) has claimed it until 2999-01-01T00:00:00Z. Try again when that process has "
        "ended the run, or after this time if the process was killed"
    ) in done.stderr
    assert [json.loads(line)["comparison"] for line in done.stdout.splitlines()] == ["feed"]
    (request,) = collector.requests
    assert request.json()["commonLabels"]["comparison"] == "feed"
