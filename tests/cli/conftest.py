# ruff: noqa: F401 - fixtures
import shutil
from pathlib import Path

import pytest

from servers.certificates import authority, client_pair, server_pair
from servers.recommender import recommender
from servers.smtp import certificate, mail_server
from servers.webhook import collector
from service.lists_world import write_world
from web.conftest import health


@pytest.fixture
def world(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration over lists of two files, and an empty database, in the current folder."""
    shutil.copy(sqlite_template, tmp_path)
    write_world(tmp_path, "sqlite:///rankwatch.db", every="1d")
    monkeypatch.chdir(tmp_path)
    return tmp_path
