"""Redaction: text made safe to show, without secrets, and without characters that steer a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import SecretStr
    from sqlalchemy import URL

_DATABASES = ("sqlite", "postgres", "mysql", "mariadb", "mssql", "oracle", "duckdb")


_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def display_url(url: str | SecretStr) -> str:
    """An unchecked URL: scheme, host and port, for a database its name or file too.

    No user, password, path or query.

    Where an unescaped character leaves it open what is host and what password, neither is shown.
    """
    text = url if isinstance(url, str) else url.get_secret_value()
    scheme, separator, rest = text.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "..."
    credentials, _, rest = rest.rpartition("@")
    if re.search(
        r"[/?#]", credentials
    ):  # an @ in the path, or a password that was not escaped: unknown
        return f"{scheme}://..."
    place, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
    return (
        f"{scheme}://{place}{slash}{path}"
        if scheme.startswith(_DATABASES)
        else f"{scheme}://{place}"
    )


def origin(url: str) -> str:
    """A web URL that is known to hold no credentials: scheme, host and port, also where an @ stands in its path."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


def require_whole_password(url: URL) -> None:
    """ValueError where a password's unescaped @ has made the rest of it a part of the host, which messages name."""
    if "@" in (url.host or ""):
        raise ValueError(
            "has an @ in its user or password: write special characters there as %XX, @ as %40"
        )


def escape_controls(text: str) -> str:
    """The text with such characters spelled out as in Python; line breaks stay."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
