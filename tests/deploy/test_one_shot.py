"""The examples for cron and Airflow: their command lines are ones that rankwatch has, and cron's line is run."""

import ast
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import monitor
from monitor.cli.main import app
from servers import require

CRON = re.compile(r"^\*/15 \* \* \* \* rankwatch (?P<command>flock .+)$", re.MULTILINE)


def _parse(arguments: list[str]) -> dict[str, Any]:
    """What rankwatch makes of the arguments; wrong usage is an error. Nothing is run."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined] # a click group
    params: dict[str, Any] = commands[arguments[0]].make_context(arguments[0], arguments[1:]).params
    return params


@pytest.fixture(scope="module")
def line(deploy: Path) -> str:
    found = CRON.search((deploy / "cron" / "rankwatch").read_text(encoding="utf-8"))
    assert found
    return found["command"]


def _cron(line: str, tmp_path: Path, program: str) -> int:
    """Exit code of cron's command with this shell program in rankwatch's place."""
    require("flock")
    stand_in = tmp_path / "rankwatch"
    stand_in.write_text(f"#!/bin/sh\n{program}\n", encoding="utf-8")
    stand_in.chmod(0o755)
    moved = line.replace("/opt/rankwatch/bin/rankwatch", str(stand_in)).replace("/var/lib/rankwatch", str(tmp_path))
    done = subprocess.run(["/bin/sh", "-c", moved], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")
    return done.returncode


def test_crons_command_is_one_that_rankwatch_has(line: str) -> None:
    asked = _parse(line.partition("/bin/rankwatch ")[2].removesuffix(" >/dev/null").split())

    assert asked["comparison"] == "home-feed"


@pytest.mark.parametrize("code", [0, 2, 3, 4, 5])
def test_cron_sees_the_exit_code_of_the_run_and_mails_no_table(line: str, tmp_path: Path, code: int) -> None:
    assert _cron(line, tmp_path, f"echo table; exit {code}") == code


def test_a_run_that_is_still_at_it_lets_the_next_one_pass(line: str, tmp_path: Path) -> None:
    held = ["flock", "--nonblock", str(tmp_path / "cron.lock"), "sh", "-c", "echo held; read _"]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()

        assert _cron(line, tmp_path, "exit 0") == 75

        other.communicate(b"\n")
    assert _cron(line, tmp_path, "exit 0") == 0


def test_airflows_task_asks_for_a_command_and_an_image_that_exist(deploy: Path) -> None:
    source = (deploy / "airflow" / "rankwatch_home_feed.py").read_text(encoding="utf-8")
    given = {node.arg: node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)}
    asked = _parse(ast.literal_eval(given["arguments"]))

    assert asked["comparison"] == "home-feed"
    assert asked["slot"] == "{{ data_interval_end | ts }}"
    assert ast.literal_eval(given["image"]).rpartition(":")[2] == monitor.__version__
