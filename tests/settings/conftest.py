from pathlib import Path

import pytest

from monitor.settings.configuration import Settings
from monitor.settings.loader import parse_settings
from settings.minimal import MINIMAL, Load


@pytest.fixture
def minimal() -> str:
    """The shortest configuration that loads; further keys of its comparison may follow it."""
    return MINIMAL


@pytest.fixture
def load_text(tmp_path: Path) -> Load:
    def load(text: str, **environ: str) -> Settings:
        return parse_settings(text, name="rankwatch.yaml", base_dir=tmp_path, environ=environ)

    return load
