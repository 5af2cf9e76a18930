import pytest


@pytest.fixture(autouse=True)
def _current_folder(tmp_path, monkeypatch):
    """Each test runs its commands in an empty folder."""
    monkeypatch.chdir(tmp_path)
