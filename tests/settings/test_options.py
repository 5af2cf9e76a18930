"""The grammar that all options share, the key that hides users, and that no report, no repr and no dump shows a secret."""

import json
import os
from datetime import timedelta
from itertools import product

import pytest
import yaml
from hypothesis import given, strategies as st
from pydantic import Field, SecretStr, TypeAdapter, ValidationError

from monitor.boundary.options import Duration, Options, format_duration, parse_duration
from monitor.boundary.redaction import display_url
from monitor.model.errors import ConfigError
from monitor.settings.loader import example_text, parse_settings
from settings.minimal import MINIMAL, load_text
from tables import parsed, rows

DURATION = TypeAdapter(Duration)


class Door(Options):
    key: SecretStr | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    url: str = ""


def door(base, **given):
    return Door.model_validate(given, context={"base_dir": str(base)})


def refused(base, **given):
    with pytest.raises(ValidationError) as caught:
        door(base, **given)
    return [(error["loc"], error["msg"]) for error in caught.value.errors()]


def test_durations_are_numbers_with_units():
    for text, parts in parsed("""
        ["500ms", {"milliseconds": 500}]
        ["30s", {"seconds": 30}]
        ["15m", {"minutes": 15}]
        ["1h30m", {"minutes": 90}]
        ["1.5h", {"minutes": 90}]
        ["7d", {"days": 7}]
        ["2w", {"weeks": 2}]
    """):
        assert DURATION.validate_python(text) == timedelta(**parts)


def test_what_is_no_duration_comes_with_advice():
    for value in [15, "15", "15min", "1:30", "-15m", "\u0661m", True, None]:
        with pytest.raises(
            ValueError, match=r"^not a duration: write a number with its unit, such as 30s"
        ):
            parse_duration(value)


def test_durations_are_longer_than_nothing_and_shorter_than_a_century():
    for text in ["0s", "0h0m", "36501d", "9" * 400 + "d"]:
        with pytest.raises(ValidationError, match=r"longer than zero|at most 36500d"):
            DURATION.validate_python(text)


@given(
    st.timedeltas(timedelta(milliseconds=1), timedelta(days=36500)).map(
        lambda each: each - each % timedelta(milliseconds=1)
    )
)
def test_a_duration_is_written_as_it_is_read(value):
    assert DURATION.validate_python(format_duration(value)) == value


def test_a_secret_is_read_from_its_file_without_the_last_line_break(tmp_path):
    (tmp_path / "key").write_bytes(b" s3cret \r\n")
    key = door(tmp_path, key_file="key").key
    assert key is not None
    assert key.get_secret_value() == " s3cret "


def test_a_secrets_file_that_is_of_no_use_is_reported_at_its_key(tmp_path):
    for content, reason in [
        (None, "cannot read key: No such file"),
        (b"", "key is empty"),
        (b"\xff", "it is not UTF-8 text"),
        (b"x" * 65537, "it is larger than 65536 bytes"),
    ]:
        if content is not None:
            (tmp_path / "key").write_bytes(content)
        ((location, message),) = refused(tmp_path, key_file="key")
        assert location == ("key",)
        assert reason in message


def test_a_path_that_cannot_be_one_is_reported_and_not_raised_and_no_device_is_read(tmp_path):
    for path in ("a\0b", "~no-such-user-here/key", ["x"]):
        assert [location for location, _ in refused(tmp_path, key_file=path)] == [("key",)]
    os.mkfifo(tmp_path / "fifo")
    for path in ("/dev/zero", "fifo", "."):
        assert refused(tmp_path, key_file=path)[0][1].endswith(
            f"cannot read {path}: it is not a file"
        )


SHOWN = """
postgresql://me:hunter2@db.internal:5432/recs?password=hunter2 | postgresql://db.internal:5432/recs
postgresql+psycopg://me:hun/ter2@db/recs | postgresql+psycopg://...
postgresql://me:hun?ter2@db/recs | postgresql://...
sqlite:////var/lib/rankwatch.db | sqlite:////var/lib/rankwatch.db
sqlite:///rankwatch.db?key=hunter2 | sqlite:///rankwatch.db
https://hooks.internal/T0/hunter2 | https://hooks.internal
https://hooks.internal?token=hunter2 | https://hooks.internal
https://hooks.internal#hunter2 | https://hooks.internal
hunter2 | ...
hunter2 ://x | ...
"""


def test_a_url_is_shown_without_what_may_be_secret():
    for url, shown in rows(SHOWN):
        assert display_url(url) == display_url(SecretStr(url)) == shown


def load(folder):
    text = f"privacy: {{users: hmac, key_file: users.key}}\n{MINIMAL}"
    parse_settings(text, name="rankwatch.yaml", base_dir=folder, environ={})


def test_a_key_that_is_of_no_use_is_an_error(tmp_path):
    for key, said in [
        (None, "cannot read {key}: No such file or directory"),
        (
            b"hunter2" * 4 + b"\n\n",
            "{key} has only 28 bytes: write a key of at least 32 bytes, for example with openssl rand -hex 32",
        ),
        (b"hunter2" * 1000, "cannot read {key}: it is larger than 4096 bytes"),
    ]:
        file = tmp_path / "users.key"
        if key is not None:
            file.write_bytes(key)
        with pytest.raises(ConfigError) as caught:
            load(tmp_path)
        assert str(caught.value) == f"rankwatch.yaml:1: privacy.key_file: {said.format(key=file)}"


def test_a_key_may_be_any_32_bytes(tmp_path):
    (tmp_path / "users.key").write_bytes(bytes(range(128, 160)))
    load(tmp_path)


CANARY = "c4n4ry-s1ngs"
EXAMPLE = yaml.safe_load(example_text())
INVALID = """*C|!C|!C!x|&C &C|'C|@C|%C|`C|C: C: x|[C|{C|"\\zC"|>C|*C C|!<C|? C : - C"""


def leaves(node, path=()):
    """The path of each value in nested mappings and lists."""
    if not isinstance(node, dict | list):
        yield path
        return
    for key, child in enumerate(node) if isinstance(node, list) else node.items():
        yield from leaves(child, (*path, key))


def replaced(node, path, value):
    if not path:
        return value
    copy = node.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def problems(text, **environ):
    try:
        load_text(text, **environ)
    except ConfigError as error:
        return str(error)
    return ""


def test_a_secret_from_the_environment_in_the_wrong_place_is_not_shown():
    wrongs = ("${CANARY}", ["${CANARY}"], {"deep": ["${CANARY}"]})
    for path, wrong in product(leaves(EXAMPLE), wrongs):
        text = json.dumps(replaced(EXAMPLE, path, wrong))
        assert CANARY not in problems(text, CANARY=CANARY), path


def test_a_secret_that_is_no_valid_yaml_is_not_shown():
    for key in ["database", "listen", "secret"]:
        for text in INVALID.split("|"):
            found = problems(f"{key}: {text.replace('C', CANARY)}\ncomparisons: []\n")
            assert (found != "", CANARY in found) == (True, False), text
