"""Addresses of a server, ``host:port``.

This module imports no options, so that probes of a daemon start quickly.
"""

import ipaddress
import re

DEFAULT_LISTEN = "127.0.0.1:29108"
_PORTS = 65535


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port``. Raises ValueError for any other text.

    In ``:29108`` the host is empty. An empty host means all interfaces.
    """
    host, separator, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and int(port[:6]) <= _PORTS
    if not separator or not is_port or (":" in bare and bare == host) or not _is_host(bare):
        raise ValueError(f"must be host:port, such as {DEFAULT_LISTEN} or [::1]:29108")
    return bare, int(port)


def _is_host(text: str) -> bool:
    try:
        text.encode("idna")  # raises UnicodeError if a part of the name is empty or too long
    except UnicodeError:
        return False
    return not re.search(r"[\x00-\x20\x7f/@\[\]]", text)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host.

    Returns False for every host name except localhost, because a name may resolve to any address.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
