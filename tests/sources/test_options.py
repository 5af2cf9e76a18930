"""The options of sources: exactly one kind, strict keys, every field described."""

from typing import Any

import pytest
from pydantic import ValidationError

from monitor.sources import (
    SampleOptions,
    SourceOptions,
    UsersOptions,
    open_source,
)
from monitor.sources.file import FileSourceOptions
from monitor.sources.file.source import FileSource
from monitor.sources.http.source import HttpSource
from monitor.sources.sql.source import SqlSource

HTTP = {"url": "http://host/{user}"}
FILE = {"path": "x.parquet", "user": "u", "items": "i"}
SQL = {"url": "sqlite:///x.db", "table": "t", "user": "u", "items": "i"}


@pytest.mark.parametrize(
    ("options", "kind"), [({"http": HTTP}, HttpSource), ({"file": FILE}, FileSource), ({"sql": SQL}, SqlSource)]
)
def test_each_kind_opens_without_touching_the_world(options: dict[str, Any], kind: type) -> None:
    assert isinstance(open_source(SourceOptions.model_validate(options)), kind)


@pytest.mark.parametrize("options", [{}, {"http": HTTP, "file": FILE}])
def test_a_source_is_exactly_one_kind(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of http, file, sql"):
        SourceOptions.model_validate(options)


@pytest.mark.parametrize("options", [{}, {"all": True, "file": {"path": "x.csv", "user": "u"}}, {"sample": 5}])
def test_users_come_from_exactly_one_place(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="exactly one of file, sql, all"):
        UsersOptions.model_validate(options)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"all": False}, "True"),
        ({"all": True, "sample": 0}, "greater than or equal to 1"),
        ({"all": True, "sample": {}}, "fixed or rotating"),
        ({"all": True, "segments": ["a", "a"]}, "twice"),
        ({"all": True, "segments": ["a=b"]}, "no ="),
    ],
)
def test_bad_users_are_told(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected):
        UsersOptions.model_validate(options)


def test_a_sample_is_a_number_or_its_two_parts() -> None:
    assert UsersOptions.model_validate({"all": True, "sample": 2000}).sample == 2000
    parts = UsersOptions.model_validate({"all": True, "sample": {"fixed": 5, "rotating": 7}}).sample
    assert parts == SampleOptions(fixed=5, rotating=7)


@pytest.mark.parametrize("path", ["{user}.parquet", "{slot.parquet", "{slots:%Y}.csv"])
def test_a_path_has_the_slot_as_its_only_placeholder(path: str) -> None:
    with pytest.raises(ValidationError, match="placeholder"):
        FileSourceOptions.model_validate(FILE | {"path": path})


def test_a_relative_path_starts_at_the_configuration_file() -> None:
    options = FileSourceOptions.model_validate(FILE | {"path": "lists/{slot:%Y}.csv"}, context={"base_dir": "/etc/rankwatch"})

    assert options.path == "/etc/rankwatch/lists/{slot:%Y}.csv"
