"""rankwatch metrics: every measure, and all that one declares."""

import json
from pathlib import Path

import pytest

from forking import Done, rankwatch
from monitor.arm_metrics import ARM_METRICS
from monitor.cli import metric_list
from monitor.errors import MetricError
from monitor.metrics import METRICS, expected_by_chance


def describe(*args: str) -> Done:
    return rankwatch("metrics", *args, cwd=Path.cwd())


def test_every_measure_has_its_line() -> None:
    lines = describe().stdout.splitlines()

    for name in (*map(str, (kind() for kind in METRICS.values())), *ARM_METRICS):
        assert sum(line.startswith(f"{name}  ") for line in lines) == 1, name


def test_every_measure_is_one_object_for_machines() -> None:
    objects = [json.loads(line) for line in describe("--json").stdout.splitlines()]

    assert [each["metric"].partition("(")[0] for each in objects] == [*METRICS, *ARM_METRICS]
    assert all(each["meaning"] and "`" not in each["meaning"] and each["source"] for each in objects)
    assert {each["needs"] for each in objects} >= {None, "scores", "item_weights", "relevance", "keep_lists"}


def test_one_measure_is_told_with_all_that_it_declares() -> None:
    done = describe("rbo(p=0.8)@5")

    assert done.stdout.startswith("rbo(p=0.8)@5: Agreement at every depth")
    for words in ("low", "high", "identical", "both empty", "undefined", "equation 32", "uneven", "ties", "by chance"):
        assert words in done.stdout


def test_one_measure_tells_what_chance_gives_for_small_and_large_catalogues() -> None:
    told = json.loads(describe("extended_tau", "--json").stdout)

    metric = METRICS["extended_tau"]()
    assert told["by_chance_k10"] == {str(n): expected_by_chance(metric, 10, n) for n in (10, 20, 50, 100, 1000)}
    assert [round(value, 2) for value in told["by_chance_k10"].values()] == pytest.approx(
        [0.63, -0.19, -0.67, -0.83, -0.98], abs=0.011
    )


def test_words_that_a_parameter_may_be_are_told() -> None:
    assert "gain (value: linear, default: linear, choices: linear, exponential)" in describe("ndcg").stdout


def test_a_measure_of_one_arm_is_told_too() -> None:
    told = json.loads(describe("novelty", "--json").stdout)

    assert (told["metric"], told["arms"], told["needs"]) == ("novelty", ["baseline", "candidate"], "keep_lists")


NAMES = [
    ("rob", "did you mean 'rbo'?"),
    ("noveltyy", "did you mean 'novelty'?"),
    ("zzzzzzz", "see rankwatch metrics for all"),
    ("rbo(q=1)", "no parameter 'q'"),
    ("rbo(p=2)", "p must lie between 0 and 1"),
    ("novelty@5", "no depth"),
    ("", "unknown metric ''"),
]


@pytest.mark.parametrize(("name", "words"), NAMES)
def test_a_name_that_is_none_names_the_likeliest(name: str, words: str) -> None:
    with pytest.raises(MetricError) as refused:
        metric_list.metrics(name)

    assert words in str(refused.value)
