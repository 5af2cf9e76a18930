"""Names of cipher suites and curves: as Go's crypto/tls has them, and as OpenSSL does."""

from __future__ import annotations

SUITES = {
    f"TLS_ECDHE_{kind}_WITH_{name}": f"ECDHE-{kind}-{openssl}"
    for kind in ("ECDSA", "RSA")
    for name, openssl in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
"""Suites of TLS 1.2."""

TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}


def require_known_suite(name: str) -> str:
    """The name; ValueError when it is none of Go's secure suites."""
    if name not in SUITES and name not in TLS13_SUITES:
        msg = f"is not a cipher suite that is offered: {', '.join((*SUITES, *TLS13_SUITES))}"
        raise ValueError(msg)
    return name


def require_known_curve(name: str) -> str:
    """The name; ValueError when it is none of Go's curves."""
    if name not in CURVES:
        msg = f"must be {', '.join(CURVES)}"
        raise ValueError(msg)
    return name
