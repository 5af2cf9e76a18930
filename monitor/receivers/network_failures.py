"""Explains why a server did not answer, and what to do. The texts do not contain the address."""

import re
import socket
from collections.abc import Mapping

from monitor.boundary.deadline import OverdueError
from monitor.boundary.foreign_errors import chain_of, find_tls_fault
from monitor.boundary.link_local import LinkLocalError
from monitor.model.tls_faults import TlsClient
from monitor.texts.tls_faults import write_tls_fault

_CAUSES: Mapping[type[Exception], str] = {
    socket.gaierror: "has a host name that cannot be resolved: check it",
    # The standard library raises ValueError for some invalid host names.
    ValueError: "has a host name that cannot be resolved: check it",
    LinkLocalError: (
        "has a link-local address or the address of a cloud's metadata, and rankwatch sends "
        "nothing there: check its host"
    ),
    ConnectionRefusedError: "refused the connection: check that the receiver runs on this port",
}
"""The text for each type of error. If an error has several causes, the first matching type is used.
"""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""The text of the error that the standard library raises if a proxy refuses to connect."""


def failure_reason(error: Exception, timeout_s: float, *, protocol: str) -> str:
    """Write what happened and what to do."""
    chain = list(chain_of(error))
    if any(isinstance(link, (TimeoutError, OverdueError)) for link in chain):
        return f"did not answer within {timeout_s:g} s"
    fault = find_tls_fault(error)
    if fault is not None:
        return ": ".join(write_tls_fault(fault, TlsClient.RECEIVER))
    for kind, reason in _CAUSES.items():
        if any(isinstance(link, kind) for link in chain):
            return reason
    return f"closed the connection or did not answer in {protocol}"


def proxy_reason(error: Exception, proxy: str, reason: str) -> str:
    """Write why the connection through the proxy failed.

    ``reason`` is the text that `failure_reason` made from this error.
    """
    chain = list(chain_of(error))
    if find_tls_fault(error) is not None or any(isinstance(link, LinkLocalError) for link in chain):
        return reason
    for link in chain:
        refusal = _TUNNEL.match(str(link))
        if refusal is not None:
            advice = "check that the proxy may connect to this receiver"
            if refusal[1] == "407":
                advice = "check the credentials in proxy"
            return f"was not reached: {proxy} answered {refusal[1]} to CONNECT: {advice}"
    return f"was not reached: {proxy} {reason}"
