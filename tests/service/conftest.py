# ruff: noqa: F401 - fixtures
import shutil
from pathlib import Path

import pytest

from servers.certificates import authority, client_pair, server_pair
from servers.pgbouncer import pooled
from servers.recommender import recommender
from servers.smtp import certificate, mail_server
from servers.webhook import collector


@pytest.fixture
def url(sqlite_template, tmp_path):
    """An empty database in the test's folder: tables are copied, not made."""
    file = shutil.copy(sqlite_template, tmp_path / "rankwatch.db")
    return f"sqlite:///{file}"
