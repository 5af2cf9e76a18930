"""The commands of the tutorials print what the tutorials show."""

import re
from pathlib import Path

import pytest

from commands import rankwatch

TUTORIALS = Path(__file__).parents[1] / "docs/tutorials"
FILE = re.compile(r"```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"```console\n\$ rankwatch (.*?)\n(.*?)```", re.DOTALL)


def matches(printed: str, shown: str) -> bool:
    """Whether the output is the one shown. A line `...` stands for any lines."""
    parts = [
        re.escape(line) + "\n" if line != "..." else "(?:.*\n)*" for line in shown.splitlines()
    ]
    lines = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), lines) is not None


@pytest.mark.parametrize("path", sorted(TUTORIALS.glob("*.md")), ids=lambda path: path.stem)
def test_each_command_of_a_tutorial_prints_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = path.read_text()
    for name, content in FILE.findall(text):
        Path(name).write_text(content)
    commands = COMMAND.findall(text)
    assert commands
    for command, shown in commands:
        done = rankwatch(command)
        assert matches(done.stdout, shown), f"rankwatch {command}\n{done.stdout}{done.stderr}"
