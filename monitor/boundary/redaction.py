"""Redaction: removes secrets from text, and characters that control a terminal."""

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
    """The scheme, host and port of an unchecked URL, and the name or file of a database.

    The user, password, path and query are left out. If an unescaped character makes it unclear
    where the password ends and the host begins, neither is shown.
    """
    if not isinstance(url, str):
        url = url.get_secret_value()
    scheme, separator, rest = url.partition("://")
    if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "..."
    credentials, _, rest = rest.rpartition("@")
    if re.search(r"[/?#]", credentials):  # the path has an @, or the password is not escaped
        return f"{scheme}://..."
    location = re.split(r"[?#]", rest, maxsplit=1)[0]
    if not scheme.startswith(_DATABASES):
        location = location.partition("/")[0]
    return f"{scheme}://{location}"


def origin(url: str) -> str:
    """The scheme, host and port of a checked web URL. The URL's path may contain an @."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port:
        host += f":{parts.port}"
    return f"{parts.scheme}://{host}"


def require_whole_password(url: URL) -> None:
    """Raise ValueError if an unescaped @ makes a part of the password a part of the host.

    Messages name the host, so they would show that part.
    """
    if "@" in (url.host or ""):
        raise ValueError(
            "has an @ in its user or password: write special characters there as %XX, @ as %40"
        )


def escape_controls(text: str) -> str:
    """The text with control characters written as Python's escapes. Line breaks stay."""
    return _CONTROLS.sub(_escape, text)


def _escape(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode()
