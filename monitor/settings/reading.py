"""A text of the configuration language checked against a model: every problem with its key and line. Knows no setting."""

from __future__ import annotations

import errno
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from monitor.errors import ConfigError
from monitor.files import read_bounded
from monitor.settings.document import MAX_BYTES, Document
from monitor.settings.knowing import keys_at
from monitor.settings.problems import DID_YOU_MEAN, MISSING, MOST_TOLD, Path, Problem, dotted, either, unknown_key, wording

T = TypeVar("T", bound=BaseModel)

_SHORTEST_SECRET = 4


_ADVICE = "write one with `rankwatch init`, or name another with --config"


def read_text(path: FilePath, *, advice: str = _ADVICE, most: int = MAX_BYTES, may_be_pipe: bool = True) -> str:
    """Text of a configuration file of at most ``most`` bytes; ConfigError when there is none that could be one."""
    try:
        content = read_bounded(path, most, may_be_pipe=may_be_pipe)
    except FileNotFoundError:
        msg = f"{path}: no such file: {advice}"
        raise ConfigError(msg) from None
    except OSError as error:
        too_large = f"is larger than {_size(most)}, which is no configuration"
        msg = f"{path}: {too_large if error.errno == errno.EFBIG else f'cannot be read: {error.strerror}'}"
        raise ConfigError(msg) from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        msg = f"{path}:{line}: is not UTF-8 text: save it as UTF-8"
        raise ConfigError(msg) from None


def _size(number: int) -> str:
    return f"{number >> 20} MiB" if number >> 20 else f"{number >> 10} KiB"


def validate(model: type[T], document: Document, context: dict[str, object]) -> tuple[T | None, list[Problem]]:
    """The model's value, None when there is none, and every problem of the document and its shape."""
    raw = document.data
    found, errors = _try(model, raw, context)
    if _as_written(document, raw, errors):
        found, errors = _try(model, raw, context)
    return found, [*document.problems, *apart(_shape(model, errors, raw), document.problems)]


def _try(model: type[T], raw: object, context: dict[str, object]) -> tuple[T | None, list[Any]]:
    try:
        return model.model_validate(raw, context=context), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _as_written(document: Document, raw: object, errors: Iterable[Any]) -> bool:
    """Put numbers and booleans back to how they were written where text is wanted: ``name: 2024``, ``token: ${DIGITS}``."""
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
    """Pydantic's errors, one problem a key: of the forms a value might have had, the one that it is nearest to."""
    found: dict[Path, list[str]] = defaultdict(list)
    guesses: set[Path] = set()
    for error in errors:
        path, is_guess = _resolve(error["loc"], raw, may_be_absent=error["type"] == "missing")
        if error["type"] == "default_factory_not_called" or _waits_for_items(error, path, raw):
            continue  # a default that waits for what is wrong elsewhere; a list that has items, only none that is right
        if is_guess:
            guesses.add(path)
        found[path].append(_message(model, error, path, raw, seeks=len(found) <= MOST_TOLD))
    meant = {(*path[:-1], match[1]) for path, (first, *_) in found.items() if (match := DID_YOU_MEAN.search(first))}
    for path, messages in found.items():
        is_beside = path in guesses and any(other[: len(path)] == path and len(other) > len(path) for other in found)
        if not is_beside and not (messages[0] == MISSING and path in meant):
            yield Problem(path, either(messages))


def _waits_for_items(error: Any, path: Path, raw: object) -> bool:  # noqa: ANN401 - pydantic's dictionary
    found = _at(raw, path)
    return bool(error["type"] == "too_short" and isinstance(found, list) and found)


def _message(model: type[BaseModel], error: Any, path: Path, raw: object, *, seeks: bool) -> str:  # noqa: ANN401 - pydantic's
    """What is wrong, in words; an unknown key's likeness is only sought where ``seeks``, as that is slow."""
    kind = error["type"]
    if kind == "extra_forbidden":
        return unknown_key(path[-1], keys_at(model, path[:-1]) if seeks else ())
    if kind == "missing":
        return MISSING
    return wording(kind, error["msg"], error.get("ctx", {}), _at(raw, path))


def _resolve(location: Sequence[str | int], raw: object, *, may_be_absent: bool = False) -> tuple[Path, bool]:
    """The key path of pydantic's location, and whether names of union members had to be left out of it."""
    path: Path = ()
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


def _at(raw: object, path: Path) -> Any:  # noqa: ANN401 - raw input is anything
    here: Any = raw
    for step in path:
        if isinstance(here, dict):
            here = here.get(str(step))
        else:
            here = here[step] if isinstance(here, list) and isinstance(step, int) else None
    return here


def apart(found: Iterable[Problem], known: Sequence[Problem]) -> Iterator[Problem]:
    """Problems but for those at a key that is known to be wrong."""
    wrong = {problem.path for problem in known}
    return (problem for problem in found if problem.path not in wrong)


def lines(document: Document, problems: Iterable[Problem], name: str, inside: Path = ()) -> Iterator[str]:
    """Problems as lines by line of the file, told under ``name`` and by key paths below ``inside``: the first of too many."""
    outside = sorted((value for value in document.expanded if len(value) >= _SHORTEST_SECRET), key=len, reverse=True)
    placed = sorted(((each.line or document.line(each.path), each) for each in problems), key=lambda pair: pair[0])
    for line, problem in placed[:MOST_TOLD]:
        message = " ".join(problem.message.split())
        for value in outside:
            message = message.replace(value, "...")
        where = dotted(problem.path[len(inside) :] if problem.path[: len(inside)] == inside else problem.path)
        yield f"{name}:{line}: {where}: {message}" if where else f"{name}:{line}: {message}"
    if len(placed) > MOST_TOLD:
        yield f"{name}: and {len(placed) - MOST_TOLD} problems more"
