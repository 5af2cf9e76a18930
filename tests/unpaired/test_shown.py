"""What people see of a run in which each user is served by one arm only."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from commands import assert_refused, rankwatch, read_json
from factories import DAY
from monitor.cli.output import USAGE_EXIT
from monitor.service.analysis import preview
from pipeline.canned import StillClock
from servers.lists import write_jsonl
from tables import cells
from unpaired import world

USERS = 120
ITEMS = [f"i{number}" for number in range(30)]


def write_small_log():
    """Each user has one pre-test list. In the test the candidate's users get other first items, and one switches."""
    rows = []
    for number in range(USERS):
        items = ITEMS[number % 20 :][:4]
        arm = "ab"[number % 2]
        moved = items if arm == "a" else [items[1], items[0], *items[2:]]
        user = {"user": f"u{number:03}", "country": "UK" if number < 60 else "DE"}
        rows.append({**user, "variant": "a", "at": "2026-10-31T20:00Z", "items": items})
        rows.append({**user, "variant": arm, "at": "2026-11-01T20:00Z", "items": moved})
    rows.append({**rows[-1], "variant": "a"})
    write_jsonl(rows, Path("log.jsonl"))
    world.write_config(Path.cwd())
    config = Path("rankwatch.yaml")
    config.write_text(config.read_text().replace("log.parquet", "log.jsonl"))


@pytest.fixture(autouse=True)
def small_log(_current_folder):
    write_small_log()


GATE = "gate checkout-test --margin 0.5"
COMPARE = "compare --unpaired log.jsonl --arms a,b --before 2026-11-01 --by country"


def test_a_log_is_compared_without_a_configuration():
    (found,) = read_json(f"{COMPARE} -m overlap -m 'rbo(p=0.9)'")
    means = {
        each["metric"]: each["mean"] for each in found["summaries"] if each["segment"] == "all"
    }
    assert means["baseline_self(overlap)"] == means["candidate_self(overlap)"] == 1
    assert means["candidate_self(rbo(p=0.9))"] == pytest.approx(0.9)
    assert means["self_gap(rbo(p=0.9))"] == pytest.approx(0.1)


@pytest.mark.slow
def test_the_comparison_of_a_log_says_what_one_run_cannot_say():
    done = rankwatch(f"{COMPARE} --worst 1 --split 0.99")
    said = done.stdout
    lines = said.splitlines()
    assert lines[-2].startswith("If another split was planned, give")
    assert lines[-1].startswith("Do not use these figures: the users are not split as planned")
    assert done.returncode == 3
    assert re.search(r"\ncompared with a pre-test list +60 +59\n", said)
    assert "Left out, because they switched arms since the test began: 1 user." in lines
    assert re.search(r"\n +before +now \(candidate\)\n", said)
    assert (
        rankwatch(COMPARE)
        .stdout.splitlines()[-1]
        .startswith("One run cannot say whether a gap is normal")
    )


@pytest.mark.slow
def test_a_first_configuration_of_a_log_needs_no_names_of_columns(monkeypatch):
    monkeypatch.setattr(preview, "SystemClock", partial(StillClock, at=world.BEGINS + DAY))
    init = "init --force --unpaired log.jsonl --arms a,b"
    done = rankwatch(f"{init} --before 2026-11-01 --split 0.49")
    assert done.stdout.startswith("Wrote rankwatch.yaml, and compared the lists of 6 users.")
    written = Path("rankwatch.yaml").read_text()
    for line in (
        "file: {path: log.jsonl, user: user, items: items, served: {time: at, within: 1d}}",
        "arm: variant #",
        "split: {a: 0.49, b: 0.51} #",
        "segments: [country]",
    ):
        assert f" {line}" in written
    assert "ok" in rankwatch("run-once --slot 2026-11-02").stdout
    for command in (f"{init} --before 2026-11-01 --split 0.9", "check --users 1"):
        done = rankwatch(command)
        for said in (
            "baseline: 60 users since the test began, 60 with a current list, 60 of them",
            "the users are not split as planned: the baseline has 60 users",
        ):
            assert said in done.stdout
        assert done.returncode == 3
    assert "but cannot be used yet, for the reasons above: feed" in done.stdout
    assert_refused(f"{init} | 2 | needs --arms A,B and --before DATE")


def test_options_that_do_not_fit_together_are_refused_and_what_needs_pairs():
    assert_refused(f"""
        compare --unpaired log.jsonl | 2 | needs --arms A,B and --before DATE
        {COMPARE} --html x.html | 2 | does not go with --html
        compare --unpaired log.jsonl --arms a --before 2026-11-01 | 2 | must have two values
        compare --unpaired log.jsonl --arms a, --before 2026-11-01 | 2 | must have two values
        {COMPARE} --rank place | 2 | log.jsonl has no column 'item_id'
        compare log.jsonl | 2 | give two files, the baseline's first, or a log with --unpaired
        suggest checkout-test | 2 | each user of checkout-test is served by one arm only
    """)


def test_the_run_and_its_pages_show_users_gaps_and_lists_of_before_and_now():
    rankwatch("replay checkout-test --since 2026-11-02 --until 2026-11-02")
    assert "by chance" not in rankwatch("show checkout-test --users 1").stdout
    rankwatch("report checkout-test --output report.html")
    page = " ".join(Path("report.html").read_text().split())
    texts = """
        Users of both arms
        How far users moved from their pre-test lists
        Two arms that move equally far in different directions have no self gap.
        Left: the user's pre-test list. Right: the current list.
        Items whose exposure differs most between the arms
        adjusted gap
        quantiles over the users of each arm
        candidate_self(overlap)
        Served by the candidate.
        only in the pre-test list
        baseline: short, 100.0% now
    """
    for (text,) in cells(texts):
        assert text in page, text
    for text in ("Both arms compared by", "from both", "only in the baseline"):
        assert text not in page


def test_values_of_a_test_whose_split_is_off_are_not_to_be_used():
    config = Path("rankwatch.yaml")
    config.write_text(config.read_text().replace("{a: 0.5, b: 0.5}", "{a: 0.01, b: 0.99}"))
    rankwatch("replay checkout-test --since 2026-11-02 --until 2026-11-02")
    rankwatch("report checkout-test --output report.html")
    page = Path("report.html").read_text()
    assert page.count("Do not use these values") == 5
    assert rankwatch("show checkout-test").stdout.count("Do not use these values") == 4
    assert "but 1\N{NO-BREAK SPACE}% and" in page
    assert "After this run, these alerts fire" in page
    assert "normal: 0 of 5 healthy runs; this run is not healthy: the users" in page


@pytest.mark.slow
def test_plan_counts_the_users_of_each_arm_and_the_days():
    world.write_log(Path("log.parquet"), world.World(users=400), 6)
    world.write_config(Path.cwd())
    rankwatch("replay checkout-test --since 2026-11-02 --until 2026-11-06")
    said = rankwatch("plan checkout-test --share 0.1").stdout
    assert said.startswith("seen first by FarGapRise, mean of far_gap(rbo(p=0.9)) (as angles:")
    assert re.search(
        r"each run needs ([\d,]+) users of the baseline and \1 users of the candidate; time needed: 1d",
        said,
    )
    (drop,) = read_json("plan checkout-test --drop 0.1 --users 400")
    (share,) = read_json("plan checkout-test --share 0.1 -m overlap")
    assert (drop["usual_users"], drop["alert"], share["alert"]) == (400, None, None)
    # The users' current lists and of before overlap by 0.6.
    assert share["drop"] == pytest.approx(0.1 * 0.6, abs=0.01)


def test_check_names_the_key_with_the_log_if_there_is_no_log():
    Path("log.jsonl").unlink()
    said = "  Change first: `unpaired` in rankwatch.yaml, line 8, or the data that it reads"
    assert said in rankwatch("check").stdout


def gate_without_lists(numbers):
    """Judge a run in which these users of the candidate get an empty list."""
    users = {f"u{number:03}" for number in numbers}
    rows = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    for row in rows:
        if row["user"] in users and row["at"] > "2026-11-01":
            row["items"] = []
    write_jsonl(rows, Path("log.jsonl"))
    rankwatch("run-once checkout-test --slot 2026-11-02 --again")
    return json.loads(rankwatch(f"{GATE} --json").stdout)


@pytest.mark.slow
def test_the_gate_judges_the_self_gap_over_pairs_of_users_of_both_arms():
    rankwatch("replay checkout-test --since 2026-11-02 --until 2026-11-02")
    certificate, again = (
        read_json(f"{GATE} -m '{metric}'")[0] for metric in ("rbo(p=0.9)", "overlap")
    )
    assert (certificate["verdict"], certificate["users"]) == ("safe", 59)
    assert certificate["series"] == "self_gap(rbo(p=0.9))"
    assert certificate["by_segment"][0]["mean_best"] == pytest.approx(0.1)
    assert again["by_segment"][0]["mean_best"] == 0
    lost = gate_without_lists(range(1, 48, 2))
    assert lost["verdict"] == "inconclusive"
    assert lost["by_segment"][0]["missing"] == pytest.approx(24, abs=1)
    assert_refused(f"""
        {GATE} --reference 0.5 | {USAGE_EXIT} | the gate judges the self gap: leave out --reference
    """)


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["all", "none"])
def test_the_gate_judges_segments_by_stored_lists_or_by_the_log(kept):
    config = Path("rankwatch.yaml")
    config.write_text(f"{config.read_text()}\n    keep_lists: {kept}\n")
    rankwatch("replay checkout-test --since 2026-11-02 --until 2026-11-02")
    (certificate,) = read_json(f"{GATE} --segment each")
    judged = {each["segment"]: each for each in certificate["by_segment"]}
    # A user of the candidate in DE switched arms.
    assert {name: each["users"] for name, each in judged.items()} == {
        "country=DE": 29,
        "country=UK": 30,
    }
    assert judged["country=UK"]["mean_best"] == pytest.approx(0.1)
