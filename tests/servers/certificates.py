"""An authority and the certificates that it signs, made by openssl."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from servers import require

LOOPBACK = "IP:127.0.0.1"


@dataclass(frozen=True)
class Pair:
    cert: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """Signs certificates. Each of them has a new key."""

    folder: Path
    own: Pair

    @property
    def cert(self):
        return self.own.cert

    def issue(self, name, alternative=LOOPBACK):
        signed_by = ("-CA", str(self.own.cert), "-CAkey", str(self.own.key))
        extensions = (f"subjectAltName={alternative}", "basicConstraints=critical,CA:FALSE")
        return _make(self.folder, name, *extensions, options=signed_by)

    def client_context(self, pair=None):
        """The settings of a client that trusts this authority, and shows the certificate of this pair."""
        context = ssl.create_default_context(cafile=str(self.cert))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context


def self_signed(folder):
    """A certificate of 127.0.0.1 with its key, in one file."""
    pair = _make(folder, "127.0.0.1", f"subjectAltName={LOOPBACK}")
    whole = folder / "server.pem"
    whole.write_text(pair.cert.read_text() + pair.key.read_text())
    return whole


def _make(folder, name, *extensions, options=()):
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    added = [part for each in extensions for part in ("-addext", each)]
    program, curve = require("openssl"), ("-pkeyopt", "ec_paramgen_curve:prime256v1")
    files = ("-keyout", str(pair.key), "-out", str(pair.cert))
    command = [program, "req", "-x509", "-newkey", "ec", *curve, "-nodes", "-subj", f"/CN={name}"]
    subprocess.run([*command, *files, *options, *added], check=True, capture_output=True)
    return pair


def found(folder, name):
    return Authority(folder, _make(folder, name, "keyUsage=critical,keyCertSign,cRLSign"))


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return found(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="session")
def server_pair(authority):
    """For 127.0.0.1."""
    return authority.issue("server")


@pytest.fixture(scope="session")
def client_pair(authority):
    return authority.issue(
        "client", "DNS:prometheus.test,URI:spiffe://x/y,email:p@x.test,IP:0:0:0:0:0:0:0:1"
    )


@pytest.fixture(scope="session")
def stranger_pair(tmp_path_factory):
    """A certificate of an authority that no server trusts."""
    return found(tmp_path_factory.mktemp("strangers"), "strangers").issue(
        "stranger", "DNS:prometheus.test"
    )
