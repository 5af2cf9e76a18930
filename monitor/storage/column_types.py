"""Column types: instants, names that stand in keys, free text, documents.

What a value looks like in the database, and back.

What a database does not allow in text (U+0000, lone surrogates) is written as an escape that starts
with U+2400. A name longer than `KEY_BYTES` would not fit into an index: its first `KEY_PREFIX`
characters, an ellipsis and its SHA-256 are stored."""

# ruff: noqa: D102, ANN401, ARG002 - methods and signatures are those of TypeDecorator

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Double,
    Integer,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

from monitor.model.instants import format_instant, read_instant
from monitor.model.model_versions import ArmModel, Models
from monitor.model.rankings import Arm

KEY_BYTES = 512
KEY_PREFIX = 60

_UNSTORABLE = re.compile("[\x00\u2400\ud800-\udfff]")
_ESCAPED = re.compile("\u2400(\u2400|0|d[89a-f][0-9a-f]{2})")


def _escape_one(match: re.Match[str]) -> str:
    char = match[0]
    return "\u2400" + {"\x00": "0", "\u2400": "\u2400"}.get(char, f"{ord(char):04x}")


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    return {"0": "\x00", "\u2400": "\u2400"}.get(code) or chr(int(code, 16))


def escape(text: str) -> str:
    """Text that every database stores; different texts stay different."""
    return text if text.isascii() and "\x00" not in text else _UNSTORABLE.sub(_escape_one, text)


def unescape(text: str) -> str:
    """The text that `escape` was given."""
    return _ESCAPED.sub(_unescape_one, text) if "\u2400" in text else text


def key(name: str) -> str:
    """The form in which a name is stored and looked up: escaped, and short enough for an index.

    Its own key once read back.
    """
    stored = escape(name)
    if len(stored) * 4 <= KEY_BYTES or len(stored.encode()) <= KEY_BYTES:
        return stored
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return escape(f"{name[:KEY_PREFIX]}\u2026{digest}")


def keys(names: list[str]) -> list[str]:
    """`key` of each; costs next to nothing where all are plain ASCII."""
    joined = "".join(names)
    if (
        joined.isascii()
        and "\x00" not in joined
        and len(max(names, key=len, default="")) <= KEY_BYTES
    ):
        return names
    return [key(name) for name in names]


def _walk(value: object, change: Any) -> object:
    if type(value) is int:  # most of what is in documents are counts
        return value
    if isinstance(value, str):
        return change(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no word for it
    if isinstance(value, Mapping):
        return {change(name): _walk(part, change) for name, part in value.items()}
    return [_walk(part, change) for part in value] if isinstance(value, (list, tuple)) else value


class Instant(TypeDecorator[datetime]):
    """An aware instant, UTC in and out: timestamptz, on SQLite ISO 8601 text of one width, so that order is time."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(
            String(27) if dialect.name == "sqlite" else DateTime(timezone=True)
        )

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """ValueError for a datetime without time zone, which names no instant."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone; instants are aware")
        utc = value.astimezone(UTC)
        return (
            utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
            if dialect.name == "sqlite"
            else utc
        )

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        instant: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        return instant.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Free text of any length and content."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else escape(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else unescape(value)


class Name(Words):
    """A name that stands in keys; compared and sorted by code point on every database."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # The order of SQLite and of Python, and the fastest to index.
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else key(value)


class Document(TypeDecorator[Any]):
    """Lists and mappings of text and finite numbers: jsonb, on SQLite JSON text."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = JSONB(none_as_null=True) if dialect.name == "postgresql" else JSON(none_as_null=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Escaped at any depth, null for what is no finite number."""
        return _walk(value, escape)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return _walk(value, unescape)


class ArmModels(Document):
    """The model of each arm, as a document."""

    cache_ok = True

    def process_bind_param(self, value: Models | None, dialect: Dialect) -> Any:
        known = {
            arm: asdict(each) | {"since": each.since and format_instant(each.since)}
            for arm, each in (value or {}).items()
        }
        return super().process_bind_param(known or None, dialect)

    def process_result_value(self, value: Any, dialect: Dialect) -> Models | None:
        found = {
            Arm(arm): each
            for arm, each in (super().process_result_value(value, dialect) or {}).items()
        }
        return {
            arm: ArmModel(**each | {"since": each["since"] and read_instant(each["since"])})
            for arm, each in found.items()
        } or None


class Number(TypeDecorator[float]):
    """A float, also one of numpy; NULL for NaN, which is no value."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else float(value)


class Count(TypeDecorator[int]):
    """An integer, also one of numpy."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        # SQLite would store an integer of numpy as bytes.
        return None if value is None else int(value)


Id = BigInteger().with_variant(Integer(), "sqlite")
"""Surrogate keys: 64 bits on both (only INTEGER counts by itself on SQLite)."""
