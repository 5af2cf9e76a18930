"""rankwatch compare: what it prints of two files, and of what is known beside them."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import monitor
from forking import Done, rankwatch

BASE = {f"u{i}": list(range(i, i + 10)) for i in range(12)}
CANDIDATE = {
    user: (items[::-1] if i % 3 == 0 else [*items[:5], 90, 91, 92, 93, 94]) for i, (user, items) in enumerate(BASE.items())
}
SCORES = [9, 9, 8, 7, 6, 5, 4, 3, 2, 1]


def compare(*args: str, cwd: Path, env: dict[str, str] | None = None) -> Done:
    return rankwatch("compare", *args, cwd=cwd, env=env)


def found(done: Done) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    read: dict[str, Any] = json.loads(done.stdout)
    return read


@pytest.fixture
def world(tmp_path: Path) -> Path:
    for name, lists in (("base", BASE), ("candidate", CANDIDATE)):
        rows = (
            {"user_id": user, "items": items, "scores": SCORES, "country": "UK" if int(user[1:]) % 2 else "DE"}
            for user, items in lists.items()
        )
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_long(tmp_path / "long.csv", BASE)
    return tmp_path


def write_long(path: Path, lists: dict[str, list[int]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["user_id", "product", "place", "points"])
        for user, items in lists.items():
            table.writerows((user, item, rank, score) for rank, (item, score) in enumerate(zip(items, SCORES, strict=True)))


FILES = ("base.jsonl", "candidate.jsonl")


def test_files_compare_as_the_same_lists_do_in_python(world: Path) -> None:
    said = found(compare(*FILES, "--json", cwd=world))

    frame = monitor.compare_many(BASE, CANDIDATE, k=10)
    expected = monitor.summarize(frame)
    assert (said["users"], said["paired"], said["k"]) == (12, 12, 10)
    assert not list(world.glob("rankwatch*")), "it needs no configuration and no database"
    assert said["catalogue"] == frame.attrs["catalogue"]
    for metric, row in expected.iterrows():
        told = said["metrics"][metric]
        assert [told[name] for name in ("n", "n_undefined")] == [row["n"], row["n_undefined"]]
        assert [told[name] for name in ("mean", "standard_error", "p05", "p50", "by_chance")] == pytest.approx(
            [row[name] for name in ("mean", "standard_error", "p05", "median", "by_chance")], abs=1e-12
        )


def test_files_of_different_shapes_are_compared(world: Path) -> None:
    text = (world / "long.csv").read_text()
    (world / "ordered.tsv").write_text("\n".join("\t".join(line.split(",")[:2]) for line in text.splitlines()))
    expected = found(compare("candidate.jsonl", "base.jsonl", "--json", cwd=world))
    for file, order in (("long.csv", ["--rank", "place"]), ("ordered.tsv", ["--in-order"])):
        said = found(compare("candidate.jsonl", file, "--item", "product", *order, "--json", cwd=world))
        assert said["metrics"] == expected["metrics"]
        assert said["paired"] == 12
    wrong = compare("candidate.jsonl", "long.csv", "--item", "produkt", "--rank", "place", cwd=world)
    assert wrong.returncode == 2
    assert "long.csv has no column 'produkt' (did you mean 'product'?)" in wrong.stderr


def test_a_table_tells_the_score_by_chance_and_what_it_is(world: Path) -> None:
    done = compare(*FILES, "--catalogue", "1000", cwd=world)

    lines = done.stdout.splitlines()
    assert lines[0] == "12 of 12 users compared at k=10"
    assert "by chance" in lines[1]
    assert "0.0100" in next(line for line in lines if line.startswith("overlap"))
    assert "unrelated lists" in lines[-2]
    assert "10 items each, drawn at random from a catalogue of 1,000" in lines[-2]


def test_by_splits_the_users_by_a_column_and_what_sets_lists_apart_adds_up_to_the_distance_from_identical_ones(
    world: Path,
) -> None:
    said = found(compare(*FILES, "--by", "country", "--json", cwd=world))

    for told in (said, *said["segments"].values()):
        apart = told["apart"]
        assert apart["metric"] == "extended_tau"
        assert set(apart["parts"]) == {"membership", "order", "length"}
        assert sum(apart["parts"].values()) == pytest.approx(1 - told["metrics"]["extended_tau"]["mean"], abs=1e-12)
        assert sum(apart["lists"].values()) == pytest.approx(1)
    line = compare(*FILES, cwd=world).stdout.splitlines()[-1]
    assert line.startswith("extended_tau is 0.")
    assert "from that of identical lists: items replaced" in line

    by = {user: "UK" if int(user[1:]) % 2 else "DE" for user in BASE}
    expected = monitor.summarize(monitor.compare_many(BASE, CANDIDATE, "overlap", 10), by)
    assert list(said["segments"]) == ["country=DE", "country=UK"]
    for segment in ("DE", "UK"):
        told = said["segments"][f"country={segment}"]
        assert (told["paired"], told["metrics"]["overlap"]["mean"]) == (6, expected.loc[("overlap", segment), "mean"])
    table = compare(*FILES, "--by", "country", cwd=world).stdout
    assert "country=UK: 6 of 6 users compared" in table


def test_users_and_their_segments_may_stand_in_a_file_of_their_own(world: Path) -> None:
    (world / "users.csv").write_text("user_id,plan\nu1,free\nu2,paid\nu3,free\nnobody,free\n")

    said = found(compare(*FILES, "--users", "users.csv", "--by", "plan", "--json", cwd=world))

    assert (said["users"], said["paired"], said["coverage"]) == (4, 3, {"baseline.missing": 1, "candidate.missing": 1})
    assert {name: told["paired"] for name, told in said["segments"].items()} == {"plan=free": 2, "plan=paid": 1}


def test_a_user_of_the_candidate_alone_belongs_to_no_segment_of_the_baselines(world: Path) -> None:
    with (world / "candidate.jsonl").open("a") as file:
        file.write(json.dumps({"user_id": "u99", "items": [1]}) + "\n")

    said = found(compare(*FILES, "--by", "country", "--json", cwd=world))

    assert (said["users"], said["paired"], said["segments"]["country=unknown"]["paired"]) == (13, 12, 0)


def test_the_worst_users_of_a_similarity_are_the_lowest_and_of_a_distance_the_highest(world: Path) -> None:
    for metric in ("extended_tau", "kendall_distance"):
        said = found(compare(*FILES, "-m", metric, "--worst", "2", "--json", cwd=world))
        scores = monitor.compare_many(BASE, CANDIDATE, metric, 10)[metric].sort_values(kind="stable")
        expected = scores.iloc[:2] if metric == "extended_tau" else scores.iloc[::-1][:2]
        assert [each["scores"][metric] for each in said["worst"]] == expected.tolist()
    worst = said["worst"][0]
    assert worst["baseline"] == [str(item) for item in BASE[worst["user"]]]
    assert worst["candidate"] == [str(item) for item in CANDIDATE[worst["user"]]]


def test_as_one_file_it_shows_what_it_prints_and_the_users_farthest_apart_whatever_their_names(world: Path) -> None:
    with (world / "candidate.jsonl").open("a") as file, (world / "base.jsonl").open("a") as other:
        for each, items in ((file, ["<b>&", "2"]), (other, ["1", "<script>"])):
            each.write(json.dumps({"user_id": "<script>", "items": items}) + "\n")
    done = compare(*FILES, "--html", "out.html", "--worst", "2", cwd=world)

    text = (world / "out.html").read_text()
    assert done.returncode == 0
    assert text.count("<script") == 1
    assert "<b>" not in text
    lines = [line for line in done.stdout.splitlines() if " users compared " in line or line.startswith("extended_tau is")]
    assert [line in text for line in lines] == [True, True]
    assert text.count('class="slopes"') == done.stdout.count("\nuser ") == 2
    assert text.count("by chance ") >= 3
    silent = compare(*FILES, "--html", "out.html", cwd=world)
    assert (silent.stdout.count("\nuser "), (world / "out.html").read_text().count('class="slopes"')) == (0, 6)
    assert compare(*FILES, "--html", "nowhere/out.html", cwd=world).returncode == 74


def test_scores_make_ties_and_may_make_the_order(world: Path) -> None:
    wide = found(compare(*FILES, "-m", "rbo_w", "--scores", "scores", "--json", cwd=world))
    long = ("long.csv", "long.csv", "--item", "product", "--scores", "points", "-m", "rbo_a", "--json")
    by_score, by_rank = found(compare(*long, cwd=world)), found(compare(*long, "--rank", "place", cwd=world))

    assert 0 < wide["metrics"]["rbo_w(p=0.9)"]["mean"] < 1
    assert by_score["metrics"] == by_rank["metrics"]


MISTAKES = [
    (("-m", "rbo_a"), 2, "rbo_a(p=0.9) needs scores: add --scores COLUMN"),
    (("-m", "element_weighted_tau"), 2, "needs item_weights: name it in a configuration"),
    (("-m", "ndcg"), 2, "needs relevance: name it in a configuration"),
    (("-m", "recal"), 2, "did you mean 'recall'?"),
    (("--catalogue", "5"), 2, "--catalogue 5: 26 different items are listed"),
    (("--item", "product"), 2, "give either items"),
    (("--by", "contry"), 2, "did you mean 'country'?"),
    (("--users", "none.csv"), 2, "none.csv does not exist"),
    (("--user", "who"), 2, "who"),
    (("--items", "what"), 2, "what"),
    (("-m", "novelty"), 2, "arm_metrics"),
]


@pytest.mark.parametrize(("flags", "code", "words"), MISTAKES)
def test_every_mistake_is_one_line_that_says_what_to_do(world: Path, flags: tuple[str, ...], code: int, words: str) -> None:
    done = compare(*FILES, *flags, cwd=world)

    assert (done.returncode, done.stdout, len(done.stderr.strip().splitlines()), words in done.stderr) == (code, "", 1, True)


UNPAIRED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "users of other names": ([{"user_id": "z", "items": [1]}], "none of 13 users could be compared (12 missing in baseline,"),
    "lists that are none": (
        [{"user_id": "u1", "items": "1;2"}],
        "column 'items' of odd.jsonl: 1 of 1 rows cannot be read (text with separators",
    ),
    "empty lists": ([{"user_id": "u1", "items": []}], "1 empty in baseline"),
}


@pytest.mark.parametrize("case", UNPAIRED)
def test_files_without_a_pair_of_lists_are_an_error_that_says_why(world: Path, case: str) -> None:
    rows, words = UNPAIRED[case]
    (world / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    done = compare("odd.jsonl", "candidate.jsonl", "--json", cwd=world)

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert words in done.stderr
    assert case == "lists that are none" or "check that both files mean the same users" in done.stderr


def test_what_was_left_out_is_told_with_its_reason(world: Path) -> None:
    rows = [{"user_id": "u1", "items": "1;2"}, {"user_id": "u2", "items": [1]}]
    (world / "odd.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    said = found(compare("odd.jsonl", "candidate.jsonl", "--json", "--max-unreadable", "0.5", cwd=world))

    assert said["paired"] == 1
    advice = "write a JSON array, or one item a row"
    no_json = "the text is no JSON array of ids, but text with separators"
    assert said["notes"] == [
        f"malformed in baseline: odd.jsonl: {no_json}: {advice}; for example u1",
        f"column 'items' of odd.jsonl: 1 of 2 rows cannot be read (text with separators, such as '1;2'): {advice}",
    ]


HOSTILE = {"\x1b[31mred\x07": ["\x1b]0;title\x07", "\x9b2J"], "two\nlines\u202e": ["[bold]b[/bold]", "tab\t"]}
"""Ids that are written to do harm to a terminal or a reader."""


def test_neither_an_id_nor_a_file_steers_the_terminal(tmp_path: Path) -> None:
    rows = [{"user_id": user, "items": items, "by": "\x1b[2J"} for user, items in HOSTILE.items()]
    (tmp_path / "hostile.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "binary.csv").write_bytes(b"user_id,items\n\x1b[2J\x07\n")

    shown = compare("hostile.jsonl", "hostile.jsonl", "--worst", "2", "--by", "by", cwd=tmp_path)
    refused = [compare(file, file, "--by", "none", cwd=tmp_path) for file in ("hostile.jsonl", "binary.csv")]

    assert (shown.returncode, [each.returncode for each in refused]) == (0, [2, 2])
    said = "".join(each.stdout + each.stderr for each in (shown, *refused))
    assert {char for char in said if not char.isprintable()} == {"\n"}
    assert "by=\\x1b[2J: " in shown.stdout
    assert "user \\x1b[31mred\\x07 " in shown.stdout
    assert "user two\\nlines\\u202e " in shown.stdout
    assert "[bold]b[/bold]" in shown.stdout


def test_json_is_json_whatever_the_encoding_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"user_id": "\xe9", "items": ["\xe9", "\U0001f600"]}))

    done = compare("a.jsonl", "a.jsonl", "--worst", "1", "--json", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})

    assert json.loads(done.stdout)["worst"][0]["baseline"] == ["\xe9", "\U0001f600"]
