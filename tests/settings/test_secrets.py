"""A canary in every place where secrets go: no report, no repr and no dump may sing."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.errors import ConfigError
from monitor.settings.loader import example_text, parse_settings
from monitor.settings.translation import config_hash

CANARY = "c4n4ry-s1ngs"
URL = f"https://user:{CANARY}@host.internal/{CANARY}?{CANARY}=x"
COMPLETE = f"""
database: postgresql://rankwatch:{CANARY}@db.internal/rankwatch
comparisons:
  - name: feed
    every: 15m
    baseline:
      http:
        url: "http://user:{CANARY}@a.internal/{CANARY}/{{user}}?key={CANARY}"
        token: {CANARY}
        headers: {{X-Key: {CANARY}, X-Other_file: secret}}
    candidate:
      sql: {{url: "postgresql://me:{CANARY}@db.internal/recs", table: lists, user: u, items: i}}
    users:
      sql: {{url: "postgresql://me:{CANARY}@db.internal/recs", table: users, user: u}}
receivers:
  - alertmanager:
      urls: ["http://127.0.0.1:9093"]
      basic_auth: {{username: me, password: {CANARY}}}
  - alertmanager: {{name: second, urls: ["http://127.0.0.1:9094"], bearer_token_file: secret}}
  - webhook: {{url: "https://hooks.internal/{CANARY}?{CANARY}", secret: {CANARY}, headers: {{X-Key: {CANARY}}}}}
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(CANARY)
    return tmp_path


def leaves(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else None
    if children is None:
        yield path
        return
    for key, child in children:
        yield from leaves(child, (*path, key))


def replaced(node: Any, path: tuple[str | int, ...], value: object) -> Any:
    if not path:
        return value
    copy: Any = node.copy()
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


def renamed(node: Any, path: tuple[str | int, ...]) -> Any:
    """The tree with the key at the path misspelt."""
    if len(path) == 1:
        return {(f"{key}x" if key == path[0] else key): value for key, value in node.items()}
    copy: Any = node.copy()
    copy[path[0]] = renamed(copy[path[0]], path[1:])
    return copy


TREE = yaml.safe_load(COMPLETE)
EXAMPLE = yaml.safe_load(example_text())
SECRET_LEAVES = [path for path in leaves(TREE) if isinstance(path[-1], str)]
INVALID = """*C|!C|!C!x|&C &C|'C|@C|%C|`C|C: C: x|[C|{C|"\\zC"|>C|*C C|!<C|? C : - C"""


def problems(tree: object, base: Path, **environ: str) -> str:
    try:
        parse_settings(json.dumps(tree), name="rankwatch.yaml", base_dir=base, environ=environ)
    except ConfigError as error:
        return str(error)
    return ""


def test_rotating_a_password_or_token_keeps_the_hash(base: Path) -> None:
    rotated = re.sub(rf"(://\w+:|token: |X-Key: ){CANARY}", r"\1another-s3cret", COMPLETE)
    assert rotated.count("another-s3cret") == 7
    before, after = (parse_settings(text, name="x", base_dir=base, environ={}).comparisons[0] for text in (COMPLETE, rotated))
    assert config_hash(before) == config_hash(after)


@pytest.mark.parametrize("path", SECRET_LEAVES, ids=lambda path: ".".join(map(str, path)))
def test_a_mistyped_key_does_not_show_its_value(base: Path, path: tuple[str | int, ...]) -> None:
    report = problems(renamed(TREE, path), base)
    if path[-2:] != ("headers", path[-1]):
        assert f"{path[-1]}x" in report
    assert CANARY not in report


@pytest.mark.parametrize("path", list(leaves(EXAMPLE)), ids=lambda path: ".".join(map(str, path)))
def test_a_secret_from_the_environment_in_the_wrong_place_is_not_shown(base: Path, path: tuple[str | int, ...]) -> None:
    assert CANARY not in problems(replaced(EXAMPLE, path, "${CANARY}"), base, CANARY=CANARY)


@pytest.mark.parametrize("path", list(leaves(TREE)), ids=lambda path: ".".join(map(str, path)))
@pytest.mark.parametrize("wrong", [[CANARY], {CANARY: CANARY}, {"deep": [CANARY]}])
def test_a_secret_of_the_wrong_shape_is_not_shown(base: Path, path: tuple[str | int, ...], wrong: object) -> None:
    report = problems(replaced(TREE, path, wrong), base)
    named = report.replace(f".{CANARY}: ", ": ") if isinstance(wrong, dict) else report
    assert CANARY not in named


@pytest.mark.parametrize("text", INVALID.split("|"))
@pytest.mark.parametrize("key", ["database", "listen", "secret"])
def test_a_secret_that_is_no_valid_yaml_is_not_shown(base: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_settings(
            f"{key}: {text.replace('C', CANARY)}\ncomparisons: []\n", name="rankwatch.yaml", base_dir=base, environ={}
        )
    assert CANARY not in str(caught.value)
