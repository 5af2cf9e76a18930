"""The key that hides users is usable, or the configuration is not."""

from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.settings.loader import parse_settings
from settings.minimal import MINIMAL


def load(folder: Path) -> None:
    text = f"privacy: {{users: hmac, key_file: users.key}}\n{MINIMAL}"
    parse_settings(text, name="rankwatch.yaml", base_dir=folder, environ={})


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "cannot read {key}: No such file or directory"),
        (b"", "{key} holds 0 bytes: a key has 32 at least, such as openssl rand -hex 32 writes"),
        (b"hunter2" * 4 + b"\n\n", "{key} holds 28 bytes: a key has 32 at least, such as openssl rand -hex 32 writes"),
        (b"hunter2" * 1000, "cannot read {key}: it holds more than 4096 bytes"),
    ],
)
def test_a_key_that_is_of_no_use_is_an_error(tmp_path: Path, key: bytes | None, said: str) -> None:
    file = tmp_path / "users.key"
    if key is not None:
        file.write_bytes(key)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    assert str(caught.value) == f"rankwatch.yaml:1: privacy.key_file: {said.format(key=file)}"


def test_a_key_may_be_any_32_bytes(tmp_path: Path) -> None:
    (tmp_path / "users.key").write_bytes(bytes(range(128, 160)))
    load(tmp_path)
