"""Writes why a TLS connection failed, and what to do."""

from monitor.model.tls_faults import TlsClient, TlsFault

_PREDICATES = {
    TlsFault.EXPIRED: "has a certificate that has expired",
    TlsFault.NOT_YET_VALID: "has a certificate that is not valid yet",
    TlsFault.OTHER_NAME: "has a certificate for another host name",
    TlsFault.UNKNOWN_ISSUER: "has a certificate of an unknown authority",
    TlsFault.NONSTANDARD: "has a certificate that does not follow the standard RFC 5280",
    TlsFault.UNVERIFIED: "has a certificate that cannot be trusted",
    TlsFault.CLIENT_WANTED: "wants a client certificate",
    TlsFault.CLIENT_REFUSED: "refused the client certificate",
    TlsFault.VERSION: "offers no version of TLS that is allowed here",
    TlsFault.HANDSHAKE: "ended the TLS handshake",
    TlsFault.NO_TLS: "did not speak TLS",
}
_AUTHORITY = {
    TlsClient.HTTP_SOURCE: " as ca_file",
    TlsClient.RECEIVER: " as ca_file",
    TlsClient.REDIS: " as ssl_ca_certs in url",
    TlsClient.POSTGRESQL: " as sslrootcert in the URL",
    TlsClient.MYSQL: " as ssl_ca in url",
    TlsClient.STORE: " in the environment, such as AWS_CA_BUNDLE",
}
_CLIENT_CERTIFICATE = {
    TlsClient.HTTP_SOURCE: "set cert_file and key_file",
    TlsClient.RECEIVER: "receivers cannot send one, so let the server accept another login",
    TlsClient.REDIS: "set ssl_certfile and ssl_keyfile in url",
    TlsClient.POSTGRESQL: "set sslcert and sslkey in the URL",
    TlsClient.MYSQL: "set ssl_cert and ssl_key in url",
}


def write_tls_fault(fault: TlsFault, client: TlsClient) -> tuple[str, str]:
    """Say what is wrong, and what to do.

    What is wrong is said without a subject, such as ``has a certificate of an unknown authority``.
    The caller names the server.
    """
    name_authority = f"name the file of its authority{_AUTHORITY.get(client, '')}"
    show_certificate = _CLIENT_CERTIFICATE.get(client, "let the server accept another login")
    advice = {
        TlsFault.EXPIRED: "the server's owner must renew the certificate",
        TlsFault.NOT_YET_VALID: "set this machine's clock, or wait until the certificate is valid",
        TlsFault.OTHER_NAME: (
            "check the host name, or ask the server's owner to add it to the certificate"
        ),
        TlsFault.UNKNOWN_ISSUER: f"if the server is yours, {name_authority}",
        TlsFault.NONSTANDARD: (
            "the server's owner must issue the certificate, and perhaps that of its authority, "
            "again with the usual extensions, such as authorityKeyIdentifier and keyUsage, which "
            "Python requires from 3.13 on"
        ),
        TlsFault.UNVERIFIED: (
            "check the certificate's dates with openssl s_client; if only its authority is "
            f"unknown, {name_authority}"
        ),
        TlsFault.CLIENT_WANTED: show_certificate,
        TlsFault.CLIENT_REFUSED: "check who issued the certificate and when it expires",
        TlsFault.VERSION: "let the server accept TLS 1.2 or later",
        TlsFault.HANDSHAKE: (
            f"check the port; if the server wants a client certificate, {show_certificate}"
        ),
        TlsFault.NO_TLS: "check the port, and check that the server accepts TLS there",
    }
    return _PREDICATES[fault], advice[fault]


def write_unreadable_tls_file(option: str, file: str) -> tuple[str, str]:
    """Say which option of a URL names a file that cannot be read, and what to do."""
    return (
        f"the file of {option} in the URL cannot be read ({file})",
        "correct the path, or let this account read the file and enter its directory",
    )
