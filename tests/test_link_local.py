"""Addresses that are never connected to, in every spelling that leads there."""

import socket

import pytest

from monitor.boundary.link_local import LinkLocalError, refuse_link_local
from monitor.sources.http.connection_pool import open_socket

REFUSED = """
    169.254.169.254                        169.254.0.1
    0xa9fea9fe                             2852039166
    0251.0376.0251.0376                    169.254.43518
    169.16689662                           0xA9.0xFE.0xA9.0xFE
    100.100.100.200                        168.63.129.16
    fe80::1                                FE80:0000::0001
    febf:ffff::1                           fd00:ec2::254
    fd00:0ec2:0:0:0:0:0:0254               fd20:ce::254
    ::ffff:169.254.169.254                 ::ffff:a9fe:a9fe
    0:0:0:0:0:FFFF:A9FE:A9FE               ::169.254.169.254
    ::a9fe:a9fe                            ::ffff:0:169.254.169.254
    64:ff9b::169.254.169.254               64:FF9B::a9fe:a9fe
    64:ff9b:1::169.254.169.254             64:ff9b:1:a9fe:a9:fe00::
    2002:a9fe:a9fe::                       2002:a9fe:a9fe:1::7
    2001:0:a9fe:a9fe::                     2001:0:4136:e378::5601:5601
    2001:db8::5efe:169.254.169.254         2001:db8::200:5efe:a9fe:a9fe
    64:ff9b::100.100.100.200               2002:a83f:8110::
"""
ALLOWED = """
    127.0.0.1         10.0.0.1          192.168.1.1       0x7f000001        ::1
    8.8.8.8           fd12:3456::1      2606:4700::1111   2002:0808:0808::  64:ff9b::8.8.8.8
    2001:db8::a9fe:a9fe                 fec0::1           169.253.255.255
"""


def connect_to(spelling):
    """Open the socket that a connection to this host would use, as a resolver reads the host."""
    for info in socket.getaddrinfo(
        spelling, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
    ):
        open_socket(info).close()


def test_an_address_of_credentials_is_refused_in_every_spelling():
    for spelling in REFUSED.split():
        with pytest.raises(LinkLocalError):
            connect_to(spelling)


def test_other_addresses_may_be_asked():
    for spelling in ALLOWED.split():
        connect_to(spelling)


def test_an_address_with_a_scope_is_refused_too():
    with pytest.raises(LinkLocalError):
        refuse_link_local("fe80::1%eth0")
