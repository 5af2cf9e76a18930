"""Migrations travel with the wheel."""

import os
import subprocess
import sys
from pathlib import Path

from monitor.storage import schema_version
from servers import missing

ROOT = Path(__file__).parents[2]

CREATE = """
import sys
from monitor.storage import open_store, schema_version
open_store("sqlite:///x.db", create=True).close()
print(schema_version.migrations(), schema_version.current("sqlite:///x.db"), schema_version.check("sqlite:///x.db"))
"""


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)


def test_an_installed_wheel_finds_its_migrations(tmp_path: Path) -> None:
    built = pip("wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT))
    if "No matching distribution found for hatchling" in built.stderr:
        missing("hatchling, with which wheels are built, cannot be installed here")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("rankwatch-*.whl")
    target = tmp_path / "installed"
    installed = pip("install", "--no-deps", "--target", str(target), str(wheel))
    assert installed.returncode == 0, installed.stderr

    python = [sys.executable, "-c", CREATE]
    done = subprocess.run(
        python, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)}, capture_output=True, text=True, check=False
    )

    assert done.stdout.split(maxsplit=2) == [str(target / "monitor/storage/migrations"), schema_version.head(), "[]\n"], (
        done.stderr
    )
