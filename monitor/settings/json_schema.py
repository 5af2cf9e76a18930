"""The JSON Schema of the configuration file, made from the options. Editors use the schema."""

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import NullableSchema

from monitor.boundary.options import format_duration
from monitor.model.statistics import Statistic
from monitor.settings.configuration import Settings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
    "description": "From the environment.",
}
_GENERATED_KEYS = {"title", "writeOnly"}
_TYPES_WITHOUT_TEXT = frozenset({"integer", "number", "boolean"})
_SHARED_KEYS = {"description", "default", "examples"}


class _WrittenSchema(GenerateJsonSchema):
    """Describes values as people write them in the file: durations as ``15m``, and never null."""

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: object) -> object:
        if isinstance(dft, timedelta):
            return format_duration(dft)
        if isinstance(dft, Statistic):
            return str(dft)
        return super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12.

    The schema allows ``${NAME}`` in place of numbers, booleans, choices, and texts with a pattern.
    """
    schema = _relax_schema(
        Settings.model_json_schema(
            by_alias=True,
            mode="validation",
            schema_generator=_WrittenSchema,
        )
    )
    schema["$defs"]["Variable"] = _VARIABLE
    schema["patternProperties"] = {
        "^x-": {
            "description": "Any content. Put YAML anchors here that other parts of the file refer "
            "to."
        }
    }
    # This default is made from `listen`.
    schema["properties"]["external_url"].pop("default", None)
    return {"$schema": _DIALECT, "title": "rankwatch configuration", **schema}


def _relax_schema(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a copy of the schema that allows variables, without generated titles.

    ``node`` is the whole schema or any part.
    """
    if isinstance(node, list):
        return list(map(_relax_schema, node))
    if not isinstance(node, dict):
        return node
    copy: dict[str, Any] = {}
    for key, part in node.items():
        if key in {"properties", "$defs"}:
            # The names are settings or types, so none is removed, not even a setting ``title``.
            copy[key] = {name: _relax_schema(schema) for name, schema in part.items()}
            continue
        is_null_default = key == "default" and part is None
        if key not in _GENERATED_KEYS and not is_null_default:
            copy[key] = _relax_schema(part)
    return _with_variable(copy)


def _with_variable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema, changed so that it also allows a text such as ``${NAME}``.

    A schema that already allows such a text is returned unchanged.
    """
    forbids_variables = (
        schema.get("type") in _TYPES_WITHOUT_TEXT
        or "pattern" in schema
        or "enum" in schema
        or schema.get("const") is True  # some versions of pydantic give it no type
    )
    if not forbids_variables:
        return schema
    without_variable = {key: part for key, part in schema.items() if key not in _SHARED_KEYS}
    # Descriptions, defaults and examples belong to both alternatives.
    shared = {key: part for key, part in schema.items() if key in _SHARED_KEYS}
    return {"anyOf": [without_variable, {"$ref": "#/$defs/Variable"}], **shared}
