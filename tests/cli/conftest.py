# ruff: noqa: F401 - fixtures
import shutil
from pathlib import Path

import pytest

from commands import rankwatch
from servers.certificates import authority, client_pair, server_pair
from servers.recommender import recommender
from servers.smtp import certificate, mail_server
from servers.webhook import collector
from service.lists_world import APART, write_lists, write_world
from web.conftest import health


@pytest.fixture(autouse=True)
def _current_folder(tmp_path, monkeypatch):
    """Each test runs its commands in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def world(tmp_path, sqlite_template):
    """A configuration over lists of two files, and an empty database, in the current folder."""
    shutil.copy(sqlite_template, tmp_path)
    write_world(tmp_path, "sqlite:///rankwatch.db")
    return tmp_path


@pytest.fixture(scope="session")
def printed_runs(tmp_path_factory, sqlite_template):
    """A folder with a firing comparison; what its two runs printed is in `runs.jsonl`."""
    folder = tmp_path_factory.mktemp("fired")
    shutil.copy(sqlite_template, folder)
    write_world(folder, "sqlite:///rankwatch.db")
    write_lists(folder / "candidate.jsonl", APART)
    with pytest.MonkeyPatch.context() as patch, (folder / "runs.jsonl").open("w") as file:
        patch.chdir(folder)
        for day in ("2024-01-08", "2024-01-09"):
            file.write(rankwatch(f"run-once --slot {day} --json").stdout)
    return folder


@pytest.fixture
def fired(printed_runs, tmp_path):
    """A comparison whose alert fires since 2024-01-09, in the current folder."""
    return shutil.copytree(printed_runs, tmp_path, dirs_exist_ok=True)
