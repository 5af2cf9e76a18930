"""An unexpected error ends each command with its exit code and one line, shows no data, and aborts nothing."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

import monitor.cli
from cli.faulty_commands import COMMANDS, NEEDLE, done, fail_after_start, fail_inside
from monitor.cli.main import app
from service.lists_world import write_world

FAULT = re.compile(
    r"rankwatch: internal error: KeyError in \w+\.py, line \d+\. This is a fault of rankwatch: "
    r"please report it\. RANKWATCH_TRACEBACK=1 shows the traceback, which can contain data\.\n"
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_ends_with_one_line_after_an_error_inside_while_a_source_still_works(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    found = done(fail_inside, words, tmp_path)
    assert FAULT.fullmatch(found.stderr), found.stderr
    assert (found.returncode, found.stdout) == (70 if words == ("gate",) else 1, "")


def test_a_variable_shows_the_traceback(tmp_path: Path) -> None:
    found = done(fail_inside, ("metrics",), tmp_path, RANKWATCH_TRACEBACK="1")
    assert FAULT.match(found.stderr)
    assert found.stderr.endswith(f"KeyError: '{NEEDLE}'\n")


def test_a_daemon_whose_threads_run_ends_likewise(tmp_path: Path) -> None:
    config = write_world(tmp_path, "sqlite:///rankwatch.db", every="1d")
    found = done(fail_after_start, ("serve", "--config", str(config)), tmp_path)
    *logged, last = found.stderr.splitlines(keepends=True)
    assert FAULT.fullmatch(last)
    assert all(line.startswith("{") for line in logged)
    assert (found.returncode, NEEDLE in found.stderr) == (1, False)


def test_a_run_that_breaks_is_a_failed_run_whose_reason_names_the_place_and_shows_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError(NEEDLE)

    config = write_world(tmp_path, "sqlite:///rankwatch.db", every="1d")
    monkeypatch.setattr("monitor.service.runner.execute", broken)
    found = CliRunner().invoke(app, ["run-once", "--config", str(config)])
    assert found.exit_code == 3
    assert re.search(r"internal error: KeyError in runner\.py, line \d+: please report it\n", found.stdout)
    assert re.search(r"run broke .*: KeyError in runner\.py, line \d+\n$", found.stderr)
    assert NEEDLE not in found.output


def test_an_interrupt_while_the_program_loads_ends_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(ModuleType):
        def __getattr__(self, name: str) -> object:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "monitor.cli.main", Interrupted("monitor.cli.main"))
    with pytest.raises(SystemExit) as end:
        importlib.reload(monitor.cli)
    assert end.value.code == 130
