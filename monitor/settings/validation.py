"""Validation of a document against a model: every problem with its key path and line.

Knows no setting.
"""

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from monitor.errors import ConfigError
from monitor.files import read_bounded
from monitor.options import Options
from monitor.settings.problems import (
    DID_YOU_MEAN,
    MAX_PROBLEMS,
    MISSING,
    KeyPath,
    Problem,
    dotted_path,
    error_text,
    keys_at,
    one_message,
    suggestion,
)
from monitor.settings.yaml_document import MAX_BYTES, YamlDocument, parse_yaml

_ModelT = TypeVar("_ModelT", bound=BaseModel)
# Of a variable that messages hide: hiding shorter values would take letters out of ordinary words
_SHORTEST_SECRET = 4

_ADVICE = "write one with `rankwatch init`, or name another with --config"


class Partial:
    """Typed values of those keys that could be read; defaults for those that are absent."""

    def __init__(self, model: type[Options], raw: object, context: Mapping[str, object]) -> None:
        self.raw: Mapping[str, object] = raw if isinstance(raw, Mapping) else {}
        self._model = model
        self._context = dict(context)

    def has(self, *keys: str) -> bool:
        """Whether any of the keys is given, right or wrong, and not null."""
        return any(self.raw.get(key) is not None for key in keys)

    def misspells(self, *keys: str) -> bool:
        """Whether an unknown key looks like one of these: it is reported by itself."""
        known = {field.alias or name for name, field in self._model.model_fields.items()}
        unknown = (key for key in self.raw if key not in known)
        return any(suggestion(key, keys) for key in islice(unknown, MAX_PROBLEMS))

    def get(self, key: str) -> Any:  # noqa: ANN401 - a value of whatever type the field has
        """The key's value, its default when it is absent; None when it could not be read."""
        name, field = next(
            (name, field)
            for name, field in self._model.model_fields.items()
            if (field.alias or name) == key
        )
        if key not in self.raw:
            return (
                None
                if field.is_required()
                else field.get_default(call_default_factory=True, validated_data={})
            )
        try:
            return _adapter(self._model, name).validate_python(self.raw[key], context=self._context)
        except ValidationError:
            return None

    def items(self, key: str) -> list[tuple[int, object]]:
        """Position and raw value of a list's items; none when it is no list."""
        found = self.raw.get(key)
        return list(enumerate(found)) if isinstance(found, list) else []


@cache
def _adapter(model: type[Options], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = (
        Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    )
    return TypeAdapter(annotation)


def read_text(
    path: FilePath, *, advice: str = _ADVICE, most: int = MAX_BYTES, may_be_pipe: bool = True
) -> str:
    """Text of a configuration file of at most ``most`` bytes.

    ConfigError when there is none that could be one.
    """
    try:
        content = read_bounded(path, most, may_be_pipe=may_be_pipe)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file: {advice}") from None
    except OSError as error:
        size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
        too_large = f"is larger than {size}, which is no configuration"
        msg = (
            f"{path}: "
            f"{too_large if error.errno == errno.EFBIG else f'cannot be read: {error.strerror}'}"
        )
        raise ConfigError(msg) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text: save it as UTF-8") from None


def read_mapping(
    text: str, name: str, environ: Mapping[str, str] | None, *, example: str = "comparisons: [...]"
) -> YamlDocument:
    """The document of a text that is a mapping; ConfigError naming ``name`` for any other text."""
    document = parse_yaml(text, name, os.environ if environ is None else environ)
    if not isinstance(document.data, dict):
        raise ConfigError(
            (
                f"{name}:{document.line(())}: must be a mapping (key: value) at the top level, "
                f"such as {example}"
            )
        )
    return document


def validate_document(
    model: type[_ModelT], document: YamlDocument, context: dict[str, object]
) -> tuple[_ModelT | None, list[Problem]]:
    """The model's value, None when there is none, and every problem of the document and its shape."""
    raw = document.data
    found, errors = validate(model, raw, context)
    if _restore_texts(document, raw, errors):
        found, errors = validate(model, raw, context)
    return found, [*document.problems, *except_known(_shape(model, errors, raw), document.problems)]


def validate(
    model: type[_ModelT], raw: object, context: Mapping[str, object]
) -> tuple[_ModelT | None, list[Any]]:
    """The model's value where all of it is right, else None and pydantic's errors."""
    try:
        return model.model_validate(raw, context=dict(context)), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _restore_texts(document: YamlDocument, raw: object, errors: Iterable[Any]) -> bool:
    # What looks like a number may be meant as text, ``name: 2024`` or ``token: ${DIGITS}``, and
    # only the model knows.
    changed = False
    for error in errors:
        path, _ = _resolve(error["loc"], raw)
        if error["type"] != "string_type" or path not in document.texts or not path:
            continue
        parent = _at(raw, path[:-1])
        if isinstance(parent[path[-1]], bool | int | float):
            parent[path[-1]] = document.texts[path]
            changed = True
    return changed


def _shape(model: type[BaseModel], errors: Sequence[Any], raw: object) -> Iterator[Problem]:
    """Pydantic's errors, one problem for each key: of the forms that a value may have, the nearest one."""
    found: dict[KeyPath, list[str]] = defaultdict(list)
    guesses: set[KeyPath] = set()
    for error in errors:
        path, is_guess = _resolve(error["loc"], raw, may_be_absent=error["type"] == "missing")
        value = _at(raw, path)
        lacks_valid_items = error["type"] == "too_short" and isinstance(value, list) and bool(value)
        if error["type"] == "default_factory_not_called" or lacks_valid_items:
            # A default that waits for what is wrong elsewhere; a list that has items, only none
            # that is right
            continue
        if is_guess:
            guesses.add(path)
        found[path].append(_message(model, error, path, raw, seeks=len(found) <= MAX_PROBLEMS))
    meant = {
        (*path[:-1], match[1])
        for path, (first, *_) in found.items()
        if (match := DID_YOU_MEAN.search(first))
    }
    for path, messages in found.items():
        is_beside = path in guesses and any(
            other[: len(path)] == path and len(other) > len(path) for other in found
        )
        if not is_beside and not (messages[0] == MISSING and path in meant):
            yield Problem(path, one_message(messages))


def _message(model: type[BaseModel], error: Any, path: KeyPath, raw: object, *, seeks: bool) -> str:  # noqa: ANN401 - pydantic's
    kind = error["type"]
    if kind == "extra_forbidden":
        # Searching for a similar key is slow, and a file may hold thousands of unknown ones.
        known = keys_at(model, path[:-1]) if seeks else []
        return "unknown key" + (
            suggestion(path[-1], known) or (f"; known here: {', '.join(known)}" if known else "")
        )
    if kind == "missing":
        return MISSING
    return error_text(kind, error["msg"], error.get("ctx", {}), _at(raw, path))


def _resolve(
    location: Sequence[str | int], raw: object, *, may_be_absent: bool = False
) -> tuple[KeyPath, bool]:
    """The key path of pydantic's location, and whether names of union members had to be left out of it."""
    path: KeyPath = ()
    here, is_guess = raw, False
    for n, step in enumerate(location):
        is_last = n == len(location) - 1
        if isinstance(here, dict) and isinstance(step, str):
            key = step if step in here else f"{step}_file"
            if key in here or (is_last and may_be_absent):
                path, here = (*path, key if key in here else step), here.get(key)
                continue
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            path, here = (*path, step), here[step]
            continue
        is_guess = True
    return path, is_guess


def _at(raw: object, path: KeyPath) -> Any:  # noqa: ANN401 - raw input is anything
    here: Any = raw
    for step in path:
        if isinstance(here, dict):
            here = here.get(str(step))
        else:
            here = here[step] if isinstance(here, list) and isinstance(step, int) else None
    return here


def except_known(found: Iterable[Problem], known: Sequence[Problem]) -> Iterator[Problem]:
    """Problems but for those at a key that is known to be wrong."""
    wrong = {problem.path for problem in known}
    return (problem for problem in found if problem.path not in wrong)


def report_lines(
    document: YamlDocument, problems: Iterable[Problem], name: str, inside: KeyPath = ()
) -> Iterator[str]:
    """Problems as ``name:line: key: message``, by line, at most MAX_PROBLEMS.

    Key paths below ``inside`` begin there.
    """
    outside = sorted(
        (value for value in document.expanded if len(value) >= _SHORTEST_SECRET),
        key=len,
        reverse=True,
    )
    placed = sorted(
        ((each.line or document.line(each.path), each) for each in problems),
        key=lambda pair: pair[0],
    )
    for line, problem in placed[:MAX_PROBLEMS]:
        message = " ".join(problem.message.split())
        for value in outside:
            message = message.replace(value, "...")
        where = dotted_path(
            problem.path[len(inside) :] if problem.path[: len(inside)] == inside else problem.path
        )
        yield f"{name}:{line}: {where}: {message}" if where else f"{name}:{line}: {message}"
    if len(placed) > MAX_PROBLEMS:
        yield f"{name}: and {len(placed) - MAX_PROBLEMS} problems more"
