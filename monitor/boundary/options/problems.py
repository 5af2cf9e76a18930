"""Finds all problems of a configuration, as texts that say what to do.

Pydantic reports all invalid values at once. rankwatch replaces these values and validates again.
This finds problems of several values together, which pydantic checks only if each is valid.
"""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, ValidationError

_ModelT = TypeVar("_ModelT", bound=BaseModel)
_Error: TypeAlias = Any
"""One of pydantic's errors: its type, its location, its input, and its context."""
KeyPath = tuple[str | int, ...]
Partial: TypeAlias = Any
"""Options that may have problems. Fields that are not valid are None."""

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
    "greater_than_equal": "be at least {ge:.15g}",
    "greater_than": "be more than {gt:.15g}",
    "less_than_equal": "be at most {le:.15g}",
    "less_than": "be less than {lt:.15g}",
    "too_short": "not be empty",
    "string_too_short": "have at least {min_length} characters",
    "too_long": "have at most {max_length} items",
    "string_too_long": "have at most {max_length} characters",
    "string_pattern_mismatch": "match {pattern}",
}
_LITERAL = re.compile(r"'([^']*)'")

# The largest number of problems that are reported for one file. Further ones are only counted.
MAX_PROBLEMS = 100
MISSING = "is missing, and must be given"
LISTED_TWICE = "is in this list already"
NAME_TAKEN = "another {} has this name already: choose another name"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem and its key path. ``line`` is set if the line cannot be found by the path."""

    path: KeyPath
    message: str
    line: int | None = None


def problem_of(key: str, message: str) -> Problem:
    """Return a problem of one key, whose path is only this key."""
    return Problem((key,), message)


def dotted_path(path: KeyPath) -> str:
    """Return a key path as text: ``comparisons[0].rules[1].alert``.

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
    """Return the word of ``words`` that is most similar. None if no word is similar."""
    close = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=0.6)
    return close[0] if close else None


def write_suggestion(word: object, words: Iterable[str]) -> str:
    """Return the text ``; did you mean "x"?`` if one of ``words`` is similar, else empty text."""
    nearest = nearest_word(word, words)
    return f'; did you mean "{nearest}"?' if nearest else ""


def problems_within(path: KeyPath, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the problems of a part of the document. Their paths begin with the path of the part."""
    return (replace(problem, path=(*path, *problem.path)) for problem in problems)


def find_duplicates(named: Iterable[tuple[KeyPath, Hashable]], message: str) -> Iterator[Problem]:
    """Yield a problem for each entry that has the name of an earlier entry.

    The name is None for entries without one.
    """
    seen: set[Hashable] = set()
    for path, name in named:
        if name is not None and name in seen:
            yield Problem(path, message)
        seen.add(name)


@dataclass(frozen=True, slots=True)
class Unusable:
    """Replaces a value that cannot be used.

    ``message`` says why. It is None if this was reported already.
    """

    message: str | None = None


class PlacedMapping(dict[str, Any]):
    """A mapping of a document, with its key path."""

    path: KeyPath = ()


def with_key_paths(entries: Mapping[str, Any], original: Mapping[str, Any]) -> Mapping[str, Any]:
    """``original`` with other entries, if it is a mapping of a document.

    Its path stays, so that problems of the entries are reported there. Any other mapping has no
    path, so ``entries`` is returned.
    """
    if not isinstance(original, PlacedMapping):
        return entries
    original.clear()
    original.update(_place(entries, original.path))
    return original


def _place(value: Any, path: KeyPath) -> Any:  # noqa: ANN401 - YAML
    """Return the value, in which each mapping has its key path."""
    if isinstance(value, Mapping):
        value = PlacedMapping({key: _place(part, (*path, key)) for key, part in value.items()})
        value.path = path
    return value


class Problems:
    """The problems of one document.

    ``invalid`` has the path of each value that contains a problem.
    """

    def __init__(self) -> None:
        self.found: dict[Problem, None] = {}
        self.invalid: set[KeyPath] = set()

    def add(self, path: KeyPath, message: str | None) -> None:
        """Report a problem. Without a message, the value at the path only becomes invalid."""
        if message is not None:
            self.found[Problem(path, message)] = None
        self.invalid.update(path[:length] for length in range(len(path) + 1))


def validate_options(
    model: type[_ModelT], data: PlacedMapping, texts: Mapping[KeyPath, str], base_dir: str
) -> tuple[_ModelT | None, list[Problem]]:
    """Return the options in the document, and all problems. Invalid parts of the options are None.

    ``texts`` has the text in the file of each value that YAML reads as a number or boolean. If the
    field needs text, this text is used, as in ``name: 2024`` or ``token: ${DIGITS}``. Values of
    ``data`` that are not valid are replaced until the rest is valid.
    """
    problems = Problems()
    context = {"base_dir": base_dir, "problems": problems}
    while True:
        try:
            return model.model_validate(data, context=context), list(problems.found)
        except ValidationError as error:
            by_path = _errors_by_path(error.errors(include_url=False), data)
        for path, errors in by_path.items():
            if path in texts and any(map(_wants_text, errors)):
                _replace(data, path, texts[path])
                continue
            problems.add(path, _write_message(errors))
            if not _replace(data, path, Unusable()):
                return None, list(problems.found)


def _wants_text(error: _Error) -> bool:
    return error["type"] == "string_type" and isinstance(error["input"], bool | int | float)


def _replace(data: Any, path: KeyPath, value: object) -> bool:  # noqa: ANN401 - YAML
    """Replace the value at this path, or its nearest parent that is not replaced yet.

    Returns whether a value was replaced.
    """
    parents = [data]
    for step in path[:-1]:
        parents.append(parents[-1][step])
        if isinstance(parents[-1], Unusable):
            return True
    for parent, step in zip(reversed(parents), reversed(path), strict=True):
        is_new = isinstance(parent, dict) and step not in parent
        if is_new or not isinstance(parent[step], Unusable):
            parent[step] = value
            return True
    return False


def _errors_by_path(errors: Iterable[_Error], data: object) -> dict[KeyPath, list[_Error]]:
    """Pydantic's errors by key path.

    If a value may have several forms, pydantic reports errors of every form. If a form has errors
    inside the value, it is probably the form that was meant. So an error of the whole value is
    ignored then.
    """
    by_path: dict[KeyPath, list[_Error]] = {}
    for error in errors:
        by_path.setdefault(_path_of(error, data), []).append(error)
    outer = {path[:length] for path in by_path for length in range(len(path))}
    return {path: errors for path, errors in by_path.items() if path not in outer}


def _path_of(error: _Error, value: Any) -> KeyPath:  # noqa: ANN401 - YAML
    """Return the key path for pydantic's location. Names of union members in it are left out."""
    path: KeyPath = ()
    for step in error["loc"]:
        key = step
        if isinstance(value, dict) and step not in value:
            key = f"{step}_file"
        is_item = isinstance(value, list) and isinstance(step, int) and step < len(value)
        if is_item or (isinstance(value, dict) and key in value):
            value = value[key]
            path = (*path, key)
    if error["type"] == "missing":
        path = (*path, error["loc"][-1])
    return path


def _write_message(errors: Sequence[_Error]) -> str | None:
    """What to do about one value. None if its problem is reported already."""
    described = [_describe_error(error) for error in errors]
    forms = [wanted for _, wanted in described if wanted]
    if len(forms) == len(errors):
        return "must be " + " or ".join(dict.fromkeys(forms))
    text, _ = described[-1]
    return text


def _describe_error(error: _Error) -> tuple[str | None, str | None]:
    """What to do about one error, and the words after "must be", if any. No value is quoted."""
    kind = error["type"]
    context = error.get("ctx", {})
    value = error["input"]
    if isinstance(value, Unusable):
        return value.message, None
    if kind == "missing":
        return MISSING, None
    if kind in {"value_error", "assertion_error"}:
        return str(context.get("error", error["msg"])), None
    if value is None:
        return "has no value: give one, or remove the key", None
    if kind in _LIMITS:
        return f"must {_LIMITS[kind].format_map(context)}", None
    wanted = _TEXTS.get(kind.split("_", maxsplit=1)[0])
    if kind in {"literal_error", "enum"}:
        expected = str(context["expected"])
        choices = _LITERAL.findall(expected) or [expected.lower()]
        wanted = " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
        wanted += write_suggestion(value, choices)
    text = f"must be {wanted}" if wanted else f"is not valid: {error['msg']}"
    return text, wanted
