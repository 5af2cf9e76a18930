"""On a host: the unit file, by systemd's own tools; the examples for cron and Airflow, of which cron's line is run."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import monitor
from deploy.shipped import DEPLOY, moved, parse_command, text_of
from forking import run_program
from monitor.settings.loader import load_settings
from servers import require
from settings.minimal import MINIMAL


@pytest.fixture
def unit(tmp_path):
    """The unit with a program that exists here: verify looks for it."""
    program = tmp_path / "rankwatch"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = text_of("systemd/rankwatch.service")
    assert "ExecStart=/opt/rankwatch/bin/rankwatch serve --config " in text
    copy = tmp_path / "rankwatch.service"
    copy.write_text(moved(text, {"/opt/rankwatch/bin/rankwatch": str(program)}))
    return copy


def _analyze(*arguments):
    quiet = os.environ | {"SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_COLORS": "0"}
    command = [require("systemd-analyze"), *arguments]
    return run_program(command, env=quiet)


def _verify(unit):
    verified = _analyze("verify", "--man=no", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.integration
def test_systemd_finds_nothing_wrong_with_the_unit_and_its_sandbox_leaves_little_exposed(unit):
    _verify(unit)
    rated = _analyze("security", "--offline=true", "--no-pager", str(unit)).stdout
    exposure = re.findall(r"Overall exposure level for \S+: ([\d.]+)", rated)[0]
    assert float(exposure) <= 2.0  # from 0 (nothing) to 10


@pytest.mark.integration
def test_a_secret_comes_as_a_credential(unit, tmp_path, monkeypatch):
    shutil.copytree(
        DEPLOY / "systemd" / "rankwatch.service.d", added := tmp_path / "rankwatch.service.d"
    )
    text = (added / "credentials.conf").read_text()
    ((name, path),) = re.findall(r"^LoadCredential=(\w+):(.+)$", text, re.MULTILINE)
    ((shown, named),) = re.findall(
        r"^# +(\w+_file: \$\{CREDENTIALS_DIRECTORY\}/(\w+))$", text, re.MULTILINE
    )
    # systemd writes each credential to a file of its name in a directory that the environment names.
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    (tmp_path / name).write_text("postgresql+psycopg://rankwatch:canary@postgres/rankwatch")
    config = tmp_path / "rankwatch.yaml"
    config.write_text(f"{shown}\n{MINIMAL}")
    _verify(unit)
    assert name == named == Path(path).name
    assert "canary" in load_settings(config).database.get_secret_value()


CRON = re.compile(r"^\*/15 \* \* \* \* rankwatch (flock .+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def line():
    return str(CRON.findall(text_of("cron/rankwatch"))[0])


def _cron(line, tmp_path, program):
    """Exit code of cron's command with this shell program in rankwatch's place."""
    require("flock")
    stand_in = tmp_path / "rankwatch"
    stand_in.write_text(f"#!/bin/sh\n{program}\n")
    stand_in.chmod(0o755)
    places = {"/opt/rankwatch/bin/rankwatch": str(stand_in), "/var/lib/rankwatch": str(tmp_path)}
    command = ["/bin/sh", "-c", moved(line, places)]
    done = run_program(command)
    assert (done.stdout, done.stderr) == ("", "")
    return done.returncode


def test_crons_command_is_one_that_rankwatch_has(line):
    asked = parse_command(line.partition("/bin/rankwatch ")[2].removesuffix(" >/dev/null").split())
    assert asked["comparison"] == "home-feed"


@pytest.mark.integration
def test_cron_gets_the_exit_code_and_mails_no_table_and_a_slot_is_skipped_while_a_run_is_active(
    line, tmp_path
):
    for code in (0, 5):
        assert _cron(line, tmp_path, f"echo table; exit {code}") == code
    held = ["flock", "--nonblock", f"{tmp_path}/cron.lock", "sh", "-c", "echo held; read _"]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert _cron(line, tmp_path, "exit 0") == 75
        other.communicate(b"\n")
    assert _cron(line, tmp_path, "exit 0") == 0


def test_airflows_task_names_a_command_and_an_image_that_exist():
    source = text_of("airflow/rankwatch_home_feed.py")
    keywords = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.keyword)]
    arguments, image = (
        ast.literal_eval(next(each.value for each in keywords if each.arg == name))
        for name in ("arguments", "image")
    )
    params = parse_command(arguments)
    assert params["comparison"] == "home-feed"
    assert params["slot"] == "{{ data_interval_end | ts }}"
    assert image.rpartition(":")[2] == monitor.__version__
