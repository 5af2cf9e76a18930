"""Redaction: removes secrets from text, and characters that control a terminal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pydantic import SecretStr

_DATABASES = ("sqlite", "postgres", "mysql", "mariadb", "mssql", "oracle", "duckdb")


_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def display_url(url: str | SecretStr) -> str:
    """Return the scheme, host and port of an unchecked URL, and the name or file of a database.

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
    """Return the scheme, host and port of a checked web URL. The URL's path may contain an @."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port:
        host += f":{parts.port}"
    return f"{parts.scheme}://{host}"


def require_encoded_login(url: str) -> None:
    """Raise ValueError if it is unclear where the user and password of the URL end.

    Messages name the host. If a part of the password were taken for the host, they would show it.
    The error quotes nothing of the URL. A URL without a host, such as ``sqlite:///a@b``, is valid.
    """
    after_scheme = url.partition("//")[2]
    login, _, _ = after_scheme.rpartition("@")
    has_host = not after_scheme.startswith("/")
    if has_host and re.search(r"[@/?#]", login):
        raise ValueError(
            "has a special character in its user or password, or an @ after its host: "
            "percent-encode the password: @ is %40, / is %2F, ? is %3F, # is %23, : is %3A, % is %25"
        )


def escape_controls(text: str) -> str:
    """Return the text with control characters written as Python's escapes. Line breaks stay."""
    return _CONTROLS.sub(_escape, text)


def _escape(control: re.Match[str]) -> str:
    return control[0].encode("unicode_escape").decode()
