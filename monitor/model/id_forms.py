"""Canonical forms of ids: one arm's users or items spelled so that they meet the other's, in all kinds of source alike."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any, TypeAlias

Forms: TypeAlias = Sequence[str | Mapping[Any, str]] | None
_WHOLE = re.compile(r"([+-]?\d+)(\.0+)?", re.ASCII)


def speller(forms: Forms) -> Callable[[str], str]:
    """What spells an id in these forms one after the other, leaving what does not fit; ValueError for an odd expression."""
    steps = list(map(_step, forms or ()))
    return lambda text: reduce(lambda found, step: step(found), steps, text) or text


def _step(form: str | Mapping[Any, str]) -> Callable[[str], str]:
    if isinstance(form, str):
        return _WORDS[form]
    ((name, text),) = form.items()
    if name == "prefix":
        return lambda known: known.removeprefix(text)
    with suppress(re.error):
        if (pattern := re.compile(text)).groups:
            return lambda known: (found[1] or known) if (found := pattern.fullmatch(known)) else known
    raise ValueError(f"regex {text!r} cannot be read, or has no group: put what is the id in parentheses")


def _whole(text: str) -> str:
    found = _WHOLE.fullmatch(text)
    return str(int(found[1])) if found else text


_WORDS: Mapping[str, Callable[[str], str]] = {"string": str, "int": _whole, "lower": str.lower, "strip": str.strip}
