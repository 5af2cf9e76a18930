"""What commands print: tables on a terminal of eighty columns, titles wherever there is a list, all that a measure declares."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from commands import rankwatch
from forking import Done
from monitor.arm_metrics import ARM_METRICS
from monitor.cli import metric_list
from monitor.errors import MetricError
from monitor.metrics import METRICS, expected_by_chance
from service.lists_world import APART, SIMILAR, write_lists, write_world

COLUMNS = ("user", "segment", "users>", "mean>", "by chance>", "reason")
NUMBERS = ("1,234,567", "-0.123456", "-0.983972")
PRINT = """
import sys
from monitor.cli.output import print_table
print_table({columns!r}, {rows!r})
"""


def on_terminal(rows: list[tuple[str, ...]], width: int = 80) -> list[str]:
    """Lines as a terminal of that width gets them, without colours."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environ = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}} | {"TERM": "xterm"}
    command = [sys.executable, "-c", PRINT.format(columns=COLUMNS, rows=rows)]
    with subprocess.Popen(command, stdout=terminal, env=environ) as process:
        os.close(terminal)
        told = b""
        try:
            while part := os.read(controller, 65536):
                told += part
        except OSError:  # the other end is closed
            pass
        assert process.wait() == 0
    os.close(controller)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in told.decode().splitlines()]


def test_text_folds_within_the_terminal_and_numbers_stay_whole() -> None:
    reason = "the mean is below its threshold since the run of yesterday at six in the morning"
    lines = on_terminal([("u-1", "country=nonUK", *NUMBERS, reason)])

    assert max(map(len, lines)) <= 80
    for number in NUMBERS:
        assert sum(number in line for line in lines) == 1
    assert set(reason.split()) <= set(" ".join(lines).split())


def test_a_table_that_cannot_be_so_narrow_is_wider_than_the_terminal_and_loses_nothing() -> None:
    lines = on_terminal([("u-1", "country=nonUK", *NUMBERS, "too low")], width=40)

    whole = " ".join(lines)
    for word in (*NUMBERS, "u-1", "too low", "by chance"):
        assert word in whole
    assert "…" not in whole


pytestmark = pytest.mark.early


@pytest.fixture
def world(tmp_path: Path) -> Path:
    config = write_world(tmp_path, "sqlite:///rankwatch.db", every="1d")
    write_lists(tmp_path / "candidate.jsonl", APART)
    rows = [f"{item},Title {item}" for item in (*SIMILAR, *APART)]
    (tmp_path / "catalogue.csv").write_text("\n".join(["item_id,title", *rows, ""]))
    titles = "    item_titles: {file: {path: catalogue.csv, item: item_id, title: title}}\n    rules:"
    config.write_text(config.read_text().replace("    rules:", titles))
    assert rankwatch("run-once", "--slot", "2024-01-08", cwd=tmp_path).returncode == 0
    return tmp_path


COMMANDS = (
    "check --users 1",
    "show feed --users 1",
    "compare baseline.jsonl candidate.jsonl -k 5 --worst 1 --titles catalogue.csv --html c.html",
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[0])
def test_both_lists_have_all_their_titles(world: Path, command: str) -> None:
    done, listed = (rankwatch(*command.split(), *more, cwd=world) for more in ((), ("--json",)))
    assert (done.returncode, done.stderr.replace("written: c.html\n", "")) == (0, "")
    lists = done.stdout.partition("user u")[2]
    assert [lists.count(f"Title {item} ({item})") for item in (*SIMILAR, *APART)] == [1] * 10
    assert json.loads(listed.stdout)["titles"] == {str(item): f"Title {item}" for item in (*SIMILAR, *APART)}
    if "--html" in command:
        assert "Title 91 (91)" in (world / "c.html").read_text()


def test_without_the_catalogue_ids_stand_there_and_check_says_why(world: Path) -> None:
    (world / "catalogue.csv").unlink()
    checked, shown = rankwatch("check", cwd=world), rankwatch("show", "feed", cwd=world)
    assert (checked.returncode, shown.returncode) == (0, 0)
    assert "item_titles: " in checked.stdout
    assert "user u" in shown.stdout
    failed = rankwatch(*COMMANDS[2].split(), cwd=world)
    assert (failed.returncode, "catalogue.csv" in failed.stderr) == (2, True)


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


def test_one_measure_is_told_with_all_that_it_declares_and_words_that_a_parameter_may_be_and_so_is_one_of_one_arm() -> None:
    done = describe("rbo(p=0.8)@5")

    assert done.stdout.startswith("rbo(p=0.8)@5: Agreement at every depth")
    for words in ("low", "high", "identical", "both empty", "undefined", "equation 32", "uneven", "ties", "by chance"):
        assert words in done.stdout
    assert "gain (value: linear, default: linear, choices: linear, exponential)" in describe("ndcg").stdout
    told = json.loads(describe("novelty", "--json").stdout)
    assert (told["metric"], told["arms"], told["needs"]) == ("novelty", ["baseline", "candidate"], "keep_lists")


def test_one_measure_tells_what_chance_gives_for_small_and_large_catalogues() -> None:
    told = json.loads(describe("extended_tau", "--json").stdout)

    metric = METRICS["extended_tau"]()
    assert told["by_chance_k10"] == {str(n): expected_by_chance(metric, 10, n) for n in (10, 20, 50, 100, 1000)}
    assert [round(value, 2) for value in told["by_chance_k10"].values()] == pytest.approx(
        [0.63, -0.19, -0.67, -0.83, -0.98], abs=0.011
    )


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
