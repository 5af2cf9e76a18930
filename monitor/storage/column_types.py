"""Types of columns for instants, names, texts, documents and numbers.

Databases cannot store U+0000 and lone surrogates, so these characters are written as escapes that
start with U+2400. A name longer than `MAX_KEY_BYTES` would not fit into an index. Its first
`KEY_PREFIX` characters, an ellipsis and its SHA-256 are stored instead.
"""

# ruff: noqa: D102, ANN401, ARG002 - methods and signatures are those of TypeDecorator

import hashlib
import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from pydantic import TypeAdapter
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

from monitor.model.instants import format_instant
from monitor.model.rankings import Arm, CoverageReason

MAX_KEY_BYTES = 512
KEY_PREFIX = 60

_INSTANT_LENGTH = len("2024-01-08T00:00:00.000000Z")
_UNSTORABLE = re.compile("[\x00\u2400\ud800-\udfff]")
_ESCAPED = re.compile("\u2400(\u2400|0|d[89a-f][0-9a-f]{2})")


def _escape_one(match: re.Match[str]) -> str:
    """Write U+0000 as ``␀0``, U+2400 as ``␀␀``, and a surrogate as ``␀`` and its number."""
    char = match[0]
    return "\u2400" + {"\x00": "0", "\u2400": "\u2400"}.get(char, f"{ord(char):04x}")


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    return {"0": "\x00", "\u2400": "\u2400"}.get(code) or chr(int(code, 16))


def escape(text: str) -> str:
    """Escape the characters that a database cannot store. Different texts stay different."""
    if text.isascii() and "\x00" not in text:
        return text
    return _UNSTORABLE.sub(_escape_one, text)


def unescape(text: str) -> str:
    """Return the text that was passed to `escape`."""
    return _ESCAPED.sub(_unescape_one, text) if "\u2400" in text else text


def stored_name(name: str) -> str:
    """Return the form in which a name is stored and looked up.

    The name is escaped, and shortened if it does not fit into an index. If a shortened name is read
    from the database and looked up again, it is not shortened a second time.
    """
    if len(name) <= MAX_KEY_BYTES and name.isascii() and "\x00" not in name:
        return name  # nearly all names
    stored = escape(name)
    # A character has at most four bytes, so short names need not be encoded.
    if len(stored) * 4 <= MAX_KEY_BYTES or len(stored.encode()) <= MAX_KEY_BYTES:
        return stored
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()
    return escape(f"{name[:KEY_PREFIX]}\u2026{digest}")


def stored_names(names: list[str]) -> list[str]:
    """Return the `stored_name` of each name. This is fast if all names are short ASCII texts."""
    joined = "".join(names)
    is_plain = joined.isascii() and "\x00" not in joined
    longest = max(map(len, names), default=0)
    if is_plain and longest <= MAX_KEY_BYTES:
        return names  # such names are stored as they are
    return [stored_name(name) for name in names]


def read_document(text: str | bytes) -> object:
    """Return the value of a stored JSON document, with all texts unescaped."""
    if isinstance(text, bytes):
        text = text.decode()
    document = json.loads(text)
    # The JSON of SQLite is ASCII, which has an escape sequence in place of U+2400.
    if "\u2400" in text or "\\u2400" in text:
        return _convert_texts(document, unescape)
    return document


def _convert_texts(value: object, convert: Any) -> object:  # noqa: PLR0911 - one for each type
    """Return the value in JSON's types. ``convert`` is applied to each text and each key."""
    if type(value) is int:  # Most values in documents are integers, so this check comes first.
        return value
    if isinstance(value, str):
        return convert(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no NaN and no infinity
    if isinstance(value, Mapping):
        return {convert(name): _convert_texts(part, convert) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_convert_texts(part, convert) for part in value]
    if isinstance(value, datetime):
        return format_instant(value)
    return value


class Instant(TypeDecorator[datetime]):
    """An aware instant. It is written and read as UTC.

    PostgreSQL stores it as timestamptz. SQLite stores ISO 8601 texts of equal length, so that
    sorting the texts sorts the instants.
    """

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = String(_INSTANT_LENGTH) if dialect.name == "sqlite" else DateTime(timezone=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Raise ValueError for a datetime without a time zone, because it names no instant."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value.isoformat()} has no time zone: pass an aware datetime")
        utc = value.astimezone(UTC)
        if dialect.name == "sqlite":
            return utc.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        return utc

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
    """A name that is part of a key; every database compares and sorts it by code point."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # PostgreSQL indexes this order fastest, and SQLite and Python sort in the same order.
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else stored_name(value)


class Document(TypeDecorator[Any]):
    """Lists and mappings of texts and finite numbers.

    PostgreSQL stores them as jsonb, and SQLite stores them as JSON text.
    """

    impl = JSON(none_as_null=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind = JSONB(none_as_null=True) if dialect.name == "postgresql" else JSON(none_as_null=True)
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Escape text at any depth, and store null for numbers that are not finite."""
        return _convert_texts(value, escape)


class Values(Document):
    """Values of one type, such as a dataclass, which are stored as JSON.

    Fields with their default value are not stored. NULL is read as ``absent``.
    """

    cache_ok = True

    def __init__(self, kind: Any, absent: object = None) -> None:
        super().__init__()
        self.kind = kind
        self.absent = absent

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value == self.absent:
            return None
        document = _adapter(self.kind).dump_python(value, exclude_defaults=True)
        return super().process_bind_param(document, dialect)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return self.absent
        try:
            return _adapter(self.kind).validate_python(value)
        except ValueError:
            # Another version of rankwatch wrote the document, with other fields.
            return self.absent


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Numbers(Document):
    """Numbers by name. Numbers that are not finite are left out."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        # Numbers may be numpy's, which JSON cannot store.
        finite = {name: float(number) for name, number in value.items() if math.isfinite(number)}
        return super().process_bind_param(finite, dialect)


class UsersByReason(Document):
    """Numbers of users by arm and reason. The document maps each arm to its numbers by reason."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        by_arm: dict[str, dict[str, int]] = {}
        for (arm, reason), users in value.items():
            by_arm.setdefault(arm, {})[reason] = int(users)
        return by_arm

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        users = {}
        for arm, by_reason in value.items():
            for reason, count in by_reason.items():
                users[Arm(arm), CoverageReason(reason)] = count
        return users


class Number(TypeDecorator[float]):
    """A float of Python or numpy; NaN is stored as NULL."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        return None if value is None or math.isnan(value) else float(value)


class IntegerColumn(TypeDecorator[int]):
    """An integer of Python or numpy."""

    impl = Integer
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        # SQLite would store a numpy integer as bytes.
        return None if value is None else int(value)


Id = BigInteger().with_variant(Integer(), "sqlite")
"""The type of numbers that identify rows. They have 64 bits on both databases.

SQLite numbers new rows only if the type of the column is INTEGER.
"""
