"""Changes ids to canonical forms, so that all sources spell the ids of both arms alike."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

Forms: TypeAlias = Sequence[str | Mapping[Any, str]] | None
IdTexts: TypeAlias = Sequence[str | None]

_LONGEST_NUMBER = 1000
_INTEGER = re.compile(r"([+-]?\d+)(\.0+)?", re.ASCII)


def make_speller(forms: Forms) -> Callable[[IdTexts], IdTexts]:
    """Return a function that applies these forms to ids, in order.

    If a form does not fit an id, the id does not change. None stays None. Raises ValueError if RE2
    cannot read an expression, or if the expression has no group.
    """
    steps = [_make_step(form) for form in forms or ()]

    def spell(ids: IdTexts) -> IdTexts:
        spelled = ids
        for step in steps:
            spelled = step(spelled)
        return [new or old for new, old in zip(spelled, ids, strict=True)]

    return spell


def _make_step(form: str | Mapping[Any, str]) -> Callable[[IdTexts], IdTexts]:
    if isinstance(form, str):
        return partial(_change_ids, _WORDS[form])
    ((name, argument),) = form.items()
    if name == "prefix":
        return partial(_change_ids, lambda id_: id_.removeprefix(argument))
    return _regex_step(argument)


def _change_ids(change: Callable[[str], str], ids: IdTexts) -> IdTexts:
    return [None if id_ is None else change(id_) for id_ in ids]


def _regex_step(pattern: str) -> Callable[[IdTexts], IdTexts]:
    """Return a step that replaces an id by the first group of the match.

    RE2 matches in linear time.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and only regular expressions need it
    import pyarrow.compute as pc  # noqa: PLC0415

    def take_group(ids: IdTexts, expression: str = rf"\A(?:{pattern})\z") -> IdTexts:
        column = pa.array(ids, pa.large_string())
        groups = pc.replace_substring_regex(column, pattern=expression, replacement=r"\1")
        spelled: IdTexts = pc.if_else(pc.equal(groups, ""), column, groups).to_pylist()
        return spelled

    try:
        # Checks the pattern alone, because `a)(b` would be valid within the wrapping
        take_group([""], pattern)
        take_group([""])
    except pa.ArrowInvalid:
        problem = f"regex {pattern!r} cannot be read, or has no group"
        raise ValueError(f"{problem}: put the id in parentheses (RE2)") from None
    return take_group


def _integer(id_: str) -> str:
    if len(id_) > _LONGEST_NUMBER:
        return id_
    match = _INTEGER.fullmatch(id_)
    return str(int(match[1])) if match else id_


_WORDS: Mapping[str, Callable[[str], str]] = {
    "string": str,
    "int": _integer,
    "lower": str.lower,
    "strip": str.strip,
}
