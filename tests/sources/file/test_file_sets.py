"""Patterns, folders and parts: what belongs together is read together, and what does not fit is said."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason
from servers.lists import as_lists
from sources.file.test_lists import wide as pull


def part(path: Path, users: list[Any], items: list[Any]) -> None:
    pq.write_table(pa.table({"user": users, "items": items}), path)


@pytest.mark.parametrize("pattern", ["", "**/*.parquet", "[ab].parquet"])
def test_parts_are_read_together_and_a_user_in_two_of_them_is_a_duplicate(pattern: str, tmp_path: Path) -> None:
    part(tmp_path / "a.parquet", ["u1", "twice"], [[1, 2], [3]])
    part(tmp_path / "b.parquet", ["u2", "null", "twice"], [list(range(10_000)), None, [3]])
    (tmp_path / "_SUCCESS").touch()

    found = pull(tmp_path / pattern, "u1", "u2", "twice", "null", k=10_000)

    assert {user: len(items) for user, items in as_lists(found).items()} == {"u1": 2, "u2": 10_000}
    assert found.failures == {"twice": CoverageReason.DUPLICATE_USER, "null": CoverageReason.MISSING}


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: part(path, [7], [[1]]), r"b\.parquet holds int64, and that of .* holds string: write all"),
        (lambda path: pq.write_table(pa.table({"user": ["b"]}), path), r"b\.parquet has no column 'items'"),
        (lambda path: path.write_bytes(path.with_stem("a").read_bytes()[:-9]), r"b\.parquet cannot be"),
        (lambda path: path.with_suffix(".csv").touch(), r"files of several formats \(csv, parquet\)"),
    ],
)
def test_a_part_that_does_not_fit_is_named(damage: Callable[[Path], object], reason: str, tmp_path: Path) -> None:
    part(tmp_path / "a.parquet", ["a"], [[1]])
    damage(tmp_path / "b.parquet")

    with pytest.raises(SourceError, match=reason) as caught:
        pull(tmp_path, "a")
    assert "\n" not in str(caught.value)


def test_csv_parts_have_one_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('user,items\na,"[1]"\n')
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b'items,user\n"[1]",b\n'))

    with pytest.raises(SourceError, match=r"the header or the line ends of .*b\.csv\.gz differ from those of .*a\.csv"):
        pull(tmp_path, "a")


def test_a_pattern_without_a_file_may_have_one_later(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"\*\.csv holds no file: check the path") as caught:
        pull(tmp_path / "*.csv", "a")
    assert not caught.value.permanent


TWICE = pa.table([["a"], [[1]], [[2]]], names=["user", "items", "items"])


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("a.parquet", lambda path: pq.write_table(TWICE, path)),
        ("a.csv", lambda path: path.write_text("user,items,items\na,[1],[2]\n")),
        ("a.jsonl", lambda path: path.write_text('{"user": "a", "items": [1], "items": [2]}\n')),
    ],
)
def test_a_column_that_stands_twice_is_an_error(name: str, write: Callable[[Path], object], tmp_path: Path) -> None:
    write(tmp_path / name)

    with pytest.raises(SourceError, match=r"more than one column 'items'|more than one key 'items'"):
        pull(tmp_path / name, "a")
