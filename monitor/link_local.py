"""Addresses at which clouds give the machine's own credentials to whoever asks (metadata): link-local ones, and a few more."""

import errno
from ipaddress import ip_address

_METADATA = {"fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16"}  # of AWS, Google, Alibaba, Azure


class LinkLocalError(OSError):
    """An address that only this machine and its neighbours see, and that is not connected to."""


def refuse_link_local(address: str) -> None:
    """LinkLocalError where the address is one of these, however it is written."""
    ip = ip_address(address)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_link_local or str(ip) in _METADATA:
        raise LinkLocalError(errno.EACCES, f"its address, {ip}, is link-local or a cloud's metadata service")
