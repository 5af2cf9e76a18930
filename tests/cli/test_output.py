"""What commands print: tables on a terminal, titles wherever there is a list, all that a metric declares."""

import json

import pytest

from commands import assert_refused, rankwatch, read_json
from monitor.cli.output import print_table
from monitor.measures.arm_metrics import ARM_METRICS
from monitor.measures.metrics import METRICS
from service.lists_world import APART, SIMILAR, write_lists

COMMANDS = (
    "check --users 1",
    "show feed --users 1",
    "compare baseline.jsonl candidate.jsonl -k 5 --worst 1 --titles catalogue.csv --html c.html",
)


def test_on_a_narrow_terminal_texts_are_below_their_rows(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_table("ab", [("1" * 999, "some text")])
    assert "1\n    some text\n" in capsys.readouterr().out


@pytest.mark.slow
def test_both_lists_show_titles_and_without_the_catalogue_ids_and_check_says_why(world):
    write_lists(world / "candidate.jsonl", APART)
    items = [*SIMILAR, *APART]
    (world / "catalogue.csv").write_text(
        "item_id,title\n" + "".join(f"{item},Title {item}\n" for item in items)
    )
    config = world / "rankwatch.yaml"
    titles = (
        "    item_titles: {file: {path: catalogue.csv, item: item_id, title: title}}\n    rules:"
    )
    config.write_text(config.read_text().replace("    rules:", titles))
    assert rankwatch("run-once --slot 2024-01-08").returncode == 0

    for command in COMMANDS:
        done = rankwatch(command)
        assert done.returncode == 0, done.stderr
        lists = done.stdout.partition("user u")[2]
        assert [lists.count(f"Title {item} ({item})") for item in items] == [1] * 10
        titles = json.loads(rankwatch(f"{command} --json").stdout)["titles"]
        assert titles == {str(item): f"Title {item}" for item in items}
    assert "Title 91 (91)" in (world / "c.html").read_text()

    (world / "catalogue.csv").unlink()
    checked, shown = map(rankwatch, ("check", "show feed"))
    assert (checked.returncode, "item_titles: " in checked.stdout) == (0, True)
    assert (shown.returncode, "user u" in shown.stdout) == (0, True)
    assert_refused(f"{COMMANDS[2]} | 2 | catalogue.csv")


def test_every_metric_has_its_line_and_is_one_object_for_machines():
    lines = rankwatch("metrics").stdout.splitlines()
    for name in (*map(str, (kind() for kind in METRICS.values())), *ARM_METRICS):
        assert sum(line.startswith(f"{name}  ") for line in lines) == 1

    found = read_json("metrics")
    assert [each["metric"].partition("(")[0] for each in found] == [*METRICS, *ARM_METRICS]
    assert all(each["meaning"] and "`" not in each["meaning"] and each["source"] for each in found)
    assert {each["need"] for each in found} >= {
        None,
        "scores",
        "item_weights",
        "relevance",
        "keep_lists",
    }


def test_one_metric_is_shown_with_all_that_it_declares_and_the_choices_of_its_parameters():
    shown = rankwatch("metrics 'rbo(p=0.8)@5'").stdout

    assert shown.startswith("rbo(p=0.8)@5: Agreement at every depth")
    declared = "low|high|identical|both empty|undefined|equation 32|uneven|ties|by chance"
    assert all(words in shown for words in declared.split("|"))
    choices = "gain (value: linear, default: linear, choices: linear, exponential)"
    assert choices in rankwatch("metrics ndcg").stdout
    (told,) = read_json("metrics novelty")
    assert (told["arms"], told["need"]) == (["baseline", "candidate"], "keep_lists")


def test_a_name_that_is_none_names_the_likeliest():
    assert_refused("""
        metrics rob | 2 | did you mean 'rbo'?
        metrics noveltyy | 2 | did you mean 'novelty'?
        metrics zzzzzzz | 2 | rankwatch metrics lists all
        metrics rbo(q=1) | 2 | no parameter 'q'
        metrics rbo(p=2) | 2 | p must be between 0 and 1
        metrics novelty@5 | 2 | without parameters and depth
        metrics '' | 2 | unknown metric ''
    """)
