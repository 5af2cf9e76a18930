"""Placeholders in paths, URLs and bodies: ``{slot:%Y-%m-%d}``, ``{user}``, ``{k}``."""

import re
from collections.abc import Callable
from datetime import datetime

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_SLOT = re.compile(r"slot(?::([^{}]+))?")


def check_placeholders(template: str, *names: str) -> str:
    """Return the template when every ``{...}`` in it is ``{slot}``, ``{slot:FORMAT}`` or one of the names; else ValueError."""
    for found in _PLACEHOLDER.findall(template):
        if found not in names and not _SLOT.fullmatch(found):
            # Its text is not repeated: in an address it may be part of a key.
            known = ", ".join([*(f"{{{name}}}" for name in names), "{slot:%Y-%m-%d}"])
            raise ValueError(f"has an unknown placeholder: use {known}")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", template)):
        raise ValueError("has a lone { or }: placeholders are written as {slot:%Y-%m-%d}")
    return template


def fill_slot(template: str, slot: datetime, quote: Callable[[str], str] = str) -> str:
    """Replace ``{slot}`` (ISO 8601) and ``{slot:FORMAT}`` (strftime) by the slot.

    Other placeholders stay.
    """

    def text(match: re.Match[str]) -> str:
        found = _SLOT.fullmatch(match[1])
        if found is None:
            return match[0]
        return quote(slot.strftime(found[1] or "%Y-%m-%dT%H:%M:%SZ"))

    return _PLACEHOLDER.sub(text, template)


def placeholders(template: str) -> frozenset[str]:
    """Return the names of the placeholders in the template, formats left off."""
    return frozenset(found.partition(":")[0] for found in _PLACEHOLDER.findall(template))
