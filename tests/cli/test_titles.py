"""Titles of items wherever a command prints a list."""

import json
from pathlib import Path

import pytest

from forking import rankwatch
from service.lists_world import APART, SIMILAR, write_lists, write_world

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
    ("check", "--users", "1"),
    ("show", "feed", "--users", "1"),
    (
        "compare",
        "baseline.jsonl",
        "candidate.jsonl",
        "-k",
        "5",
        "--worst",
        "1",
        "--titles",
        "catalogue.csv",
        "--html",
        "c.html",
    ),
)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
def test_both_lists_have_all_their_titles(world: Path, command: tuple[str, ...]) -> None:
    done, listed = rankwatch(*command, cwd=world), rankwatch(*command, "--json", cwd=world)
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
    failed = rankwatch(*COMMANDS[2], cwd=world)
    assert (failed.returncode, "catalogue.csv" in failed.stderr) == (2, True)
