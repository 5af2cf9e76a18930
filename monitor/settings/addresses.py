"""Addresses that a server listens at, ``host:port``.

Loads no options: probes that only ask a daemon start quickly.
"""

import ipaddress
import re

DEFAULT_LISTEN = "127.0.0.1:29108"
_PORTS = 65535


def split_address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port`` or ``[v6]:port``.

    ValueError when it is neither. ``:29108`` has the host ``""``, all.
    """
    host, separator, port = text.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    is_port = port.isascii() and port.isdigit() and int(port[:6]) <= _PORTS
    if not separator or not is_port or (":" in bare and bare == host) or not _is_host(bare):
        raise ValueError(f"must be host:port, such as {DEFAULT_LISTEN} or [::1]:29108")
    return bare, int(port)


def _is_host(text: str) -> bool:
    try:
        text.encode(
            "idna"
        )  # as whoever looks it up does: no part of the name may be empty or too long
    except UnicodeError:
        return False
    return not re.search(r"[\x00-\x20\x7f/@\[\]]", text)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it.

    A host's name other than localhost may lead anywhere.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
