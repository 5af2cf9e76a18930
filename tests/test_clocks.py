"""No decision depends on the machine's wall clock: the program reads it in one place, and tests set that place."""

import ast
import re

from clocks import SHIFT_VARIABLE, set_clock, shift_clock
from factories import DAY, SLOT
from monitor.model import instants
from places import ROOT

CLASSES = {"datetime", "date", "Timestamp"}
METHODS = {"now", "utcnow", "today"}
FUNCTIONS = {
    "time",
    "time_ns",
    "gmtime",
    "localtime",
    "ctime",
    "asctime",
    "strftime",
    "CLOCK_REALTIME",
}
"""What the module time has that reads the wall clock, or can."""
OF_THE_PROGRAM = {"utc_now", "SystemClock"}
"""The program's own clock, which tests replace."""
ALLOWED = """
# The one place where the program reads the wall clock.
monitor/model/instants.py
# A real Alertmanager ends alerts by the machine's clock.
tests/servers/alertmanager.py
# A daemon in a process of its own, whose clock this is.
tests/service/test_privacy.py
tests/deploy/test_story.py
tests/web/test_browser.py
# A benchmark measures real time.
tests/bench/many.py
""".splitlines()
"""Files that may read the wall clock, and why."""


_READS = rf"\b({'|'.join(CLASSES)})\.({'|'.join(METHODS)})\b|\btime\.({'|'.join(FUNCTIONS)})\b"
MAY_READ = re.compile(rf"{_READS}|from time import|import [^)]*({'|'.join(OF_THE_PROGRAM)})")
"""To parse all files takes many times as long."""


def reads_of(source, program):
    """What reads the wall clock in this source: each read with its line."""
    if not MAY_READ.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", ""))
            is_read = owner in CLASSES and node.attr in METHODS
            if is_read or (owner == "time" and node.attr in FUNCTIONS):
                yield f"line {node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom):
            names = FUNCTIONS if node.module == "time" else program
            for each in node.names:
                if each.name in names:
                    yield f"line {node.lineno}: {each.name}"


def test_only_a_few_named_files_read_the_wall_clock():
    for folder in ["monitor", "tests", "migrations", "config", "deploy"]:
        program = OF_THE_PROGRAM if folder == "tests" else set[str]()
        found = {}
        for path in (ROOT / folder).rglob("*.py"):
            name = str(path.relative_to(ROOT))
            if name not in ALLOWED and (reads := list(reads_of(path.read_text(), program))):
                found[name] = reads
        assert not found


def test_a_planted_read_is_found():
    for source in [
        "from datetime import UTC, datetime\nat = datetime.now(UTC)",
        "import datetime\nat = datetime.date.today()",
        "import pandas as pd\nat = pd.Timestamp.utcnow()",
        "import time\nold = time.time() - path.stat().st_mtime > 60",
        "import time\nread = time.time",
        "from time import time_ns",
        "from monitor.service.clock import SystemClock",
    ]:
        assert list(reads_of(source, OF_THE_PROGRAM))


def test_other_clocks_and_times_are_not_found():
    source = "import time\nbegan_s = time.monotonic()\nat = clock.now()\nday = datetime.fromtimestamp(0, UTC)"
    assert not list(reads_of(source, OF_THE_PROGRAM))


def test_a_variable_shifts_the_clock_of_the_program(monkeypatch):
    monkeypatch.setenv(SHIFT_VARIABLE, "86400")
    set_clock(monkeypatch, SLOT)
    shift_clock(monkeypatch)
    assert instants.utc_now() == SLOT + DAY
