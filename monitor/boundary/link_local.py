"""Refuses addresses of metadata services, because these give credentials to any program."""

import errno
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_METADATA = {
    "fd00:ec2::254",
    "fd20:ce::254",
    "100.100.100.200",
    "168.63.129.16",
}  # of AWS, Google, Alibaba, Azure
_OWN_NAT64 = IPv6Network("64:ff9b:1::/48")
_EMBEDDING = {
    IPv6Network("::/96"): 0,  # IPv4-compatible
    IPv6Network("::ffff:0:0/96"): 0,  # IPv4-mapped
    IPv6Network("::ffff:0:0:0/96"): 0,  # IPv4-translated
    IPv6Network("64:ff9b::/96"): 0,  # NAT64
    _OWN_NAT64: 0,
    IPv6Network("2002::/16"): 80,  # 6to4
    IPv6Network("2001::/32"): 64,  # Teredo, with the address of its server
}
"""Networks whose addresses contain an IPv4 address, and the number of bits that follow it."""
_ISATAP = 0x5EFE


class LinkLocalError(OSError):
    """The address is link-local or of a metadata service. rankwatch does not connect to it."""


def refuse_link_local(address: str) -> None:
    """Raise LinkLocalError for such an address, or for an IPv6 address that contains one."""
    for ip in _meanings(address):
        if ip.is_link_local or str(ip) in _METADATA:
            raise LinkLocalError(
                errno.EACCES, f"its address, {ip}, is link-local or a cloud's metadata service"
            )


@lru_cache(maxsize=1024)  # each new connection of an HTTP source asks
def _meanings(address: str) -> tuple[IPv4Address | IPv6Address, ...]:
    """The address itself, and the IPv4 addresses that it may contain."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv4Address):
        return (ip,)
    number = int(ip)
    shifts = [shift for network, shift in _EMBEDDING.items() if ip in network]
    if number >> 32 & 0xFFFF == _ISATAP:
        shifts.append(0)
    contained = [IPv4Address(number >> shift & 0xFFFFFFFF) for shift in shifts]
    if ip.teredo is not None:
        contained.append(ip.teredo[1])
    if ip in _OWN_NAT64:  # RFC 6052: eight zero bits separate the halves
        contained.append(IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF))
    return ip, *contained
