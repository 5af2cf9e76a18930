"""Addresses of a server, ``host:port``.

This module imports no options, so that probes of a daemon start quickly.
"""

import ipaddress
import re

DEFAULT_LISTEN = "127.0.0.1:29108"
_HIGHEST_PORT = 65535
_PORT_DIGITS = 5


def split_address(address: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[v6]:port``. Raises ValueError for any other text.

    In ``:29108`` the host is empty. An empty host means all interfaces.
    """
    host, separator, port = address.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    if is_bracketed:
        host = host[1:-1]
    # Only IPv6 addresses contain a colon, and only they need brackets.
    has_right_brackets = is_bracketed == (":" in host)
    if not (separator and _is_port(port) and has_right_brackets and _is_host(host)):
        raise ValueError(f"must be host:port, such as {DEFAULT_LISTEN} or [::1]:29108")
    return host, int(port)


def _is_port(text: str) -> bool:
    # Very long digits are not converted, because this would take long.
    has_digits = text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS
    return has_digits and int(text) <= _HIGHEST_PORT


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
