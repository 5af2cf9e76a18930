"""Text from outside made safe to look at: what could steer a terminal, or turn the writing around, is spelled out."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """The text with such characters spelled out as in Python; line breaks stay."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
