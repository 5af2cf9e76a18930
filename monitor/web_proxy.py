"""HTTP proxies that receivers and sources are reached through: their address, its credentials, and what may be asked there."""

from __future__ import annotations

import base64
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr

from monitor.link_local import refuse_link_local
from monitor.options import NOT_IN_HASH, must, web_url_of
from monitor.redaction import origin


def _is_proxy(text: str) -> bool:
    parts = web_url_of(text)
    return (
        parts is not None
        and parts.scheme == "http"
        and not (parts.path.strip("/") or parts.query or parts.fragment)
    )


Proxy = Annotated[
    SecretStr | None,
    must(
        lambda text: text is None or _is_proxy(text),
        "must be an HTTP proxy: write http://host:port or http://user:password@host:port",
    ),
    NOT_IN_HASH,
    Field(
        description="HTTP proxy to go through, such as http://user:password@proxy:3128: https by "
        "CONNECT, http by whole URLs. A secret. The environment's HTTP_PROXY, "
        "HTTPS_PROXY and NO_PROXY are not used: write `proxy: ${HTTPS_PROXY}` for "
        "that."
    ),
]


class WebProxy:
    """A proxy's address and the header with its credentials; ``name`` is safe to show."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.name = f"the proxy {origin(url)}"
        self.headers = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self.headers["Proxy-Authorization"] = (
                f"Basic {base64.b64encode(login.encode()).decode()}"
            )


def open_proxy(secret: SecretStr | None) -> WebProxy | None:
    """The proxy of this option, if there is one."""
    return None if secret is None else WebProxy(secret.get_secret_value())


def refuse_link_local_behind(url: str) -> None:
    """LinkLocalError where the URL itself has such an address.

    Names are resolved by the proxy, which has to refuse them.
    """
    host = urlsplit(url).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return
    refuse_link_local(host)
