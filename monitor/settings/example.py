"""The commented configuration that `rankwatch init` writes."""

from __future__ import annotations

from pathlib import Path

_PACKAGED = Path(__file__).with_name("rankwatch.yaml")
_IN_CHECKOUT = Path(__file__).parents[2] / "config" / "rankwatch.yaml"


def example_text() -> str:
    """Its text: package data when installed, ``config/rankwatch.yaml`` in a checkout."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")
