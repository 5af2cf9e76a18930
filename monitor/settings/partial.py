"""A mapping of options read field by field, so that what is right can be checked further although something else is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import Annotated, Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from monitor.options import Options
from monitor.settings.problems import MOST_TOLD, suggestion

T = TypeVar("T", bound=Options)


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
        return any(suggestion(key, keys) for key in islice(unknown, MOST_TOLD))

    def get(self, key: str) -> Any:  # noqa: ANN401 - a value of whatever type the field has
        """The key's value, its default when it is absent; None when it could not be read."""
        name, field = next((name, field) for name, field in self._model.model_fields.items() if (field.alias or name) == key)
        if key not in self.raw:
            return None if field.is_required() else field.get_default(call_default_factory=True, validated_data={})
        try:
            return _adapter(self._model, name).validate_python(self.raw[key], context=self._context)
        except ValidationError:
            return None

    def items(self, key: str) -> list[tuple[int, object]]:
        """Position and raw value of a list's items; none when it is no list."""
        found = self.raw.get(key)
        return list(enumerate(found)) if isinstance(found, list) else []


def valid(model: type[T], raw: object, context: Mapping[str, object]) -> T | None:
    """The options when they are right as a whole."""
    try:
        return model.model_validate(raw, context=dict(context))
    except ValidationError:
        return None


@cache
def _adapter(model: type[Options], name: str) -> TypeAdapter[Any]:
    field = model.model_fields[name]
    annotation: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    return TypeAdapter(annotation)
