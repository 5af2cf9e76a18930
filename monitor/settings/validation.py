"""Validates a document against a model, and reports every problem with its key path and line.

This module defines no settings.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from operator import itemgetter
from pathlib import Path as FilePath
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from monitor.errors import ConfigError
from monitor.files import read_bounded
from monitor.options import Options
from monitor.settings.problems import (
    MAX_PROBLEMS,
    MISSING,
    KeyPath,
    Misfit,
    MisfitKind,
    Problem,
    dotted_path,
    keys_at,
    nearest_word,
    one_message,
    unknown_key,
    wrong_value,
)
from monitor.settings.yaml_document import MAX_BYTES, YamlDocument, parse_yaml

_ModelT = TypeVar("_ModelT", bound=BaseModel)
# Messages hide values of variables, except shorter values, because these may be usual words.
_SHORTEST_SECRET = 4

_ADVICE = "write one with `rankwatch init`, or name another with --config"


class Partial:
    """The typed values of all keys that can be read, and the defaults of missing keys."""

    def __init__(self, model: type[Options], raw: object, context: Mapping[str, object]) -> None:
        self.raw: Mapping[str, object] = raw if isinstance(raw, Mapping) else {}
        self._model = model
        self._context = dict(context)

    def has(self, *keys: str) -> bool:
        """Whether one of the keys has a value other than null. The value may be invalid."""
        return any(self.raw.get(key) is not None for key in keys)

    def misspells(self, *keys: str) -> bool:
        """Whether an unknown key is similar to one of these. Unknown keys are reported anyway."""
        valid_keys = {field.alias or name for name, field in self._model.model_fields.items()}
        unknown = (key for key in self.raw if key not in valid_keys)
        return any(nearest_word(key, keys) for key in islice(unknown, MAX_PROBLEMS))

    def get(self, key: str) -> Any:  # noqa: ANN401 - a value of the field's type
        """The key's value, or its default if the key is missing. None for an unreadable value."""
        fields = self._model.model_fields.items()
        name, field = next(entry for entry in fields if (entry[1].alias or entry[0]) == key)
        if key not in self.raw:
            if field.is_required():
                return None
            return field.get_default(call_default_factory=True, validated_data={})
        try:
            return _adapter(self._model, name).validate_python(self.raw[key], context=self._context)
        except ValidationError:
            return None

    def items(self, key: str) -> list[tuple[int, object]]:
        """The position and raw value of each item of a list. Empty if the value is no list."""
        items = self.raw.get(key)
        return list(enumerate(items)) if isinstance(items, list) else []


@cache
def _adapter(model: type[Options], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = field.annotation
    if field.metadata:
        annotation = Annotated[annotation, *field.metadata]
    return TypeAdapter(annotation)


def read_text(
    path: FilePath,
    *,
    advice: str = _ADVICE,
    most: int = MAX_BYTES,
    may_be_pipe: bool = True,
) -> str:
    """The text of a configuration file. ConfigError if it has more than ``most`` bytes."""
    try:
        content = read_bounded(path, most, may_be_pipe=may_be_pipe)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file: {advice}") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        if error.errno == errno.EFBIG:
            size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
            problem = f"is larger than {size}, too large for a configuration"
        raise ConfigError(f"{path}: {problem}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text: save it as UTF-8") from None


def read_mapping(
    text: str,
    name: str,
    environ: Mapping[str, str] | None,
    *,
    example: str = "comparisons: [...]",
) -> YamlDocument:
    """The document of a text. ConfigError, which names ``name``, if it is no mapping."""
    document = parse_yaml(text, name, os.environ if environ is None else environ)
    if not isinstance(document.data, dict):
        raise ConfigError(
            f"{name}:{document.line(())}: must be a mapping (key: value) at the top level, such as "
            f"{example}"
        )
    return document


def validate_document(
    model: type[_ModelT],
    document: YamlDocument,
    context: dict[str, object],
) -> tuple[_ModelT | None, list[Problem]]:
    """The value of the model (None if it is invalid), and all problems of the document."""
    raw = document.data
    value, errors = validate(model, raw, context)
    # `_restore_texts` changes ``raw``.
    if _restore_texts(document, raw, errors):
        value, errors = validate(model, raw, context)
    problems = unreported(_merge_errors(model, errors, raw), document.problems)
    return value, [*document.problems, *problems]


def validate(
    model: type[_ModelT],
    raw: object,
    context: Mapping[str, object],
) -> tuple[_ModelT | None, list[Any]]:
    """The value of the model, or None and pydantic's errors."""
    try:
        return model.model_validate(raw, context=dict(context)), []
    except ValidationError as error:
        return None, error.errors(include_url=False, include_input=False)


def _restore_texts(document: YamlDocument, raw: object, errors: Iterable[Any]) -> bool:
    # A number in the file may have to be a text, as in ``name: 2024`` or ``token: ${DIGITS}``. The
    # model decides.
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


def _merge_errors(model: type[BaseModel], errors: Sequence[Any], raw: object) -> Iterator[Problem]:
    """Pydantic's errors as one problem for each key.

    If a value may have several forms, pydantic reports errors of every form. The nearest form is
    the one with an error inside the value, so an error of the whole value is ignored then.
    """
    misfits, union_paths = _collect_misfits(model, errors, raw)
    misspelled = {
        (*path[:-1], first.nearest) for path, (first, *_) in misfits.items() if first.nearest
    }
    for path, of_path in misfits.items():
        has_nearer_problem = path in union_paths and any(
            other[: len(path)] == path and len(other) > len(path) for other in misfits
        )
        is_misspelled = of_path[0].kind is MisfitKind.MISSING and path in misspelled
        if not has_nearer_problem and not is_misspelled:
            yield Problem(path, one_message(of_path))


def _collect_misfits(
    model: type[BaseModel], errors: Sequence[Any], raw: object
) -> tuple[dict[KeyPath, list[Misfit]], set[KeyPath]]:
    """Misfits by key path, and the paths of values that may have several forms."""
    misfits: dict[KeyPath, list[Misfit]] = defaultdict(list)
    union_paths: set[KeyPath] = set()
    for error in errors:
        path, is_in_union = _resolve(error["loc"], raw, may_be_absent=error["type"] == "missing")
        value = _at(raw, path)
        lacks_valid_items = error["type"] == "too_short" and isinstance(value, list) and bool(value)
        if error["type"] == "default_factory_not_called" or lacks_valid_items:
            # The cause is another problem: that of a setting that the default needs, or of the
            # list's items.
            continue
        if is_in_union:
            union_paths.add(path)
        # Similar keys are searched only for as many problems as are reported.
        seeks = len(misfits) <= MAX_PROBLEMS
        misfits[path].append(_misfit(model, error, path, value, seeks=seeks))
    return misfits, union_paths


def _misfit(
    model: type[BaseModel],
    error: Any,  # noqa: ANN401 - pydantic's
    path: KeyPath,
    value: object,
    *,
    seeks: bool,
) -> Misfit:
    kind = error["type"]
    if kind == "extra_forbidden":
        # The search for a similar key is slow, and a file may have thousands of unknown keys.
        return unknown_key(path[-1], keys_at(model, path[:-1]) if seeks else [])
    if kind == "missing":
        return Misfit(kind=MisfitKind.MISSING, message=MISSING)
    return wrong_value(kind, error["msg"], error.get("ctx", {}), value)


def _resolve(
    location: Sequence[str | int],
    raw: object,
    *,
    may_be_absent: bool = False,
) -> tuple[KeyPath, bool]:
    """The key path for pydantic's location, and whether names of union members were left out."""
    path: KeyPath = ()
    here: Any = raw
    is_guess = False
    for n, step in enumerate(location):
        is_last = n == len(location) - 1
        is_item = isinstance(here, list) and isinstance(step, int) and step < len(here)
        is_key = isinstance(here, dict) and isinstance(step, str)
        if is_key and step not in here and f"{step}_file" in here:
            step = f"{step}_file"  # noqa: PLW2901 - the key in the file
        if is_item or (is_key and step in here):
            here = here[step]
        elif is_key and is_last and may_be_absent:
            here = None
        else:
            is_guess = True
            continue
        path = (*path, step)
    return path, is_guess


def _at(raw: object, path: KeyPath) -> Any:  # noqa: ANN401 - raw input is anything
    here: Any = raw
    for step in path:
        if isinstance(here, dict):
            here = here.get(str(step))
        elif isinstance(here, list) and isinstance(step, int):
            here = here[step]
        else:
            return None
    return here


def unreported(problems: Iterable[Problem], reported: Sequence[Problem]) -> Iterator[Problem]:
    """Those problems whose keys have no reported problem yet."""
    paths = {problem.path for problem in reported}
    return (problem for problem in problems if problem.path not in paths)


def report_lines(
    document: YamlDocument,
    problems: Iterable[Problem],
    name: str,
    inside: KeyPath = (),
) -> Iterator[str]:
    """At most MAX_PROBLEMS lines ``name:line: key: message``, in the order of lines.

    Key paths below ``inside`` are shortened to begin there. Values of variables are hidden.
    """
    secrets = set[str]()
    for value in document.expanded:
        if len(value) >= _SHORTEST_SECRET:
            # Messages show a value as it is, or with escapes.
            secrets |= {value, repr(value)[1:-1], json.dumps(value)[1:-1]}
    by_line = [(each.line or document.line(each.path), each) for each in problems]
    by_line.sort(key=itemgetter(0))
    for line, problem in by_line[:MAX_PROBLEMS]:
        shown = problem.message
        # Before the whitespace changes, which a value may contain.
        for secret in sorted(secrets, key=len, reverse=True):
            shown = shown.replace(secret, "...")
        shown = " ".join(shown.split())
        path = problem.path
        if path[: len(inside)] == inside:
            path = path[len(inside) :]
        place = [f"{name}:{line}", dotted_path(path), shown]
        yield ": ".join(filter(None, place))
    if len(by_line) > MAX_PROBLEMS:
        yield f"{name}: and {len(by_line) - MAX_PROBLEMS} more problems"
