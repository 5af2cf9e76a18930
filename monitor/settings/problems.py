"""Errors of a configuration as lines that a person can act on, and the keys that a model knows. Knows no setting."""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from monitor.options import OneOf, is_secret

KeyPath = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,39}")
_TEXTS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "list": "a list (one '- ...' a line, or [...])",
    "tuple": "a list (one '- ...' a line, or [...])",
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

DID_YOU_MEAN = re.compile(r'did you mean "([^"]+)"\?$')
MAX_PROBLEMS = 100  # problems of one file; the others are only counted
MISSING = "is missing, and must be given"
TWICE = "stands in this list already"
NAME_TAKEN = "another {} has this name already: names must differ"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what, and on which line if that is known better than by the path."""

    path: KeyPath
    message: str
    line: int | None = None


def dotted_path(path: KeyPath) -> str:
    """A key path as text: ``comparisons[0].rules[1].alert``.

    A key that is no plain word is not shown: it may be a secret.
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += ("." if text else "") + (
                step if _PLAIN_KEY.fullmatch(step) else f"({len(step)} characters)"
            )
    return text


def suggestion(word: object, known: Iterable[str]) -> str:
    """`` ; did you mean "x"?`` when a known word is close to this one, else nothing."""
    close = difflib.get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.6)
    return f'; did you mean "{close[0]}"?' if close else ""


def error_text(kind: str, message: str, context: Mapping[str, object], value: object) -> str:
    """Pydantic's error in words of our own: what was expected, never what was found."""
    if kind in {"value_error", "assertion_error"}:
        return str(context.get("error", message))
    if value is None:
        return "has no value: give one, or remove the key"
    return f"must {_wanted(kind, context, value) or message[:1].lower() + message[1:]}"


def _wanted(kind: str, context: Mapping[str, object], value: object) -> str | None:
    if kind in {"literal_error", "enum"}:
        choices = _LITERAL.findall(str(context["expected"])) or [str(context["expected"]).lower()]
        alternatives = " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))
        return f"be {alternatives}{suggestion(value, choices)}"
    if kind in _LIMITS:
        limits = {
            key: f"{limit:g}" if isinstance(limit, float) else limit
            for key, limit in context.items()
        }
        return _LIMITS[kind].format_map(limits)
    family = kind.split("_", maxsplit=1)[0]
    return f"be {_TEXTS[family]}" if family in _TEXTS else None


def one_message(messages: Iterable[str]) -> str:
    """One message for a value that fits none of several forms."""
    unique = list(dict.fromkeys(messages))
    if len(unique) > 1 and all(message.startswith("must be ") for message in unique):
        return "must be " + " or ".join(message.removeprefix("must be ") for message in unique)
    return unique[-1]


def within(path: KeyPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Problems of what stands at this path."""
    return (replace(each, path=(*path, *each.path)) for each in problems)


def duplicates(named: Iterable[tuple[KeyPath, Hashable]], message: str) -> Iterator[Problem]:
    """A problem for each entry with the name of an earlier one."""
    seen: set[Hashable] = set()
    for path, name in named:
        if name is not None and name in seen:
            yield Problem(path, message)
        seen.add(name)


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Models that an annotation mentions, in lists, mappings and unions too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Keys as they are written in the file, ``*_file`` ones for secrets included."""
    keys: list[str] = []
    for name, field in _fields(model):
        keys.append(field.alias or name)
        if is_secret(field.annotation):
            keys.append(f"{name}_file")
    return keys


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    return (model.with_installed() if issubclass(model, OneOf) else model).model_fields.items()


def keys_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Keys known at that path below ``model``; none when no options stand there."""
    models: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, str):
            fields: list[Any] = [
                field
                for each in models
                for name, field in _fields(each)
                if (field.alias or name) == step
            ]
            # A step that is no key is one of a mapping of options.
            models = (
                [found for field in fields for found in models_in(field.annotation)]
                if fields
                else models
            )
    return list(dict.fromkeys(key for each in models for key in keys_of(each)))
