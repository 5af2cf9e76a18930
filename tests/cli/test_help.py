"""What the help shows, what the shell completes, and how options may still be spelled."""

import re
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from clocks import set_clock
from commands import rankwatch, read_json
from monitor.cli.main import COMMANDS
from tables import parsed
from test_documentation import COMMANDS as BY_PATH


def complete(line):
    """What bash offers at the end of the line."""
    words = ["rankwatch", *line.split(" ")]
    env = {
        "_RANKWATCH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = rankwatch("", env=env)
    assert done.stderr == ""
    return done.stdout.split()


def test_help_fits_80_columns_without_a_cut_line_and_without_internal_metavars():
    for path in BY_PATH:
        shown = rankwatch(f"{' '.join(path)} --help", env={"COLUMNS": "80"}).stdout
        assert max(map(len, shown.splitlines())) <= 80, path
        assert not re.findall(r"[a-z]\.\.\.$|<[a-z]|\d<=x", shown, re.MULTILINE), path
    shown = rankwatch("--help").stdout
    assert [line[:-1] for line in shown.splitlines() if line[:-1] in COMMANDS] == [*COMMANDS]


def test_a_short_option_means_the_same_in_all_commands():
    meanings = defaultdict(set)
    for command in BY_PATH.values():
        for param in command.params:
            for name in param.opts:
                if len(name) == 2:
                    meanings[name].add(param.name)
    assert not {name: found for name, found in meanings.items() if len(found) > 1}


@pytest.mark.usefixtures("fired")
def test_the_shell_completes_names_from_the_configuration_and_the_database_or_nothing(tmp_path):
    for line, offered in parsed("""
        ["sil", ["silence"]]
        ["alerts ", ["ls", "ack", "resolve"]]
        ["show ", ["feed"]]
        ["show feed --slot 2024", ["2024-01-09", "2024-01-08"]]
        ["alerts ack feed --segment ", ["all"]]
        ["alerts ack --alert Sim", ["SimilarityLow"]]
        ["metrics novel", ["novelty"]]
        ["-c none.yaml show ", []]
    """):
        assert complete(line) == offered, line
    (tmp_path / "rankwatch.db").write_text("damaged")
    assert not complete("show feed --slot ")


@pytest.mark.usefixtures("fired")
def test_a_time_ago_selects_the_newest_run_before_it(monkeypatch):
    set_clock(monkeypatch, datetime(2026, 3, 10, 12, 30, tzinfo=UTC))
    (found,) = read_json("show feed --slot 1d")
    assert found["slot"] == "2024-01-09T00:00:00Z"
    assert read_json("replay --since 0d --until 2026-03-10") == []
    (run,) = read_json("run-once --slot 3d")
    assert run["slot"] == "2026-03-07T00:00:00Z"
