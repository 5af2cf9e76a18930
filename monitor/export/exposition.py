"""Pages in Prometheus' formats, joined from pieces that are encoded once and kept until what they show changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Lines = Mapping[str, tuple[tuple[bytes, bytes], ...]]
"""By family: what stands above its samples (``# HELP`` and so on), and their lines. Some formats split a family in several."""

_HEAD = re.compile(rb"(?:^# .*\n)+", re.MULTILINE)
_END = b"# EOF\n"
_MOST_FORMATS = 2
"""In how many formats a piece is kept: Prometheus asks for one, and a person who looks for another."""


@dataclass(frozen=True, slots=True)
class Format:
    """One of the formats that Prometheus' client library writes. Two of equal ``key`` write the same."""

    encoder: Callable[[Collector], bytes]
    content_type: str

    @classmethod
    def accepted_by(cls, accept: str) -> Format:
        """The best of those that an Accept header names; plain text where it names none, or makes no sense."""
        try:
            return cls(*choose_encoder(accept))
        except (TypeError, ValueError):  # a version such as "1.x"
            return cls(*choose_encoder(""))

    @property
    def key(self) -> tuple[bool, str]:
        """Whether it is OpenMetrics, and how it escapes names; versions differ in what rankwatch does not show."""
        given = self.encoder.keywords if isinstance(self.encoder, partial) else {}
        return self.is_open_metrics, given.get("escaping", "")

    @property
    def is_open_metrics(self) -> bool:
        """Whether pages end with a mark."""
        return self.content_type.startswith("application/openmetrics-text")

    def encode(self, families: Iterable[Metric]) -> Lines:
        """The families' lines."""
        return {family.name: tuple(_split(self.encoder(FamilyCollector((family,))))) for family in families}

    def page(self, pieces: Iterable[Lines], hidden: Container[str] = ()) -> bytes:
        """One page of all pieces, the lines of each family together, without the ``hidden`` families."""
        joined: dict[bytes, list[bytes]] = {}
        for piece in pieces:
            for name, blocks in piece.items():
                if name not in hidden:
                    for head, samples in blocks:
                        joined.setdefault(head, [head]).append(samples)
        return b"".join(part for parts in joined.values() for part in parts) + (_END if self.is_open_metrics else b"")


class FamilyCollector(Collector):
    """Families as a collector, which is what encoders take."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families."""
        return self._families


def _split(text: bytes) -> Iterable[tuple[bytes, bytes]]:
    text = text.removesuffix(_END)
    heads = list(_HEAD.finditer(text))
    ends = [*(found.start() for found in heads[1:]), len(text)]
    return ((found[0], text[found.end() : end]) for found, end in zip(heads, ends, strict=True))


@dataclass(slots=True)
class Piece:
    """Families that belong together, encoded when they are first asked for. Safe to share between threads."""

    families: Callable[[], Iterable[Metric]]
    _kept: dict[tuple[bool, str], Lines] = field(default_factory=dict)

    def changed(self) -> None:
        """Encode them anew next time; to be called after the change."""
        # A new dict: who encodes at this moment keeps what is out of date in the old one.
        self._kept = {}

    def lines(self, form: Format) -> Lines:
        """The families' lines in this format."""
        kept = self._kept
        found = kept.get(form.key)
        if found is None:
            found = form.encode(self.families())
            if len(kept) >= _MOST_FORMATS:
                kept.clear()
            kept[form.key] = found
        return found
