"""The JSON Schema of the configuration file, made from the options themselves: editors complete and check by it."""

from datetime import timedelta
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import NullableSchema

from monitor.options import format_duration
from monitor.settings.configuration import Settings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}",
    "description": "From the environment.",
}
_FREE = {"title", "writeOnly"}
_NARROW = frozenset({"integer", "number", "boolean"})


class _WrittenSchema(GenerateJsonSchema):
    """Values as they are written in the file: none is null, and a duration is ``15m``."""

    def nullable_schema(self, schema: NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def encode_default(self, dft: object) -> object:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12.

    ``${NAME}`` is allowed wherever a number, a boolean, a choice or a pattern stands.
    """
    schema = _relax(
        Settings.model_json_schema(
            by_alias=True, mode="validation", schema_generator=_WrittenSchema
        )
    )
    schema["$defs"]["Variable"] = _VARIABLE
    schema["patternProperties"] = {
        "^x-": {"description": "Free space, for YAML anchors to be used elsewhere in the file."}
    }
    properties = schema["properties"]
    properties["external_url"].pop("default", None)
    return {"$schema": _DIALECT, "title": "rankwatch configuration", **schema}


def _relax(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """A copy without generated titles, with variables let in."""
    if isinstance(node, list):
        return [_relax(item) for item in node]
    if not isinstance(node, dict):
        return node
    # Keys of ``properties`` are names, a setting called ``title`` among them, which must stay.
    copy = {
        key: {name: _relax(each) for name, each in value.items()}
        if key in {"properties", "$defs"}
        else _relax(value)
        for key, value in node.items()
    }
    copy = {
        key: value
        for key, value in copy.items()
        if key not in _FREE and (key, value) != ("default", None)
    }
    return _with_variable(copy)


def _with_variable(node: dict[str, Any]) -> dict[str, Any]:
    is_narrow = (
        node.get("type") in _NARROW
        or "pattern" in node
        or "enum" in node
        or node.get("const") is True
    )
    if not is_narrow:
        return node
    kept = {
        key: value for key, value in node.items() if key in {"description", "default", "examples"}
    }
    own = {key: value for key, value in node.items() if key not in kept}
    return {"anyOf": [own, {"$ref": "#/$defs/Variable"}], **kept}
