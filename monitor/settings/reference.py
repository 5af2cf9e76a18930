"""The configuration reference in Markdown, made from the options themselves, so that it cannot lag behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from monitor.options import format_duration, is_secret
from monitor.settings.fields import ByteCount
from monitor.settings.knowing import models_in
from monitor.settings.models import Settings

_NAMES: dict[object, str] = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    timedelta: "duration",
    ByteCount: "size",
    SecretStr: "secret",
    Any: "anything",
}


def reference() -> str:
    """One table a group of settings: key, type, default, meaning. Starts with a table, has no title of its own."""
    places: dict[type[BaseModel], list[str]] = {}
    for path, model in _groups(Settings, ""):
        places.setdefault(model, []).append(path)
    return "\n\n".join(_section(paths, model) for model, paths in places.items()) + "\n"


def _groups(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield path, model
    for name, field in model.model_fields.items():
        many = "[]" if _is_list(field.annotation) else ""
        for inner in models_in(field.annotation):
            yield from _groups(inner, f"{path}.{field.alias or name}{many}".lstrip("."))


def _section(paths: list[str], model: type[BaseModel]) -> str:
    rows = [_row(field.alias or name, field) for name, field in model.model_fields.items()]
    about = " ".join((model.__doc__ or "").split())
    table = "\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows])
    title = ", ".join(f"`{path}`" if path else "Top level" for path in paths)
    return f"### {title}\n\n{about}\n\n{table}"


def _row(key: str, field: FieldInfo) -> str:
    shown = f"`{key}`" + (f", `{key}_file`" if is_secret(field.annotation) else "")
    cells = (shown, _type(field.annotation), _default(field), field.description or _about(field.annotation))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _about(annotation: object) -> str:
    return " ".join(" ".join((model.__doc__ or "").split()) for model in models_in(annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=False)
    if field.default_factory is not None or default is None or default == ():
        return ""
    return f"`{_literal(default)}`"


def _literal(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return value if isinstance(value, str) else json.dumps(value)


def _type(annotation: object) -> str:  # noqa: PLR0911 - one line a kind of annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if annotation in _NAMES:
        return _NAMES[annotation]
    if origin is Literal:
        return " or ".join(f"`{_literal(choice)}`" for choice in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{choice.value}`" for choice in annotation)
    if _is_list(annotation):
        return f"list of {_type(arguments[0])}"
    if len(arguments) > 1 and isinstance(origin, type) and origin.__name__ in {"dict", "Mapping"}:
        return f"mapping of {_type(arguments[1])}"
    if arguments:
        return " or ".join(dict.fromkeys(_type(part) for part in arguments if part is not NoneType))
    return "mapping"


def _is_list(annotation: object) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_list(get_args(annotation)[0])
    return origin in {tuple, list} or bool(re.search(r"Sequence$", getattr(origin, "__name__", "")))
