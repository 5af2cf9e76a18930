"""The command `gate` as a pipeline meets it: exit codes, the certificate, and errors that are no verdict."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from commands import assert_refused, rankwatch, read_json
from json_keys import read_listed
from servers.chromium import shown_in_browser
from service.lists_world import APART, write_lists, write_world

GATE = "gate feed --margin 0.5"


def write_rotating(folder):
    """Forty of sixty users, drawn again for each day, and no noise floor."""
    config = write_world(folder, "sqlite:///rankwatch.db")
    text = config.read_text().replace("{all: true}", "{all: true, sample: {rotating: 40}}")
    config.write_text(text)


@pytest.fixture(scope="module")
def rotating(tmp_path_factory, sqlite_template):
    """Runs of two days of similar lists, for tests that only read them."""
    folder = Path(shutil.copy(sqlite_template, tmp_path_factory.mktemp("rotating"))).parent
    write_rotating(folder)
    for day in ("2024-01-08", "2024-01-09"):
        read_json(f"run-once --slot {day} --config {folder / 'rankwatch.yaml'}")
    return folder


@pytest.fixture(autouse=True)
def stored(rotating, monkeypatch):
    """The folder with these runs is the current one."""
    monkeypatch.chdir(rotating)
    return rotating


def test_lists_far_apart_are_a_breach_and_end_with_1_and_a_database_that_is_not_there_is_no_verdict(
    world, monkeypatch
):
    monkeypatch.chdir(world)
    write_rotating(world)
    write_lists(world / "candidate.jsonl", APART)
    read_json("run-once --slot 2024-01-08")
    done = rankwatch(GATE)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith(
        "BREACH: the mean excess is above 0.5: at least 1."
    )
    (world / "rankwatch.db").unlink()
    assert_refused(f"{GATE} | 4 | rankwatch.db")


def test_the_certificate_holds_what_the_verdict_rests_on_and_is_the_same_but_for_its_time(stored):
    printed = rankwatch(f"{GATE} --json --certificate certificate.json")
    assert printed.returncode == 0, printed.stderr
    found = read_listed((stored / "certificate.json").read_text())
    assert found == json.loads(printed.stdout)
    names = ("verdict", "reason", "yardstick", "design", "users", "missing", "metric")
    told = ["safe", "decided", "identical", "rotating", 80, 0, "extended_tau"]
    assert [found[name] for name in names] == told
    (segment,) = found["by_segment"]
    assert segment["confidence_sequence"]["high"] < 0.5
    assert segment["log10_e_value"]["safe"] > 2 > segment["log10_e_value"]["breach"]
    again = json.loads(rankwatch(f"{GATE} --json").stdout)
    assert found | {"at": None} == again | {"at": None}
    assert [path.name for path in stored.glob("*certificate*")] == ["certificate.json"]


@pytest.mark.integration
def test_as_a_page_it_has_the_verdict_its_figures_and_the_confidence_sequence_against_the_margin(
    chromium,
):
    printed = rankwatch(GATE)
    done = rankwatch(f"{GATE} --html gate.html")
    assert (done.returncode, done.stdout) == (0, printed.stdout)
    assert done.stderr == "written: gate.html\n"
    shown = shown_in_browser(chromium, Path("gate.html"))
    *lines, words = printed.stdout.splitlines()
    for said in ("Gate: safe", *lines[:3], words.removeprefix("SAFE: ")):
        assert " ".join(said.split()) in shown["text"]
    low, high = lines[4].split()[4:6]
    assert shown["notes"][1] == f"2024-01-09T00:00:00Z, 80 users: {low} to {high}, safe"
    assert shown["levels"] == ["margin"]


def test_no_error_ends_with_a_verdict(stored, monkeypatch):
    assert_refused(f"""
        gate feed | 64 | Missing option '--margin'
        {GATE} --nope | 64 | No such option
        {GATE} --since 2d | 64 | depends on the present time
        {GATE} --since soon | 64 | no ISO 8601 time
        {GATE} --metric over_floor(extended_tau) | 64 | is a derived series: give the metric extended_tau instead
        {GATE} --config gone.yaml | 64 | gone.yaml
    """)
    with suppress(FileExistsError):
        os.mkfifo(stored / "pipe")
    # A certificate that cannot be written is an error before the gate decides.
    monkeypatch.setattr("monitor.service.gate.decision.decide_gate", None)
    assert_refused(f"""
        {GATE} --certificate nowhere/certificate.json | 74 | rankwatch: nowhere/certificate.json: No such file or directory
        {GATE} --certificate pipe | 74 | rankwatch: pipe: it is a pipe, socket or device: name a file
    """)

    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("monitor.service.gate.question.make_question", broken)
    assert_refused(f"{GATE} | 70 | internal error: ZeroDivisionError in ")


def test_a_reader_who_has_gone_ends_a_command_with_74_and_no_word():
    for command in [GATE, "runs"]:
        reading, writing = os.pipe()
        os.close(reading)
        done = rankwatch(command, out=writing)
        assert (done.returncode, done.stderr) == (74, "")


def test_a_full_disk_under_the_output_is_reported_once_and_ends_with_74():
    done = rankwatch(GATE, out=os.open("/dev/full", os.O_WRONLY))
    assert (done.returncode, done.stderr) == (74, "rankwatch: output: No space left on device\n")


def test_a_certificate_for_the_output_itself_goes_before_the_table(capfd):
    done = rankwatch(f"{GATE} --certificate /dev/stdout", out=os.dup(1))
    assert done.returncode == 0
    certificate, end = json.JSONDecoder().raw_decode(text := capfd.readouterr().out)
    assert certificate["verdict"] == "safe"
    assert text[end:].startswith("\nfeed  margin 0.5")
