"""A server whose TLS has one fault, for clients of any protocol."""

import ipaddress
import socketserver
import ssl
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from servers import listening
from tables import cells

_PEM = serialization.Encoding.PEM
_LOOPBACK = "127.0.0.1"


_CERTIFICATES = """
# fault            years        address    name
expired            2000 - 2001  127.0.0.1  known
not yet valid      2999 - 3000  127.0.0.1  known
another name       2000 - 3000  127.0.0.2  known
unknown authority  2000 - 3000  127.0.0.1  other
"""
"""Each certificate is signed by itself, and clients trust the one that is known."""


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    context: ssl.SSLContext
    says_yes: bool


class _Handler(socketserver.BaseRequestHandler):
    server: "_Server"

    def handle(self):
        server = self.server
        with suppress(OSError):
            if server.says_yes:  # so PostgreSQL agrees on TLS
                self.request.recv(8)
                self.request.sendall(b"S")
            with server.context.wrap_socket(self.request, server_side=True) as connection:
                connection.recv(100)


def _issue(folder, years, address, name):
    """The file of a certificate, which is signed by itself, with its key."""
    key, path = ec.generate_private_key(ec.SECP256R1()), folder / f"{name}.pem"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    first, last = (datetime(int(year), 1, 1, tzinfo=UTC) for year in years.split(" - "))
    number, names = x509.random_serial_number(), [x509.IPAddress(ipaddress.ip_address(address))]
    signed = (
        x509.CertificateBuilder(subject, subject, key.public_key(), number, first, last)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(signed.public_bytes(_PEM) + private)
    return path


@contextmanager
def faulty_tls(folder, fault, *, says_yes=False):
    """The port of a server with this fault, and the file of the authority that clients trust."""
    (certificate,) = [row[1:] for row in cells(_CERTIFICATES) if row[0] == fault]
    _issue(folder, "2000 - 3000", _LOOPBACK, "known")
    own = _issue(folder, *certificate)
    server = _Server((_LOOPBACK, 0), _Handler)
    server.context, server.says_yes = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), says_yes
    server.context.load_cert_chain(own)
    with listening(server):
        yield server.server_address[1], folder / "known.pem"
