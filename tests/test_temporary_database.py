"""Folders of scratch databases: none is left behind, and none that is in use is taken."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from monitor.boundary import temporary_database
from monitor.boundary.deadline import BackgroundCall, Deadline
from monitor.boundary.temporary_database import scratch_database

pytestmark = pytest.mark.usefixtures("own_databases")


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, made_at in (
        ("spill-left", 0),
        ("spill-used", 0),
        ("other", 0),
        ("spill-young", 2**33),
    ):
        folder = tmp_path / f"rankwatch-{name}"
        folder.mkdir()
        (folder / "file").touch()
        os.utime(folder, (made_at, made_at))
    used = os.open(tmp_path / "rankwatch-spill-used", os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_EX)
    temporary_database._remove_leftovers.cache_clear()

    with scratch_database("60MB"):
        found = {path.name for path in tmp_path.iterdir()}
    os.close(used)
    assert {"rankwatch-spill-used", "rankwatch-spill-young", "rankwatch-other"} < found
    assert len(found) == 4
    assert len(list(tmp_path.iterdir())) == 3


def test_what_a_run_that_nobody_waits_for_has_open_is_removed_at_the_end(tmp_path):
    hangs = """
import threading
from monitor.boundary.temporary_database import scratch_database
is_open = threading.Event()
def hang():
    with scratch_database("60MB"):
        is_open.set()
        threading.Event().wait()
threading.Thread(target=hang, daemon=True).start()
is_open.wait()
"""
    subprocess.run([sys.executable, "-c", hangs], env={"TMPDIR": str(tmp_path)}, check=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "link", "file"])
def test_what_another_account_puts_into_the_temporary_folder_stops_no_run(
    kind, tmp_path, monkeypatch
):
    temporary, elsewhere = tmp_path / "tmp", tmp_path / "elsewhere"
    temporary.mkdir()
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    odd = temporary / "rankwatch-spill-odd"
    make = {"pipe": os.mkfifo, "link": lambda path: path.symlink_to(elsewhere), "file": Path.touch}
    make[kind](odd)
    os.utime(odd, (0, 0))
    os.utime(elsewhere, (0, 0))
    temporary_database._remove_leftovers.cache_clear()

    def use():
        with scratch_database("60MB") as database:
            return len(database.execute("SELECT 1").fetchall())

    assert BackgroundCall(use, name="scratch").wait(Deadline.after(60)) == 1
    assert odd.is_symlink() or odd.exists()
    assert elsewhere.exists()
