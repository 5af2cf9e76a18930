"""What kept an answer from coming, in words for whoever mends it; nothing of the address."""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping

from monitor.deadline import OverdueError
from monitor.link_local import LinkLocalError

_CAUSES: Mapping[type[Exception], str] = {
    ssl.SSLCertVerificationError: (
        "has no certificate that can be trusted: check its host, or give its authority as ca_file"
    ),
    ssl.SSLError: "did not speak TLS: check its port, and whether it takes TLS there",
    socket.gaierror: "has a host name that cannot be resolved: check it",
    # Also of names that cannot be asked for
    ValueError: "has a host name that cannot be resolved: check it",
    LinkLocalError: (
        "has a link-local address, or that of a cloud's metadata, to which nothing "
        "is sent: check its host"
    ),
    ConnectionRefusedError: "refused the connection: check that it runs and listens there",
}
"""By what lies beneath an error, the first that is found."""
_TUNNEL = re.compile(r"Tunnel connection failed: (\d{3})")
"""How the standard library begins the error of a proxy that refuses to connect."""


def failure_reason(error: Exception, timeout_s: float, *, protocol: str) -> str:
    """What happened, and what to do."""
    chain = list(_chain(error))
    if any(isinstance(link, (TimeoutError, OverdueError)) for link in chain):
        return f"did not answer within {timeout_s:g} s"
    found = (
        reason for kind, reason in _CAUSES.items() if any(isinstance(link, kind) for link in chain)
    )
    return next(found, f"broke the connection or did not speak {protocol}")


def proxy_reason(error: Exception, proxy: str, reason: str) -> str:
    """What kept the proxy from making the connection; ``reason`` is what it is without a proxy."""
    chain = list(_chain(error))
    if any(isinstance(link, (ssl.SSLError, LinkLocalError)) for link in chain):
        return reason
    refused = (found for link in chain if (found := _TUNNEL.match(str(link))))
    status = next((found[1] for found in refused), None)
    if status is None:
        return f"was not reached: {proxy} {reason}"
    advice = (
        "check the credentials in proxy" if status == "407" else "check that the proxy may go there"
    )
    return f"was not reached: {proxy} answered {status} to CONNECT: {advice}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
