"""The decorator of values: `dataclasses.dataclass` with the options that every value has."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_T = TypeVar("_T")
_Kind = TypeVar("_Kind", bound="DataclassInstance")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def immutable(kind: type[_T]) -> type[_T]:
    """Make the class a frozen dataclass with slots. Its fields must be passed by keyword."""
    return dataclass(frozen=True, slots=True, kw_only=True)(kind)


def extend(kind: type[_Kind], value: DataclassInstance, **others: object) -> _Kind:
    """Return the value as an instance of ``kind``, a subclass of its class, with further fields."""
    values = {field.name: getattr(value, field.name) for field in fields(value)}
    return kind(**values | others)
