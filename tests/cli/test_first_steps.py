"""The way of a new user: `init`, `check`, `run-once`, and what the program says at each step."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from commands import assert_refused, of_all, one_line, rankwatch, read_json
from servers.recommender import running_recommender
from tables import parsed

USERS = [f"u{number}" for number in range(12)]
PLACES = [(user, item, rank) for user in USERS for rank, item in enumerate("abcdefghij", start=1)]


def write_csv(name, header, rows):
    lines = [header, *(",".join(map(str, row)) for row in rows)]
    Path(name).write_text("\n".join(lines))


def assert_works():
    """The configuration is short, passes its check, and its slot runs."""
    assert len(Path("rankwatch.yaml").read_text().splitlines()) <= 16
    checked = rankwatch("check")
    assert (checked.returncode, "Change first" in checked.stdout) == (0, False)
    (run,) = read_json("run-once")
    assert (run["status"], run["paired"], of_all(run)["overlap"]["mean"]) == ("ok", 12, 1.0)


def test_two_files_need_no_setting_and_a_slot_that_has_run_is_shown():
    write_csv("baseline.csv", "user,item,rank", PLACES)
    write_csv("new.csv", "user_id,item_id,rank", PLACES)
    assert_refused("""
        runs | 2 | write one with `rankwatch init`
        init --full --minimal | 2 | either --full or other options
        init --kind http --baseline http://a --candidate http://b | 2 | write {user} where
        init --candidate absent.csv --baseline new.csv | 2 | absent.csv does not exist
        init --kind http --baseline {user} --candidate {user} --users absent.csv | 2 | does not exist
    """)
    done = rankwatch("init --minimal --candidate new.csv")
    assert done.stdout == (
        "Wrote rankwatch.yaml, and compared the lists of 3 users. Next: rankwatch run-once\n"
    )
    assert one_line(rankwatch("init")) == (
        "rankwatch: rankwatch.yaml exists already: use --force to replace it"
    )
    assert_refused("""
        alerts | 4 | does not exist yet: run `rankwatch run-once`, or start the daemon
        show feed | 4 | does not exist yet: run `rankwatch run-once`, or start the daemon
    """)
    assert_works()

    again = rankwatch("run-once")
    assert "has already run, and its sources answer only for the present" in again.stderr
    assert "To run it again, add --again" in again.stderr
    assert (again.returncode, again.stdout.count("run before")) == (0, 1)
    for command, words in (("silence", "no silences: "), ("notify ls", "no pending deliveries")):
        assert words in rankwatch(command).stdout
    suggested = rankwatch("suggest feed")
    lines = suggested.stdout.splitlines()[:2]
    assert [" - " in line or line.endswith(" -") for line in lines] == [False, False]
    assert suggested.returncode == 2


SHOP = "Customer,position,product"
SHOP_PLACES = [(user, rank, item) for user, item, rank in PLACES]


@pytest.mark.slow
def test_columns_have_other_usual_names_or_are_named_and_the_same_files_again_are_noticed():
    for name in ("old.csv", "new.csv", "second.csv"):
        write_csv(name, SHOP, SHOP_PLACES)
    write_csv("odd.csv", "who,what,where", PLACES)
    assert_refused("""
        init --baseline old.csv --candidate odd.csv | 2 | --user, --item and one of --rank, --scores and --in-order
        init --baseline odd.csv --candidate odd.csv --in-order | 2 | odd.csv has no column
        init --in-order --rank where | 2 | --in-order replaces --rank and --items: leave these out
        init --kind sql --in-order | 2 | --in-order is not for sql: leave it out
        init --kind http --scores s | 2 | --scores is not for http: leave it out
    """)
    assert not Path("rankwatch.yaml").exists()
    rankwatch(
        "init --baseline odd.csv --candidate odd.csv --user who --item what --items no --scores where"
    )
    assert "user: who, item: what, scores: where}" in Path("rankwatch.yaml").read_text()

    rankwatch("init --force --baseline old.csv --candidate new.csv --retrained second.csv")
    written = Path("rankwatch.yaml").read_text()
    assert (
        "retrain: {file: {path: second.csv, user: Customer, item: product, rank: position}}"
        in written
    )
    checked = rankwatch("check").stdout
    for said in ("10 of 10 items in the lists of 3 users match", "12 of 12 users of the baseline"):
        assert f"  {said}" in checked
    assert "the same lists" not in rankwatch("run-once --slot 2024-01-08").stdout
    assert (
        "both arms have the same lists as in the run of 2024-01-08" in rankwatch("run-once").stdout
    )


@pytest.mark.slow
def test_lists_that_cannot_be_compared_are_reported_at_once_and_the_next_attempt_ends_the_alert():
    write_csv("baseline.csv", SHOP, SHOP_PLACES)
    write_csv("candidate.csv", SHOP, [("nobody", 1, "a")])
    done = rankwatch("init")
    assert (done.returncode, "but it cannot be used" in done.stdout) == (3, True)
    assert rankwatch("run-once").returncode == 3
    assert "RunFailing  all      pending" in rankwatch("alerts").stdout
    write_csv("candidate.csv", SHOP, SHOP_PLACES)
    rankwatch("run-once")
    states, _, transitions = rankwatch("alerts").stdout.partition("Transitions")
    assert ("RunFailing" in states, "pending     quiet" in transitions) == (False, True)


def test_questions_are_answered_in_a_terminal(monkeypatch):
    write_csv("old.csv", "user,item,rank", PLACES)
    write_csv("new.csv", "who,what,where", PLACES)
    answers = iter(["files", "old.csv", "new.csv", "who", "", "what", "where"])
    monkeypatch.setattr("monitor.cli.first_config._is_terminal", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda _, **__: next(answers))
    assert "1  files: two files" in rankwatch("init").stdout
    assert "user: who, item: what, rank: where}" in Path("rankwatch.yaml").read_text()


def test_sql_tables_need_no_names_of_columns():
    with closing(sqlite3.connect("lists.db")) as database:
        for table in ("baseline", "candidate"):
            database.execute(f"create table {table} (user, item, rank)")
            database.executemany(f"insert into {table} values (?, ?, ?)", PLACES)
        database.commit()
    rankwatch("init --kind sql --server sqlite:///lists.db")
    assert_works()


def test_columns_with_few_texts_become_segments():
    people = [(f"u{place}", place % 2, "DE" if place % 2 else "UK") for place in range(20)]
    write_csv("people.csv", "user,level,country", people)
    rankwatch("init --kind http --users people.csv")
    assert "user: user}, segments: [country]}" in Path("rankwatch.yaml").read_text()


def test_http_services_need_a_file_of_users():
    write_csv("people.csv", "user", [(user,) for user in USERS])
    with running_recommender() as server:
        server.lists = {user: list(range(10)) for user in USERS}
        rankwatch(
            f"init --kind http --baseline {server.url} --candidate {server.url} --users people.csv"
        )
        assert_works()


def test_check_says_what_to_change_first():
    for options, setting in parsed("""
        ["--full", "users"]
        ["--minimal", "baseline"]
        ["--kind http", "users"]
    """):
        rankwatch(f"init --force {options}")
        lines = Path("rankwatch.yaml").read_text().splitlines()
        told = json.loads(rankwatch("check --json").stdout)
        assert told["change_first"] == setting
        assert lines[told["line"] - 1].strip().startswith(f"{setting}:")
        shown = rankwatch("check")
        assert (shown.returncode, f"Change first: `{setting}`" in shown.stdout) == (3, True)
