"""The grammar all options share: strict keys, secrets, durations, paths. What can be set stands beside the code it sets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")


def parse_duration(value: object) -> object:
    """Read ``15m``, ``1h30m``, ``500ms``; a timedelta passes. ValueError on anything else, bare numbers included."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        msg = "not a duration: write a number with its unit, such as 30s, 15m, 1h30m or 7d"
        raise ValueError(msg)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value)))


def _positive(value: timedelta) -> timedelta:
    if value <= timedelta(0):
        msg = "must be longer than zero"
        raise ValueError(msg)
    return value


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    AfterValidator(_positive),
    WithJsonSchema({"type": "string", "pattern": rf"^{_DURATION.pattern}$", "examples": ["30s", "15m", "1h30m", "7d"]}),
]
"""A length of time above zero, written as ``15m``."""


def resolve_path(text: str, info: ValidationInfo) -> str:
    """Make a relative path start at the directory of the configuration file (the validation context's ``base_dir``)."""
    base = (info.context or {}).get("base_dir")
    return text if base is None else str(Path(base) / Path(text).expanduser())


ConfigPath = Annotated[str, AfterValidator(resolve_path)]
"""A file's path; a relative one starts at the configuration file's directory."""


def _holds_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(_holds_secret(part) for part in get_args(annotation))


def _read_secret(path: object, base: str | None) -> str:
    if not isinstance(path, str):
        msg = "must be the path of a file that holds the value"
        raise ValueError(msg)  # noqa: TRY004 - pydantic collects ValueError only
    try:
        return (Path(base or ".") / Path(path).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        msg = f"cannot read {path}: {reason}"
        raise ValueError(msg) from None


class Options(BaseModel):
    """Base of everything that can be set: unknown keys are errors, values never echo, instances never change.

    A field of type SecretStr (or a mapping of them) may be given as ``name_file: path`` instead: the file's text without its
    last line break is the value.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False)

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, data: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - raw input is anything
        if not isinstance(data, Mapping):
            return data
        base = (info.context or {}).get("base_dir")
        read = dict(data)
        for name, field in cls.model_fields.items():
            if not _holds_secret(field.annotation):
                continue
            if isinstance(read.get(name), Mapping):
                read[name] = _read_mapping(read[name], base)
            if (key := f"{name}_file") in read:
                if name in read:
                    msg = f"give either {name} or {key}, not both"
                    raise ValueError(msg)
                read[name] = _read_secret(read.pop(key), base)
        return read

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Let every secret be given as ``name_file`` in the schema too."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.get("properties", {})
        for name, field in cls.model_fields.items():
            if not _holds_secret(field.annotation) or name not in properties:
                continue
            properties[f"{name}_file"] = {"type": "string", "description": f"Path of a file that holds {name}."}
            if name in schema.get("required", ()):
                schema["required"].remove(name)
                schema.setdefault("allOf", []).append({"oneOf": [{"required": [name]}, {"required": [f"{name}_file"]}]})
        return schema


def _read_mapping(values: Mapping[str, object], base: str | None) -> dict[str, object]:
    """Replace ``Header_file: path`` entries of a mapping of secrets by ``Header: text``."""
    return {
        (key.removesuffix("_file") if key.endswith("_file") else key): (
            _read_secret(value, base) if key.endswith("_file") else value
        )
        for key, value in values.items()
    }


class OneOf(Options):
    """Options of which exactly one field is given: ``http: {...}`` or ``file: {...}``."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            choices = ", ".join(type(self).model_fields)
            msg = f"give exactly one of {choices}" + (f"; found {' and '.join(given)}" if given else "")
            raise ValueError(msg)
        return self
