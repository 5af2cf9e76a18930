"""A server whose TLS has one fault, for clients of any protocol."""

import ipaddress
import socketserver
import ssl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from servers import listening

_PEM = serialization.Encoding.PEM
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class _Certificate:
    """Years of its validity, its address, and whether clients know who signed it."""

    years: tuple[int, int] = (2000, 3000)
    address: str = _LOOPBACK
    is_known: bool = True


_CERTIFICATES = {
    "expired": _Certificate(years=(2000, 2001)),
    "not yet valid": _Certificate(years=(2999, 3000)),
    "another name": _Certificate(address="127.0.0.2"),
    "unknown authority": _Certificate(is_known=False),
}


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


class _Authority:
    def __init__(self, folder, name):
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.cert = folder / f"{name}.pem"
        self.cert.write_bytes(self._signed(self._name, self._key, (2000, 3000), constraints))

    def issue(self, made):
        """The file of a certificate with its key."""
        key, path = ec.generate_private_key(ec.SECP256R1()), self._folder / "server.pem"
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(made.address))])
        private = key.private_bytes(
            _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(self._signed(_name("server"), key, made.years, address) + private)
        return path

    def _signed(self, subject, key, years, extension):
        first, last = (datetime(year, 1, 1, tzinfo=UTC) for year in years)
        number = x509.random_serial_number()
        builder = x509.CertificateBuilder(
            self._name, subject, key.public_key(), number, first, last
        )
        return (
            builder.add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(_PEM)
        )


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@contextmanager
def faulty_tls(folder, fault, *, says_yes=False):
    """The port of a server with this fault, and the file of the authority that clients trust."""
    made = _CERTIFICATES[fault]
    known, other = _Authority(folder, "known"), _Authority(folder, "other")
    server = _Server((_LOOPBACK, 0), _Handler)
    server.context, server.says_yes = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), says_yes
    server.context.load_cert_chain((known if made.is_known else other).issue(made))
    with listening(server):
        yield server.server_address[1], known.cert
