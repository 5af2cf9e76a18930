"""Migrations and templates travel with the wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from monitor.storage import schema_version

ROOT = Path(__file__).parents[2]

CREATE = """
import sys
from monitor.storage import open_store, schema_version
open_store("sqlite:///x.db", create=True).close()
print(schema_version.migrations(), schema_version.current("sqlite:///x.db"), schema_version.check("sqlite:///x.db"))
"""


@pytest.mark.integration
def test_an_installed_wheel_holds_the_templates_and_finds_its_migrations(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("rankwatch-*.whl")
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(target)
        names = set(packed.namelist())

    python = [sys.executable, "-c", CREATE]
    done = subprocess.run(
        python, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(target)}, capture_output=True, text=True, check=False
    )

    assert done.stdout.split(maxsplit=2) == [str(target / "monitor/storage/migrations"), schema_version.head(), "[]\n"], (
        done.stderr
    )
    templates = {
        str(path.relative_to(ROOT)) for path in (ROOT / "monitor").rglob("*") if path.parent.name in ("templates", "static")
    }
    assert templates
    assert templates <= names
