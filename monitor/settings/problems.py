"""Problems of a configuration as texts that say what to do, and the valid keys of a model."""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import chain
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from monitor.immutable import immutable
from monitor.options import OneOf, is_secret

KeyPath = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
_TEXTS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "list": "a list (one '- ...' on each line, or [...])",
    "tuple": "a list (one '- ...' on each line, or [...])",
    "dict": "a mapping (key: value)",
    "mapping": "a mapping (key: value)",
    "model": "a mapping (key: value)",
    "finite": "a finite number",
}
_LIMITS = {
    "greater_than_equal": "be at least {ge}",
    "greater_than": "be more than {gt}",
    "less_than_equal": "be at most {le}",
    "less_than": "be less than {lt}",
    "too_short": "not be empty",
    "string_too_short": "have at least {min_length} characters",
    "too_long": "have at most {max_length} items",
    "string_too_long": "have at most {max_length} characters",
    "string_pattern_mismatch": "match {pattern}",
}
_LITERAL = re.compile(r"'([^']*)'")

MAX_PROBLEMS = 100  # reported for one file; further problems are only counted
MISSING = "is missing, and must be given"
TWICE = "is in this list already"
NAME_TAKEN = "another {} has this name already: choose another name"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem and its key path. ``line`` is set if the path does not lead to the line."""

    path: KeyPath
    message: str
    line: int | None = None


class MisfitKind(Enum):
    """Why a value, or a missing value, has no form that the model accepts."""

    MISSING = auto()
    UNKNOWN_KEY = auto()
    WRONG_VALUE = auto()


@immutable
class Misfit:
    """Why a value does not have one of the accepted forms.

    ``wanted`` completes the words "must be". One message joins the ``wanted`` of several forms.
    ``nearest`` is the valid key that is most similar to an unknown key.
    """

    kind: MisfitKind
    message: str
    wanted: str | None = None
    nearest: str | None = None


def dotted_path(path: KeyPath) -> str:
    """A key path as text: ``comparisons[0].rules[1].alert``.

    A key that is no plain word is not shown, because it may be a secret.
    """
    dotted = ""
    for step in path:
        if isinstance(step, int):
            dotted += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step):
            dotted += f".{step}"
        else:
            dotted += f".({len(step)} characters)"
    return dotted.removeprefix(".")


def nearest_word(word: object, words: Iterable[str]) -> str | None:
    """The word of ``words`` that is most similar. None if no word is similar."""
    close = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=0.6)
    return close[0] if close else None


def suggestion(word: object, words: Iterable[str]) -> str:
    """The text ``; did you mean "x"?`` if one of ``words`` is similar, else empty text."""
    nearest = nearest_word(word, words)
    return f'; did you mean "{nearest}"?' if nearest else ""


def unknown_key(key: object, valid_keys: Sequence[str]) -> Misfit:
    """The misfit of a key that the model does not have."""
    nearest = nearest_word(key, valid_keys)
    message = "unknown key"
    if nearest:
        message += f'; did you mean "{nearest}"?'
    elif valid_keys:
        message += f"; valid keys are {', '.join(valid_keys)}"
    return Misfit(kind=MisfitKind.UNKNOWN_KEY, message=message, nearest=nearest)


def wrong_value(
    kind: str,
    message: str,
    context: Mapping[str, object],
    value: object,
) -> Misfit:
    """Pydantic's error ``kind`` as a misfit. It says what is expected, but quotes no value."""
    wanted = None
    if kind in {"value_error", "assertion_error"}:
        text = str(context.get("error", message))
    elif value is None:
        text = "has no value: give one, or remove the key"
    elif kind in _LIMITS:
        text = f"must {_limit_text(kind, context)}"
    else:
        wanted = _wanted(kind, context, value)
        text = f"must be {wanted}" if wanted else f"must {message[:1].lower()}{message[1:]}"
    return Misfit(kind=MisfitKind.WRONG_VALUE, message=text, wanted=wanted)


def _limit_text(kind: str, context: Mapping[str, object]) -> str:
    limits = dict(context)
    for name, limit in context.items():
        if isinstance(limit, float):
            limits[name] = f"{limit:g}"
    return _LIMITS[kind].format_map(limits)


def _wanted(kind: str, context: Mapping[str, object], value: object) -> str | None:
    if kind in {"literal_error", "enum"}:
        expected = str(context["expected"])
        choices = _LITERAL.findall(expected) or [expected.lower()]
        *others, last = choices
        alternatives = f"{', '.join(others)} or {last}" if others else last
        return alternatives + suggestion(value, choices)
    family = kind.split("_", maxsplit=1)[0]
    return _TEXTS.get(family)


def one_message(misfits: Sequence[Misfit]) -> str:
    """One message for a value that has none of several accepted forms."""
    wanted = [misfit.wanted for misfit in misfits if misfit.wanted]
    if len(wanted) == len(misfits):
        return "must be " + " or ".join(dict.fromkeys(wanted))
    return misfits[-1].message


def within(path: KeyPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    """The problems of a part of the document. Their paths begin with the path of the part."""
    return (replace(each, path=(*path, *each.path)) for each in problems)


def duplicates(named: Iterable[tuple[KeyPath, Hashable]], message: str) -> Iterator[Problem]:
    """A problem for each entry that has the name of an earlier entry."""
    seen: set[Hashable] = set()
    for path, name in named:
        if name is not None and name in seen:
            yield Problem(path, message)
        seen.add(name)


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in an annotation, including those in lists, mappings and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys as written in the file, with ``*_file`` for secrets."""
    keys: list[str] = []
    for name, field in _fields(model):
        keys.append(field.alias or name)
        if is_secret(field.annotation):
            keys.append(f"{name}_file")
    return keys


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    if issubclass(model, OneOf):
        model = model.with_installed()
    return model.model_fields.items()


def keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The valid keys at that path below ``model``. There are none if the path has no options."""
    models: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, int):
            continue
        annotations = [
            field.annotation
            for name, field in chain.from_iterable(map(_fields, models))
            if (field.alias or name) == step
        ]
        # If a step is no field, it is a key in a mapping of options.
        if annotations:
            models = list(chain.from_iterable(map(models_in, annotations)))
    return list(dict.fromkeys(chain.from_iterable(map(keys_of, models))))
