"""Folders of scratch databases: none is left behind, and none that is in use is taken."""

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from monitor import scratch
from monitor.scratch import scratch_database


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, made_at in (("spill-left", 0), ("spill-used", 0), ("other", 0), ("spill-young", 2**33)):
        folder = tmp_path / f"rankwatch-{name}"
        folder.mkdir()
        (folder / "file").touch()
        os.utime(folder, (made_at, made_at))
    used = os.open(tmp_path / "rankwatch-spill-used", os.O_RDONLY)
    fcntl.flock(used, fcntl.LOCK_EX)
    scratch._remove_left_over.cache_clear()

    with scratch_database("60MB"):
        found = {path.name for path in tmp_path.iterdir()}
    os.close(used)
    assert {"rankwatch-spill-used", "rankwatch-spill-young", "rankwatch-other"} < found
    assert len(found) == 4
    assert len(list(tmp_path.iterdir())) == 3


def test_what_a_run_that_nobody_waits_for_has_open_is_removed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_database("60MB"):
        scratch._remove_own()
        assert list(tmp_path.iterdir()) == []
