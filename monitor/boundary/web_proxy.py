"""HTTP proxies for receivers and sources: their addresses, credentials and refused addresses."""

import base64
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr

from monitor.boundary.link_local import refuse_link_local
from monitor.boundary.options import NOT_IN_HASH, must, readable_by, web_url_of
from monitor.boundary.redaction import origin, require_encoded_login


def _is_proxy(url: str) -> bool:
    parts = web_url_of(url)
    if parts is None or parts.scheme != "http":
        return False
    return not (parts.path.strip("/") or parts.query or parts.fragment)


_ProxyUrl = Annotated[
    SecretStr,
    readable_by(require_encoded_login),
    must(
        _is_proxy,
        "must be an HTTP proxy: write http://host:port or http://user:password@host:port",
    ),
]
Proxy = Annotated[
    _ProxyUrl | None,
    NOT_IN_HASH,
    Field(
        description="The URL of an HTTP proxy, such as http://user:password@proxy:3128. The URL is "
        "a secret. rankwatch does not use the variables HTTP_PROXY, HTTPS_PROXY and NO_PROXY, but "
        "you can write `proxy: ${HTTPS_PROXY}`."
    ),
]


class WebProxy:
    """A proxy's address, and the header with its credentials. ``name`` contains no secret."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host = parts.hostname or ""
        self.port = parts.port or 80
        self.name = f"the proxy {origin(url)}"
        self.headers = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            encoded = base64.b64encode(login.encode()).decode()
            self.headers["Proxy-Authorization"] = f"Basic {encoded}"


def open_proxy(secret: SecretStr | None) -> WebProxy | None:
    """Return the proxy that this option names. None if it names no proxy."""
    return None if secret is None else WebProxy(secret.get_secret_value())


def refuse_link_local_behind(url: str) -> None:
    """Raise LinkLocalError if the host of the URL is a link-local address.

    Host names are not checked, because the proxy resolves them.
    """
    host = urlsplit(url).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return
    refuse_link_local(host)
