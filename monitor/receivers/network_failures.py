"""What kept an answer from coming, in words for whoever mends it; nothing of the address."""

import socket
import ssl
from collections.abc import Iterator, Mapping

from monitor.deadline import OverdueError
from monitor.link_local import LinkLocalError

_CAUSES: Mapping[type[Exception], str] = {
    ssl.SSLCertVerificationError: "has no certificate that can be trusted: check its host, or give its authority as ca_file",
    ssl.SSLError: "did not speak TLS: check its port, and whether it takes TLS there",
    socket.gaierror: "has a host name that cannot be resolved: check it",
    ValueError: "has a host name that cannot be resolved: check it",  # also of names that cannot be asked for
    LinkLocalError: "has a link-local address, or that of a cloud's metadata, to which nothing is sent: check its host",
    ConnectionRefusedError: "refused the connection: check that it runs and listens there",
}
"""By what lies beneath an error, the first that is found."""


def failure_reason(error: Exception, timeout_s: float, *, protocol: str) -> str:
    """What happened, and what to do."""
    chain = list(_chain(error))
    if any(isinstance(link, (TimeoutError, OverdueError)) for link in chain):
        return f"did not answer within {timeout_s:g} s"
    found = (reason for kind, reason in _CAUSES.items() if any(isinstance(link, kind) for link in chain))
    return next(found, f"broke the connection or did not speak {protocol}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
