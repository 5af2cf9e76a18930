"""Which keys and models stand at a path of the configuration, for suggestions and for the reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from monitor.options import is_secret
from monitor.settings.problems import Path


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Models that an annotation mentions, in lists, mappings and unions too."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def keys_of(model: type[BaseModel]) -> list[str]:
    """Keys as they are written in the file, ``*_file`` ones for secrets included."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        keys.append(field.alias or name)
        if is_secret(field.annotation):
            keys.append(f"{name}_file")
    return keys


def keys_at(model: type[BaseModel], path: Path) -> list[str]:
    """Keys known at that path below ``model``; none when no options stand there."""
    models: list[type[BaseModel]] = [model]
    for step in path:
        if isinstance(step, str):
            fields: list[Any] = [
                field for each in models for name, field in each.model_fields.items() if (field.alias or name) == step
            ]
            models = [found for field in fields for found in models_in(field.annotation)]
    return list(dict.fromkeys(key for each in models for key in keys_of(each)))
