"""The pages of the tutorials and of the how-to guides, with the commands that they show.

A page is played in a folder of its own. A code block with a caption is a file. Each command of a
``console`` block runs, and the lines below it are what it prints. A line ``...`` stands for lines
that are left out. An ``sql`` block runs in the page's database. A page that says
``<!-- continues: PAGE -->`` begins where that page ended.
"""

import contextlib
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from textwrap import dedent

import pytest

from clocks import set_clock
from commands import rankwatch
from forking import run_program
from places import ROOT

DOCS = ROOT / "docs"
NOW = datetime(2026, 11, 12, 9, tzinfo=UTC)
_BLOCK = re.compile(
    r"(?m)^(?:<!-- not run: (?P<why>.*) -->\n\n?)?(?P<indent> *)```(?P<kind>.+)\n"
    r"(?P<text>(?:.*\n)*?)(?P=indent)```$"
)
_CAPTION = re.compile(r":caption: (\S+)\n\n")
_CONTINUES = re.compile(r"<!-- continues: (\S+) -->")
_STATUS = "; echo $?"


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    caption: str | None
    why_not_run: str | None
    where: str


def blocks(path):
    """The code blocks of a page in order."""
    page = path.read_text()
    for found in _BLOCK.finditer(page):
        text = dedent(found["text"])
        caption = _CAPTION.match(text)
        line = page.count("\n", 0, found.start("text"))
        yield Block(
            kind=found["kind"].removeprefix("{code-block} "),
            text=text[caption.end() :] if caption else text,
            caption=caption[1] if caption else None,
            why_not_run=found["why"],
            where=f"{path.relative_to(DOCS.parent)}:{line}",
        )


def guides():
    """Each page whose commands run."""
    return [*sorted(DOCS.glob("tutorials/*.md")), *sorted(DOCS.glob("how-to/*.md"))]


@cache
def played(path):
    """The page with what its commands print now, and the folder after the last command."""
    page = path.read_text()
    folder = Path(_scratch().name) / path.stem
    before = _CONTINUES.search(page)
    if before:
        shutil.copytree(played((path.parent / before[1]).resolve())[1], folder)
    else:
        folder.mkdir()
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        set_clock(patch, NOW)
        patch.setenv("USER", "ada")
        patch.setenv("LOGNAME", "ada")
        for block in blocks(path):
            if block.caption:
                Path(block.caption).write_text(block.text)
            if block.kind == "sql":
                with contextlib.closing(sqlite3.connect("rankwatch.db")) as database:
                    database.executescript(block.text)
            if block.kind == "console":
                page = page.replace(block.text, _run_block(block.text))
    return page, folder


@cache
def _scratch():
    return tempfile.TemporaryDirectory()


def _run_block(text):
    """The block with what each command prints now, cut at `...` as before."""
    lines = []
    for part in re.split(r"(?m)^\$ ", text)[1:]:
        command, shown = re.match(r"((?:.*\\\n)*.*\n)((?:.*\n)*)", part).groups()  # type: ignore[union-attr]
        head, dots, tail = shown.partition("...\n")
        printed = _output(command.replace("\\\n", " ").strip())
        if dots:
            first_left_out, first_of_tail = head.count("\n"), len(printed) - tail.count("\n")
            printed[first_left_out:first_of_tail] = [dots]
        lines += [f"$ {command}", *printed]
    return "".join(lines)


def _output(command):
    """The lines that a terminal shows of the command."""
    plain = command.removesuffix(_STATUS)
    if plain.startswith("rankwatch "):
        done = rankwatch(plain.removeprefix("rankwatch "))
    else:
        words = shlex.split(re.sub("^python3 ", f"{sys.executable} ", plain))
        done = run_program(words)
    printed = done.stdout + done.stderr
    if command.endswith(_STATUS):
        printed += f"{done.returncode}\n"
    return [f"{line.rstrip()}\n" for line in printed.splitlines()]


def texts():
    """Each guide with the whole text that it should have."""
    for path in guides():
        yield path, played(path)[0]
