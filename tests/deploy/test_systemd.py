"""The unit file, by systemd's own tools."""

import os
import subprocess
from pathlib import Path

import pytest

from servers import require


@pytest.fixture
def unit(deploy: Path, tmp_path: Path) -> Path:
    """The unit with a program that exists here: verify looks for it."""
    program = tmp_path / "rankwatch"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    text = (deploy / "systemd" / "rankwatch.service").read_text(encoding="utf-8")
    assert "ExecStart=/opt/rankwatch/bin/rankwatch serve --config " in text
    copy = tmp_path / "rankwatch.service"
    copy.write_text(text.replace("/opt/rankwatch/bin/rankwatch", str(program)), encoding="utf-8")
    return copy


def _analyze(*arguments: str) -> "subprocess.CompletedProcess[str]":
    quiet = os.environ | {"SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_COLORS": "0"}
    return subprocess.run([require("systemd-analyze"), *arguments], capture_output=True, text=True, check=False, env=quiet)


def test_systemd_finds_nothing_wrong_with_the_unit(unit: Path) -> None:
    verified = _analyze("verify", "--man=no", str(unit))

    assert (verified.returncode, verified.stderr) == (0, "")


def test_a_misspelt_directive_would_be_found(unit: Path) -> None:
    unit.write_text(unit.read_text(encoding="utf-8").replace("PrivateTmp=", "PrivateTemp="), encoding="utf-8")

    assert "PrivateTemp" in _analyze("verify", "--man=no", str(unit)).stderr


def test_the_sandbox_leaves_little_exposed(unit: Path) -> None:
    rated = _analyze("security", "--offline=true", "--threshold=20", str(unit))

    assert rated.returncode == 0, rated.stdout[-2000:]


def test_the_unit_reloads_by_hangup_and_notifies(unit: Path) -> None:
    lines = unit.read_text(encoding="utf-8").splitlines()

    assert {"Type=notify", "ExecReload=/bin/kill -HUP $MAINPID", "DynamicUser=yes"} <= set(lines)
