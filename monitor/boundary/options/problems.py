"""Problems of a configuration as texts that say what to do, and how one validation finds all."""

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

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
_REPORTED = "reported"
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


@dataclass(frozen=True, slots=True)
class Unusable:
    """Stands for a value that is missing or cannot be read. Its field reports the message."""

    message: str | None


@dataclass(slots=True)
class _Place:
    """The options that are validated now, and the names of their invalid fields."""

    path: KeyPath
    raw: Mapping[str, Any] = field(default_factory=dict)
    invalid: set[str] = field(default_factory=set)
    stays_partial: bool = False


class Reading:
    """One validation of a document, which finds all problems.

    Options that have it in their context as ``reading`` report their problems here. ``texts`` has
    the written text of values that look like numbers or booleans.
    """

    def __init__(self, texts: Mapping[KeyPath, str]) -> None:
        self.problems: list[Problem] = []
        self._texts = texts
        self._place = _Place(())

    def options(
        self,
        raw: Mapping[str, Any],
        keys: Callable[[], Sequence[str]],
        validate: Callable[[Mapping[str, Any]], Any],
        read: Mapping[str, Any],
        *,
        stays_partial: bool,
    ) -> tuple[Any, frozenset[str]]:
        """The options, and the names of their invalid fields. ``raw`` is their part of the file.

        ``read`` is ``raw`` with the secrets of other files. ``keys`` returns the valid keys.
        Options with problems are None, or have None in invalid fields if they stay partial.
        """
        outer = self._place
        # A mapping of a YAML document knows its path.
        path = getattr(raw, "path", outer.path)
        here = self._place = _Place(path, raw, stays_partial=stays_partial)
        count = len(self.problems)
        try:
            try:
                options = validate(read)
            except ValidationError as error:
                if stays_partial:
                    del self.problems[count:]
                    here.invalid.clear()
                repaired = self._repaired(read, keys(), error)
                options = validate(repaired) if stays_partial else None
            if len(self.problems) == count:
                for message in options.disagreements():
                    self.problems.append(Problem(path, message))
        finally:
            self._place = outer
        if len(self.problems) > count and not stays_partial:
            options = None
        return options, frozenset(here.invalid)

    def _repaired(
        self, read: Mapping[str, Any], keys: Sequence[str], error: ValidationError
    ) -> Mapping[str, Any]:
        """The mapping without unknown keys, which are reported.

        Missing values are marked as unusable in options that stay partial, and reported in others.
        """
        here = self._place
        repaired = dict(read)
        missing: list[str] = []
        for each in error.errors(include_url=False, include_input=False):
            key = str(each["loc"][-1]) if each["loc"] else ""
            if each["type"] == "missing":
                missing.append(key)
            elif each["type"] == "extra_forbidden":
                repaired.pop(key, None)
                hint = suggestion(key, keys) or f"; valid keys are {', '.join(keys)}"
                self.problems.append(Problem((*here.path, key), f"unknown key{hint}"))
                here.invalid.add(nearest_word(key, keys) or "")
            elif each["type"] != _REPORTED:
                self.problems.append(Problem(here.path, _message(each, read)[0]))
        for key in missing:
            is_misspelt = key in here.invalid
            if here.stays_partial:
                repaired[key] = Unusable(None if is_misspelt else MISSING)
            elif not is_misspelt:
                self.problems.append(Problem((*here.path, key), MISSING))
        return repaired

    def field(
        self,
        name: str,
        key: str,
        value: Any,  # noqa: ANN401 - raw input is anything
        validate: Callable[[Any], Any],
    ) -> Any:  # noqa: ANN401 - a value of the field's type
        """The value of a field. ``key`` is its name in the file.

        An invalid value is None in options that stay partial, and an error in others, so that their
        own validators never get it.
        """
        place = self._place
        if key not in place.raw and f"{name}_file" in place.raw:
            key = f"{name}_file"
        count = len(self.problems)
        self._place = _Place((*place.path, key))
        validated = None
        if not isinstance(value, Unusable):
            validated = self._value(value, validate)
        elif value.message is not None:
            self.problems.append(Problem(self._place.path, value.message))
        self._place = place
        if isinstance(value, Unusable) or len(self.problems) > count:
            place.invalid.add(name)
            if not place.stays_partial:
                raise PydanticCustomError(_REPORTED, "is reported already")
        return validated

    def _value(self, value: Any, validate: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - likewise
        try:
            return validate(value)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        texts = self._with_texts(value, errors)
        if texts is not None:
            return self._value(texts, validate)
        for path, message in messages(errors, value).items():
            self.problems.append(Problem((*self._place.path, *path), message))
        return None

    def _with_texts(self, value: Any, errors: Sequence[Any]) -> Any:  # noqa: ANN401 - likewise
        """The value with the written texts of numbers that must be text. None if there are none.

        A number in the file may be a text, as in ``name: 2024`` or ``token: ${DIGITS}``.
        """
        changed = None
        for error in errors:
            path, found = _inside(error["loc"], value)
            text = self._texts.get((*self._place.path, *path))
            is_text = error["type"] == "string_type" and isinstance(found, bool | int | float)
            if not is_text or text is None:
                continue
            changed = value
            if not path:
                return text
            _, parent = _inside(path[:-1], value)
            parent[path[-1]] = text
        return changed


def messages(errors: Iterable[Any], value: object) -> dict[KeyPath, str]:
    """Pydantic's errors of one value as messages, by their key path inside the value.

    If a value may have several forms, pydantic reports errors of every form. The nearest form is
    the one with an error inside the value, so an error of the whole value is ignored then.
    """
    by_path: dict[KeyPath, list[tuple[str, str | None]]] = {}
    for error in errors:
        path, found = _inside(error["loc"], value)
        by_path.setdefault(path, []).append(_message(error, found))
    texts = {}
    for path, found_messages in by_path.items():
        has_nearer = any(other != path and other[: len(path)] == path for other in by_path)
        if has_nearer:
            continue
        forms = [wanted for _, wanted in found_messages if wanted]
        texts[path] = found_messages[-1][0]
        if len(forms) == len(found_messages):
            texts[path] = "must be " + " or ".join(dict.fromkeys(forms))
    return texts


def _inside(location: Sequence[str | int], value: Any) -> tuple[KeyPath, Any]:  # noqa: ANN401
    """The key path for pydantic's location, without names of union members, and its value."""
    path: KeyPath = ()
    for step in location:
        is_item = isinstance(value, list) and isinstance(step, int) and step < len(value)
        is_key = isinstance(value, dict) and step in value
        if is_item or is_key:
            value = value[step]
            path = (*path, step)
    return path, value


def _message(error: Mapping[str, Any], value: object) -> tuple[str, str | None]:
    """What to do, and what is wanted in the words after "must be". No value is quoted."""
    kind = error["type"]
    context = error.get("ctx", {})
    if isinstance(value, Unusable):
        return str(value.message), None
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
        wanted += suggestion(value, choices)
    text = f"must be {wanted}" if wanted else f"is not valid: {error['msg']}"
    return text, wanted
