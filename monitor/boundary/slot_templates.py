"""Placeholders in paths, URLs and bodies: ``{slot:%Y-%m-%d}``, ``{user}``, ``{k}``."""

import re
from collections.abc import Callable
from datetime import datetime

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_SLOT_FIELD = re.compile(r"slot(?::([^{}]+))?")


def check_placeholders(template: str, *names: str) -> str:
    """Return the template, if each ``{...}`` is ``{slot}``, ``{slot:FORMAT}`` or one of the names.

    Otherwise raises ValueError. Its text does not quote the placeholder, which may be part of a
    secret.
    """
    for placeholder in _PLACEHOLDER.findall(template):
        if placeholder not in names and not _SLOT_FIELD.fullmatch(placeholder):
            choices = [f"{{{name}}}" for name in names]
            choices.append("{slot:%Y-%m-%d}")
            raise ValueError(f"has an unknown placeholder: use {', '.join(choices)}")
    if re.search(r"[{}]", _PLACEHOLDER.sub("", template)):
        raise ValueError(
            "has a { or } without its counterpart: write placeholders like {slot:%Y-%m-%d}"
        )
    return template


def fill_slot(template: str, slot: datetime, quote: Callable[[str], str] = str) -> str:
    """Replace ``{slot}`` (ISO 8601) and ``{slot:FORMAT}`` (strftime) by the slot.

    Other placeholders stay.
    """

    def fill(match: re.Match[str]) -> str:
        of_slot = _SLOT_FIELD.fullmatch(match[1])
        if of_slot is None:
            return match[0]
        return quote(slot.strftime(of_slot[1] or "%Y-%m-%dT%H:%M:%SZ"))

    return _PLACEHOLDER.sub(fill, template)


def placeholders(template: str) -> frozenset[str]:
    """Return the names of the placeholders in the template, without formats."""
    return frozenset(entry.partition(":")[0] for entry in _PLACEHOLDER.findall(template))
