"""The options of sources: exactly one kind, strict keys, every field described."""

from typing import Any

import pytest
from pydantic import ValidationError

from monitor.sources import (
    SOURCES,
    SampleOptions,
    SourceOptions,
    UsersOptions,
)

HTTP = {"url": "http://host/{user}"}
FILE = {"path": "x.parquet", "user": "u", "items": "i"}


@pytest.mark.parametrize("options", [{}, {"http": HTTP, "file": FILE}])
def test_a_source_is_exactly_one_kind(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=f"exactly one of {', '.join(SOURCES)}"):
        SourceOptions.model_validate(options)


@pytest.mark.parametrize("options", [{}, {"all": True, "file": {"path": "x.csv", "user": "u"}}, {"sample": 5}])
def test_users_come_from_exactly_one_place(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"exactly one of .*, all"):
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
