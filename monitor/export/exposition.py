"""Writes a registry as a page: text or OpenMetrics as the reader asks, compressed if it likes."""

from __future__ import annotations

import gzip

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder


def render(registry: CollectorRegistry, accept: str, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """The page and its headers. An Accept header that makes no sense gets the plain text format."""
    try:
        encoder, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version such as "1.x"
        encoder, content_type = choose_encoder("")
    body = encoder(registry)
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if accepts_gzip(accept_encoding):
        return gzip.compress(body, compresslevel=5, mtime=0), {**headers, "Content-Encoding": "gzip"}
    return body, headers


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the header names gzip without refusing it by ``q=0``."""
    for part in accept_encoding.split(","):
        coding, *parameters = (word.strip().lower() for word in part.split(";"))
        if coding == "gzip":
            return not any(p.replace(" ", "").rstrip("0").rstrip(".") in {"q=", "q=0"} for p in parameters)
    return False
