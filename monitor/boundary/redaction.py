"""Redaction: removes secrets from text, and characters that control a terminal."""

import re
from urllib.parse import urlsplit

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


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
