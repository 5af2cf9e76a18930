"""The command `gate` as a pipeline meets it: exit codes, the certificate, and errors that are no verdict."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import forking
from monitor.cli.main import app
from servers.chromium import shown_in_browser
from service.lists_world import APART, write_lists, write_world


def rankwatch(*args: str) -> Result:
    """In this process, where the folder of the world is current."""
    return CliRunner().invoke(app, list(args))


def gate(*args: str) -> Result:
    return rankwatch("gate", "feed", "--margin", "0.5", *args)


def write_rotating(folder: Path) -> None:
    """Forty of sixty users, drawn anew each day, no noise floor."""
    config = write_world(folder, "sqlite:///rankwatch.db", every="1d")
    config.write_text(config.read_text().replace("{all: true}", "{all: true, sample: {rotating: 40}}"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of two days of similar lists, for tests that only read them."""
    folder = tmp_path_factory.mktemp("stored")
    write_rotating(folder)
    for day in ("2024-01-08", "2024-01-09"):
        assert rankwatch("run-once", "--slot", day, "--config", str(folder / "rankwatch.yaml")).exit_code == 0
    return folder


@pytest.fixture
def world(stored: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That folder, the current one."""
    monkeypatch.chdir(stored)
    return stored


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same without a run, to change; the current folder."""
    monkeypatch.chdir(tmp_path)
    write_rotating(tmp_path)
    assert rankwatch("db", "upgrade").exit_code == 0
    return tmp_path


def run(day: int) -> None:
    assert rankwatch("run-once", "--slot", f"2024-01-{day:02}").exit_code == 0


@pytest.mark.usefixtures("world")
def test_similar_lists_are_safe_and_end_with_0() -> None:
    done = gate()
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "feed  margin 0.5  alpha 0.01"
    assert lines[1].startswith(
        "judged: extended_tau: how far it is from 1, that of identical lists; the baseline's own noise is NOT"
    )
    assert lines[2] == "runs: 2, 2024-01-08T00:00:00Z to 2024-01-09T00:00:00Z; 80 rotating users, 0 missing"
    assert lines[-1].startswith("SAFE: the mean excess is below 0.5: at most 0.")


def test_lists_far_apart_are_a_breach_and_end_with_1(empty: Path) -> None:
    write_lists(empty / "candidate.jsonl", APART)
    run(8)
    done = gate()
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1].startswith("BREACH: the mean excess is above 0.5: at least 1.")


def test_the_certificate_holds_what_the_verdict_rests_on_and_is_the_same_but_for_its_time(world: Path) -> None:
    printed = gate("--json", "--certificate", "certificate.json")
    assert printed.exit_code == 0, printed.stderr
    found: dict[str, Any] = json.loads((world / "certificate.json").read_text())
    assert found == json.loads(printed.stdout)
    assert (found["verdict"], found["reason"], found["judged"], found["design"]) == ("safe", "decided", "identical", "rotating")
    assert (found["users"], found["missing"], found["margin"], found["alpha"]) == (80, 0, 0.5, 0.01)
    assert (found["metric"], found["reference"], found["range"]) == ("extended_tau", 1.0, [0.0, 2.0])
    assert len(found["config_hash"]) == 64
    (segment,) = found["segments"]
    assert segment["confidence_sequence"]["low"] == 0.0
    assert segment["confidence_sequence"]["high"] < 0.5
    assert segment["log10_e_value"]["safe"] > 2 > segment["log10_e_value"]["breach"]
    again = json.loads(gate("--json").stdout)
    assert found | {"at": None} == again | {"at": None}
    assert sorted(path.name for path in world.iterdir() if "certificate" in path.name) == ["certificate.json"]


@pytest.mark.usefixtures("world")
def test_as_a_page_it_has_the_verdict_its_figures_and_the_confidence_sequence_against_the_margin() -> None:
    printed = gate()
    done = gate("--html", "gate.html")
    assert (done.exit_code, done.stdout, done.stderr) == (0, printed.stdout, "written: gate.html\n")
    shown = shown_in_browser(Path("gate.html"))
    assert "Gate: safe" in shown["text"]
    *lines, words = printed.stdout.splitlines()
    assert all(" ".join(line.split()) in shown["text"] for line in (*lines[:3], words.removeprefix("SAFE: ")))
    first, newest = shown["notes"]
    assert first.startswith("2024-01-08T00:00:00Z, 40 users: 0.0000 to ")
    bounds = lines[4].split()[4:6]
    assert newest == f"2024-01-09T00:00:00Z, 80 users: {bounds[0]} to {bounds[1]}, safe"
    assert shown["levels"] == ["margin"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("gate", "feed"), "Missing option '--margin'"),
        (("gate", "feed", "--margin", "0.5", "--nope"), "No such option"),
        (("gate", "feed", "--margin", "0.5", "--since", "soon"), "no ISO 8601 time"),
        (
            ("gate", "feed", "--margin", "0.5", "--metric", "over_floor(extended_tau)"),
            "over_floor(extended_tau) is a series, and the gate takes the metric itself, extended_tau",
        ),
        (("gate", "feed", "--margin", "0.5", "--config", "gone.yaml"), "gone.yaml"),
    ],
)
@pytest.mark.usefixtures("world")
def test_no_error_ends_with_a_verdict(args: Sequence[str], words: str) -> None:
    require_no_verdict(rankwatch(*args), 64, words)


@pytest.mark.usefixtures("world")
def test_an_error_while_options_are_read_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError

    monkeypatch.setattr("monitor.cli.rollout_gate.GateCommand.parse_args", broken)
    require_no_verdict(gate(), 70, "internal error: KeyError in ")


def test_a_database_that_is_not_there_is_no_verdict(empty: Path) -> None:
    (empty / "rankwatch.db").unlink()
    require_no_verdict(gate(), 4, "rankwatch.db")


def require_no_verdict(done: Result, code: int, words: str) -> None:
    assert done.exit_code == code
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere/certificate.json", "No such file or directory"),
        ("pipe", "it is no file but a pipe, socket or device: name a file"),  # nobody reads it, and nobody is waited for
    ],
)
def test_a_certificate_that_cannot_be_written_is_no_verdict_and_told_before_anything_is_read(
    world: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    monkeypatch.setattr("monitor.service.gate.decide", None)
    with suppress(FileExistsError):
        os.mkfifo(world / "pipe")
    done = gate("--certificate", name)
    assert (done.exit_code, done.stdout, done.stderr) == (74, "", f"rankwatch: {name}: {why}\n")


@pytest.mark.parametrize(
    "args",
    [
        ("gate", "feed", "--margin", "0.5"),
        ("gate", "feed", "--margin", "0.5", "--json"),
        ("gate", "--help"),
        ("runs",),
        ("runs", "--json"),
        ("show", "feed"),
        ("alerts",),
        ("backtest", "--rules", "rankwatch.yaml"),
        ("compare", "baseline.jsonl", "candidate.jsonl"),
    ],
)
def test_a_reader_who_has_gone_ends_every_command_with_74_and_no_word(world: Path, args: tuple[str, ...]) -> None:
    done = forking.rankwatch(*args, cwd=world, out=forking.NOBODY)
    assert (done.returncode, done.stderr) == (74, "")


def test_a_full_disk_under_the_output_is_told_once_and_ends_with_74(world: Path) -> None:
    done = forking.rankwatch("gate", "feed", "--margin", "0.5", cwd=world, out=Path("/dev/full"))
    assert (done.returncode, done.stderr) == (74, "rankwatch: output: No space left on device\n")


def test_a_certificate_for_the_output_itself_goes_before_the_table(world: Path) -> None:
    args = ("gate", "feed", "--margin", "0.5", "--certificate", "/dev/stdout")
    done = forking.rankwatch(*args, cwd=world, out=world / "out.txt")
    assert done.returncode == 0
    text = (world / "out.txt").read_text()
    certificate, end = json.JSONDecoder().raw_decode(text)
    assert certificate["verdict"] == "safe"
    assert text[end:].startswith("\nfeed  margin 0.5")


@pytest.mark.usefixtures("world")
def test_a_fault_of_the_program_is_no_breach(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("monitor.service.gate.make_question", broken)
    done = gate()
    assert done.exit_code == 70
    assert "ZeroDivisionError" in done.stderr
