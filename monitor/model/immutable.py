"""The decorator of values: `dataclasses.dataclass` with the options that every value has."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

_T = TypeVar("_T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def immutable(kind: type[_T]) -> type[_T]:
    """Make the class a frozen dataclass with slots. Its fields are given by keyword."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)
