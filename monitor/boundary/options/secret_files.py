"""Secrets that options read from files: ``name_file: path`` in place of ``name: secret``."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from monitor.boundary.files import read_bounded
from monitor.boundary.options.problems import Unusable

_LARGEST_SECRET_FILE = 1 << 16


def is_secret(annotation: object) -> bool:
    """Return whether a field of this type is a secret. ``name_file`` can replace such a field."""
    wraps = get_origin(annotation) in {Annotated, Union, UnionType}
    return annotation is SecretStr or (
        wraps and any(is_secret(part) for part in get_args(annotation))
    )


def _holds_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(_holds_secret(part) for part in get_args(annotation))


@cache
def _secrets_of(options: type[BaseModel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields that are secrets, and of the fields that contain secrets."""
    fields = options.model_fields.items()
    secrets = tuple(name for name, field in fields if is_secret(field.annotation))
    holders = tuple(name for name, field in fields if _holds_secret(field.annotation))
    return secrets, holders


def with_secrets(
    options: type[BaseModel], data: Mapping[str, Any], base: str | None
) -> dict[str, Any]:
    """Replace each ``name_file`` in the values by ``name``, whose value is the text of the file.

    Relative paths start at ``base``. Texts that cannot be read are `Unusable`.
    """
    secrets, holders = _secrets_of(options)
    read = _read_files(data, secrets, base)
    for name in holders:
        values = read.get(name)
        if isinstance(values, Mapping):
            keys = [key.removesuffix("_file") for key in values]
            read[name] = _read_files(values, keys, base)
    return read


def _read_files(
    values: Mapping[str, Any],
    names: Iterable[str],
    base: str | None,
) -> dict[str, Any]:
    """For each of these names, replace ``name_file: path`` by ``name: text``."""
    read = dict(values)
    for name in names:
        key = f"{name}_file"
        if key not in read:
            continue
        path = read.pop(key)
        if name not in read:
            read[name] = _read_secret(path, base)
        elif not isinstance(read[name], Unusable):
            read[name] = Unusable(f"give either {name} or {key}, not both")
    return read


def _read_secret(path: object, base: str | None) -> str | Unusable:
    if isinstance(path, Unusable):
        return path
    if not isinstance(path, str):
        return Unusable("must be the path of a file that contains the value")
    try:
        file = Path(base or ".") / expand_home(path)
        text = read_bounded(file, _LARGEST_SECRET_FILE).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return Unusable(f"cannot read {path}: it is not UTF-8 text")
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        return Unusable(f"cannot read {path}: {cause}")
    return text or Unusable(f"{path} is empty: write the value into it")


def expand_home(text: str) -> Path:
    """Return the path with the home directory that ``~`` means. ValueError if there is none."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            "begins with ~, but the home directory cannot be found: write the full path"
        ) from None
