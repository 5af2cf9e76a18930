"""The JSON Schema of the configuration file, made from the options themselves: editors complete and check by it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from monitor.options import format_duration
from monitor.settings.configuration import Settings

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\}", "description": "From the environment."}
_ISO_DURATION = re.compile(r"P(?=\d|T\d)")
_DURATION_TYPE = TypeAdapter(timedelta)
_FREE = {"title", "writeOnly"}
_NARROW = frozenset({"integer", "number", "boolean"})


def json_schema() -> dict[str, Any]:
    """The schema, draft 2020-12. ``${NAME}`` is allowed wherever a number, a boolean, a choice or a pattern stands."""
    schema = _relax(Settings.model_json_schema(by_alias=True, mode="validation"))
    schema["$defs"]["Variable"] = _VARIABLE
    schema["patternProperties"] = {"^x-": {"description": "Free space, for YAML anchors to be used elsewhere in the file."}}
    properties = schema["properties"]
    properties["external_url"].pop("default", None)
    return {"$schema": _DIALECT, "title": "rankwatch configuration", **schema}


def _relax(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """A copy without generated titles and nulls, with variables let in."""
    if isinstance(node, list):
        return [_relax(item) for item in node]
    if not isinstance(node, dict):
        return node
    copy = {key: _named(value) if key in {"properties", "$defs"} else _relax(value) for key, value in node.items()}
    copy = {key: value for key, value in copy.items() if key not in _FREE and (key, value) != ("default", None)}
    return _with_variable(_without_null(copy))


def _named(schemas: dict[str, Any]) -> dict[str, Any]:
    # Keys of ``properties`` are names, a setting called ``title`` among them, which must stay.
    return {name: _relax(schema) for name, schema in schemas.items()}


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    choices = [choice for choice in node.get("anyOf", ()) if choice.get("type") != "null"]
    if "anyOf" not in node or len(choices) == len(node["anyOf"]):
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}


def _with_variable(node: dict[str, Any]) -> dict[str, Any]:
    is_narrow = node.get("type") in _NARROW or "pattern" in node or "enum" in node or node.get("const") is True
    if not is_narrow:
        return node
    if isinstance(node.get("default"), str) and _ISO_DURATION.match(node["default"]):
        node = {**node, "default": format_duration(_DURATION_TYPE.validate_python(node["default"]))}
    kept = {key: value for key, value in node.items() if key in {"description", "default", "examples"}}
    own = {key: value for key, value in node.items() if key not in kept}
    return {"anyOf": [own, {"$ref": "#/$defs/Variable"}], **kept}
