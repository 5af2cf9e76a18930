"""The files of a SQLite database: who may read them."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url

from monitor.storage import exposure, open_store
from monitor.storage.sqlite_file import make_private


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("named", ["rankwatch.db", "link.db"])
def test_a_new_database_and_its_log_are_for_their_owner_alone(tmp_path: Path, named: str) -> None:
    (tmp_path / "link.db").symlink_to("rankwatch.db")
    with closing(open_store(f"sqlite:///{tmp_path / named}", create=True)):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("rankwatch.db*")}
    assert modes == dict.fromkeys(("rankwatch.db", "rankwatch.db-shm", "rankwatch.db-wal"), 0o600)
    assert exposure(make_url(f"sqlite:///{tmp_path / named}")) is None


@pytest.mark.usefixtures("umask")
def test_a_database_that_is_there_keeps_its_mode_and_what_it_holds(tmp_path: Path) -> None:
    file, url = tmp_path / "rankwatch.db", f"sqlite:///{tmp_path / 'rankwatch.db'}"
    file.touch(0o644)
    open_store(url, create=True).close()
    before = file.read_bytes()
    make_private(file)
    assert (file.stat().st_mode & 0o777, file.read_bytes()) == (0o644, before)
    assert str(exposure(make_url(url))) == (
        f"{file} has mode 0644, so every account of this machine may read users and lists in it: chmod o= {file}*"
    )
