"""Canonical forms of ids: ids of both arms are spelled alike, in all kinds of source."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

Forms: TypeAlias = Sequence[str | Mapping[Any, str]] | None
Ids: TypeAlias = Sequence[str | None]

_LONGEST_NUMBER = 1000
_WHOLE = re.compile(r"([+-]?\d+)(\.0+)?", re.ASCII)


def speller(forms: Forms) -> Callable[[Ids], Ids]:
    """The function that spells ids in these forms, one after the other.

    An id that a form does not fit stays as it is, and so does None.
    ValueError for an expression that RE2 cannot read or that has no group.
    """
    steps = [_step(form) for form in forms or ()]

    def spell(ids: Ids) -> Ids:
        spelled = ids
        for step in steps:
            spelled = step(spelled)
        return [new or old for new, old in zip(spelled, ids, strict=True)]

    return spell


def _step(form: str | Mapping[Any, str]) -> Callable[[Ids], Ids]:
    if isinstance(form, str):
        return partial(_each, _WORDS[form])
    ((name, text),) = form.items()
    if name == "prefix":
        return partial(_each, lambda text_of_id: text_of_id.removeprefix(text))
    return _regex_step(text)


def _each(change: Callable[[str], str], ids: Ids) -> Ids:
    return [text if text is None else change(text) for text in ids]


def _regex_step(pattern: str) -> Callable[[Ids], Ids]:
    """The first group of what matches. RE2 takes linear time for any expression and any id."""
    import pyarrow as pa  # noqa: PLC0415 - takes a while, and only regular expressions need it
    import pyarrow.compute as pc  # noqa: PLC0415

    def take_group(ids: Ids, expression: str = rf"\A(?:{pattern})\z") -> Ids:
        texts = pa.array(ids, pa.large_string())
        found = pc.replace_substring_regex(texts, pattern=expression, replacement=r"\1")
        groups: Ids = pc.if_else(pc.equal(found, ""), texts, found).to_pylist()
        return groups

    try:
        take_group([""], pattern)  # by itself: within what it is wrapped in, `a)(b` would be one
        take_group([""])
    except pa.ArrowInvalid:
        problem = f"regex {pattern!r} cannot be read, or has no group"
        raise ValueError(f"{problem}: put what is the id in parentheses (RE2)") from None
    return take_group


def _whole(text: str) -> str:
    found = _WHOLE.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    return str(int(found[1])) if found else text


_WORDS: Mapping[str, Callable[[str], str]] = {
    "string": str,
    "int": _whole,
    "lower": str.lower,
    "strip": str.strip,
}
