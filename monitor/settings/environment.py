"""``${NAME}`` and ``${NAME:-default}`` in a text. ``$${`` stands for ``${`` itself; a ``$`` before anything else is a ``$``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{")


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text after expansion, and the values that variables put into it."""

    text: str
    used: tuple[str, ...] = ()


def expand(text: str, environ: Mapping[str, str]) -> Expanded:
    """Put variables in; what they hold is not expanded again. ValueError names a variable that is not set.

    The default stands in for a variable that is not set or is empty.
    """
    if "${" not in text:
        return Expanded(text)
    used: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$${":
            return "${"
        used.append(_value(match, environ))
        return used[-1]

    return Expanded(_REFERENCE.sub(replace, text), tuple(used))


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name, default = match["name"], match["default"]
    if name is None:
        msg = "a ${ without a name and a }: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
        raise ValueError(msg)
    value = environ.get(name)
    if default is not None:
        return value or str(default)
    if value is None:
        msg = f"environment variable {name} is not set: set it, or give a default: ${{{name}:-default}}"
        raise ValueError(msg)
    return value
