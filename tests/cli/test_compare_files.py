"""rankwatch compare: what it prints about two files, with scores, users, segments and a second training."""

import csv
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import monitor
from commands import assert_refused, objects, of_all, one_line, rankwatch
from factories import summary
from monitor.pipeline.accumulator import RunAccumulator
from monitor.service.analysis import file_comparison
from monitor.service.analysis.interpretation import (
    _FEW_USERS_SHARE,
    _LEAST_NEARLY_IDENTICAL,
    _LEAST_SIMILAR,
    _LEAST_USERS,
    _MOST_RANDOM,
    interpret_summary,
    measure_concentration,
)
from monitor.sources.file import formats
from places import ROOT
from tables import rows

BASE = {f"u{i}": list(range(i, i + 10)) for i in range(12)}
CANDIDATE = {
    user: (items[::-1] if i % 3 == 0 else [*items[:5], 90, 91, 92, 93, 94])
    for i, (user, items) in enumerate(BASE.items())
}
COUNTRIES = {user: "UK" if int(user[1:]) % 2 else "DE" for user in BASE}
SCORES = [9, 9, 8, 7, 6, 5, 4, 3, 2, 1]
COMPARE = "compare base.jsonl candidate.jsonl"


def read_comparison(command):
    done = rankwatch(f"{command} --json")
    assert done.stderr == ""
    (found,) = objects(done)
    return found


def write_rows(name, *rows, mode="w"):
    with Path(name).open(mode) as file:
        file.writelines(f"{json.dumps(row)}\n" for row in rows)


def write_long(name, delimiter, columns, rows):
    with Path(name).open("w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([columns, *rows])


def write_world():
    """Two files of lists in the current folder."""
    for name, lists in (("base", BASE), ("candidate", CANDIDATE)):
        rows = (
            {"user_id": user, "items": items, "scores": SCORES, "country": COUNTRIES[user]}
            for user, items in lists.items()
        )
        write_rows(f"{name}.jsonl", *rows)


@pytest.fixture(autouse=True)
def _world():
    write_world()


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """What is printed of both files for machines, which needs no configuration and no database."""
    folder = tmp_path_factory.mktemp("compared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_world()
        found = read_comparison(f"{COMPARE} --by country --worst 2")
    assert not list(folder.glob("rankwatch*"))
    return found


def test_files_compare_as_the_same_lists_do_in_python(compared):
    frame = monitor.compare_many(BASE, CANDIDATE, k=10)
    assert (compared["asked"], compared["paired"], compared["k"]) == (12, 12, 10)
    assert compared["catalogue_size"] == frame.attrs["catalogue"]
    for metric, row in monitor.summarize(frame).rename(columns={"median": "p50"}).iterrows():
        found = of_all(compared)[str(metric)]
        found |= found["statistics"]
        for name in ["n", "n_undefined", "mean", "standard_error", "p05", "p50", "by_chance"]:
            assert found[name] == pytest.approx(row[name], abs=1e-12)


@pytest.mark.slow
def test_files_of_different_shapes_are_compared_and_scores_make_ties_and_may_make_the_order():
    rows = [
        (user, item, rank, score)
        for user, items in BASE.items()
        for rank, (item, score) in enumerate(zip(items, SCORES, strict=True))
    ]
    write_long("long.csv", ",", ["who", "product", "spot", "points"], rows)
    write_long("ordered.tsv", "\t", ["UserID", "movieId"], [row[:2] for row in rows])
    expected = read_comparison("compare candidate.jsonl base.jsonl")
    for file in (
        "long.csv --user user_id --user who --item product --rank spot",
        "ordered.tsv --in-order",
    ):
        said = read_comparison(f"compare candidate.jsonl {file}")
        assert (said["summaries"], said["paired"]) == (expected["summaries"], 12)

    wide = read_comparison(f"{COMPARE} -m rbo_w --scores scores")
    long = "compare long.csv long.csv --user who --item product --scores points -m rbo_a"
    assert 0 < of_all(wide)["rbo_w(p=0.9)"]["mean"] < 1
    assert of_all(read_comparison(long)) == of_all(read_comparison(f"{long} --rank spot"))
    assert_refused("""
        compare candidate.jsonl long.csv --user user_id --user who --item produkt --rank spot | 2 | (did you mean 'product'?)
    """)


@pytest.mark.slow
def test_the_last_line_says_whether_the_candidate_differs_more_than_a_second_training():
    write_rows(
        "second.jsonl",
        *({"user_id": user, "items": [*items[:9], 99]} for user, items in BASE.items()),
    )
    done = rankwatch(f"{COMPARE} --retrained second.jsonl --worst 1 --html out.html --by country")
    (first,) = [line for line in done.stdout.splitlines() if line.startswith("In short, ")]
    assert "times as far from the baseline as the baseline's retraining: extended_tau is" in first
    found = read_comparison(f"{COMPARE} --retrained second.jsonl --by country -m extended_tau")
    trainings = read_comparison("compare base.jsonl second.jsonl -m extended_tau")
    mean_of_trainings = trainings["summaries"][0]["mean"]
    assert of_all(found)["floor(extended_tau)"]["mean"] == mean_of_trainings
    assert found["floor_apart"] == trainings["apart"]
    german, british = found["by_segment"]
    assert len(german["summaries"]) == len(british["summaries"]) == 2
    for text in (done.stdout, Path("out.html").read_text()):
        assert text.count("floor(extended_tau)") >= 3
        assert "retraining: extended_tau is " in text
        assert "country=UK: extended_tau is " in text
    assert german["interpretation"]["mean"] == german["summaries"][0]["mean"]


def test_the_candidate_and_the_retraining_are_compared_for_the_same_users():
    write_rows("half.jsonl", {"user_id": "u1", "items": [1]})
    (note,) = read_comparison(f"{COMPARE} --retrained half.jsonl")["notes"]
    assert note == "left out, because half.jsonl lacks them: 11 users"
    write_rows("half.jsonl", {"user_id": "x", "items": [1]})
    assert_refused(f"""
        {COMPARE} --retrained half.jsonl | 2 | half.jsonl has none of the 12 users: it has users such as 'x'
        {COMPARE} --titles base.jsonl | 2 | base.jsonl has no column 'item_id'
    """)


def test_a_sample_is_named(monkeypatch):
    monkeypatch.setattr(file_comparison, "RunAccumulator", partial(RunAccumulator, subset_users=5))
    assert read_comparison(COMPARE)["notes"][0].endswith("in a sample of 4 of 12 users")


def test_compare_says_how_many_users_get_one_and_the_same_list():
    write_rows("one.jsonl", *({"user_id": user, "items": [1, 2]} for user in BASE))
    done = rankwatch("compare base.jsonl one.jsonl")
    assert "100 % of the users get one and the same list from the candidate." in done.stdout
    shared = read_comparison("compare base.jsonl one.jsonl --by country")["shared_list"]
    assert shared == {"baseline": pytest.approx(1 / 12), "candidate": 1.0}


def test_without_a_value_by_chance_or_30_users_nothing_is_interpreted():
    assert interpret_summary(summary(), by_chance=None, identical=1.0, trainings=None) is None
    assert measure_concentration(np.ones(29)) is None


def test_the_page_on_these_words_names_their_limits():
    page = (ROOT / "docs/explanation/compare.md").read_text()
    for limit in (_LEAST_NEARLY_IDENTICAL, _LEAST_SIMILAR, _MOST_RANDOM, _FEW_USERS_SHARE):
        assert f"{limit * 100:.0f} %" in page
    assert f"{_LEAST_USERS} users" in page


def test_by_splits_the_users_by_a_column_and_what_sets_lists_apart_adds_up_to_the_distance_from_identical_ones(
    compared,
):
    for found in (compared, *compared["by_segment"]):
        apart, distance = found["apart"], 1 - found["summaries"][0]["mean"]
        assert apart["metric"] == "extended_tau"
        assert set(apart["parts"]) == {"membership", "order", "length"}
        assert sum(apart["parts"].values()) == pytest.approx(distance, abs=1e-12)
        assert sum(apart["shares"].values()) == pytest.approx(1)
    expected = monitor.summarize(monitor.compare_many(BASE, CANDIDATE, "overlap", 10), COUNTRIES)
    for found, country in zip(compared["by_segment"], ("DE", "UK"), strict=True):
        assert (found["segment"], found["paired"]) == (f"country={country}", 6)
        (mean,) = (each["mean"] for each in found["summaries"] if each["metric"] == "overlap")
        assert mean == expected.loc[("overlap", country), "mean"]


def paired_by_segment(said):
    return {each["segment"]: each["paired"] for each in said["by_segment"]}


def test_users_and_their_segments_may_be_in_a_file_of_their_own_or_unknown():
    Path("users.csv").write_text("user_id,plan\nu1,free\nu2,paid\nu3,free\nnobody,free\n")
    said = read_comparison(f"{COMPARE} --users users.csv --by plan")
    assert (said["asked"], said["paired"]) == (4, 3)
    assert said["users_by_reason"] == {"baseline,missing": 1, "candidate,missing": 1}
    assert paired_by_segment(said) == {"plan=free": 2, "plan=paid": 1}

    write_rows("candidate.jsonl", {"user_id": "u99", "items": [1]}, mode="a")
    said = read_comparison(f"{COMPARE} --by country")
    assert (said["asked"], said["paired"]) == (13, 12)
    assert paired_by_segment(said)["country=unknown"] == 0


@pytest.mark.slow
def test_lists_that_are_longer_than_k_are_noted_whatever_usual_names_their_columns_have():
    pairs = [(name, item, rank) for name, items in BASE.items() for rank, item in enumerate(items)]
    write_long("long.csv", ",", ["customer", "product", "position"], pairs)
    write_long("scored.csv", ",", ["CustomerID", "Product", "points"], pairs)
    Path("base.json").touch()
    assert_refused("""
        compare scored.csv scored.csv --scores none | 2 | has no column 'none'
        compare base.jsonl base.jsonl --in-order --item product | 2 | has no column 'product'
        compare scored.csv scored.csv | 2 | --user, --item and one of --rank, --scores and --in-order
        compare base.json base.json | 2 | or set format in a configuration
    """)
    as_text = [{"user": name, "items": json.dumps(items)} for name, items in BASE.items()]
    pd.DataFrame(as_text).to_csv("text.csv", index=False)
    pd.DataFrame({"user": BASE.keys(), "items": BASE.values()}).to_parquet("lists.parquet")
    for file in ("long.csv", "text.csv", "lists.parquet", "base.jsonl"):
        (note,) = read_comparison(f"compare {file} {file} -k 9")["notes"]
        assert note.startswith("the lists have up to 10 items, and k is 9: ")
    for files in (
        "long.csv text.csv",
        "lists.parquet base.jsonl",
        "scored.csv scored.csv --scores points",
    ):
        found = read_comparison(f"compare {files} -k 10")
        assert (found["notes"], of_all(found)["overlap"]["mean"]) == ([], 1.0)
    assert not read_comparison("compare text.csv text.csv -k 9 --no-item=-1")["notes"]


def test_a_column_that_only_later_rows_have_is_found(monkeypatch):
    monkeypatch.setattr(formats, "_FIRST_OBJECTS", 1)
    write_rows("late.jsonl", {"user_id": "u0"}, {"user_id": "u1", "items": [1]})
    assert read_comparison("compare late.jsonl candidate.jsonl")["paired"] == 1


def test_the_worst_users_of_a_similarity_are_the_lowest_and_of_a_distance_the_highest(compared):
    distant = read_comparison(f"{COMPARE} -m kendall_distance --worst 2")
    for found, metric, is_distance in (
        (compared, "extended_tau", False),
        (distant, "kendall_distance", True),
    ):
        scores = monitor.compare_many(BASE, CANDIDATE, metric, 10)[metric]
        assert [each["scores"][metric] for each in found["worst"]] == sorted(
            scores, reverse=is_distance
        )[:2]
        worst = found["worst"][0]
        assert [[*map(int, worst[arm])] for arm in ("baseline", "candidate")] == [
            lists[worst["user"]] for lists in (BASE, CANDIDATE)
        ]


def test_as_one_file_it_shows_what_it_prints_and_the_users_farthest_apart_whatever_their_names(
    tmp_path,
):
    write_rows("candidate.jsonl", {"user_id": "<script>", "items": ["<b>&", "2"]}, mode="a")
    write_rows("base.jsonl", {"user_id": "<script>", "items": ["1", "<script>"]}, mode="a")
    done = rankwatch(f"{COMPARE} --html out.html --worst 2")

    text = (tmp_path / "out.html").read_text()
    assert done.returncode == 0
    assert text.count("<script") == 1
    assert "<b>" not in text
    lines = re.findall("(?m)^.* users compared .*$|^extended_tau is.*$", done.stdout)
    assert [line in text for line in lines] == [True, True]
    assert text.count('class="slopes"') == done.stdout.count("\nuser ") == 2
    assert text.count("by chance ") >= 3
    assert rankwatch(f"{COMPARE} --html nowhere/out.html").returncode == 74


MISTAKES = """
-m rbo_a | rbo_a(p=0.9) needs scores: add --scores COLUMN
-m element_weighted_tau | needs item_weights: use a configuration
-m ndcg | needs relevance: use a configuration
-m recal | did you mean 'recall'?
-m novelty | arm_metrics
-m first_differs | The share of users with the same first item: -m overlap -k 1
--catalogue 5 | --catalogue 5 is too small: 26 different items are listed
--item product | has no column 'product'
--by contry | did you mean 'country'?
--users none.csv | none.csv does not exist
--user who | who
--items what | what
--item-ids [strip | --item-ids '[strip' is not YAML: write forms as in a configuration
"""


def test_every_mistake_is_one_line_that_says_what_to_do():
    for options, words in rows(MISTAKES):
        assert_refused(f"{COMPARE} {options} | 2 | {words}")


@pytest.mark.slow
def test_files_without_a_pair_of_lists_are_an_error_with_a_reason_and_left_out_rows_are_noted_with_theirs():
    odd = {"user_id": "u1", "items": "1;2"}
    for row, words in (
        (
            {"user_id": "z", "items": [1]},
            "none of 13 users could be compared (12 missing in baseline,",
        ),
        (odd, "column 'items' of odd.jsonl: 1 of 1 rows cannot be read (text with separators"),
        ({"user_id": "u1", "items": []}, "1 empty in baseline"),
    ):
        write_rows("odd.jsonl", row)
        done = rankwatch("compare odd.jsonl candidate.jsonl --json")
        assert done.returncode == 2
        assert words in one_line(done)
        assert row is odd or "check that both files have the same users" in one_line(done)

    write_rows("odd.jsonl", odd, {"user_id": "u2", "items": [1]})
    said = read_comparison("compare odd.jsonl candidate.jsonl --max-unreadable 0.5")
    assert said["paired"] == 1
    advice = 'write a JSON array such as ["a","b"], or one item in each row'
    lists, rows = said["notes"]
    assert lists == (
        "malformed in baseline: odd.jsonl: the text is not a JSON array of ids, but text with "
        f"separators: {advice}; for example u1"
    )
    assert rows == (
        "column 'items' of odd.jsonl: 1 of 2 rows cannot be read (text with separators, such as "
        f"'1;2'): {advice}"
    )


HOSTILE = {
    "\x1b[31mred\x07": ["\x1b]0;title\x07", "\x9b2J"],
    "two\nlines\u202e": ["[bold]b[/bold]", "tab\t"],
}
"""Ids that are written to do harm to a terminal or a reader."""


def test_neither_an_id_nor_a_file_steers_the_terminal():
    write_rows(
        "hostile.jsonl",
        *({"user_id": user, "items": items, "by": "\x1b[2J"} for user, items in HOSTILE.items()),
    )
    Path("binary.csv").write_bytes(b"user_id,items\n\x1b[2J\x07\n")

    shown = rankwatch("compare hostile.jsonl hostile.jsonl --worst 2 --by by")
    refused = [
        rankwatch(f"compare {file} {file} --by none") for file in ("hostile.jsonl", "binary.csv")
    ]

    assert [each.returncode for each in (shown, *refused)] == [0, 2, 2]
    for each in (shown, *refused):
        assert (each.stdout + each.stderr).replace("\n", "").isprintable()
    for words in (
        "by=\\x1b[2J: ",
        "user \\x1b[31mred\\x07 ",
        "user two\\nlines\\u202e ",
        "[bold]b[/bold]",
    ):
        assert words in shown.stdout


def test_json_is_json_whatever_the_encoding_of_the_terminal():
    write_rows("a.jsonl", {"user_id": "\xe9", "items": ["\xe9", "\U0001f600"]})

    done = rankwatch("compare a.jsonl a.jsonl --worst 1 --json", env={"PYTHONIOENCODING": "ascii"})

    assert json.loads(done.stdout)["worst"][0]["baseline"] == ["\xe9", "\U0001f600"]
