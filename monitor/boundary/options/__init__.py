"""The base of all options, and the types of secrets, durations and paths.

Each module defines its options next to its code.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar, cast
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from monitor.boundary.options.problems import (
    KeyPath,
    Partial,
    PlacedMapping,
    Problems,
    Unusable,
    nearest_word,
    write_suggestion,
)
from monitor.boundary.options.secret_files import expand_home, is_secret, with_secrets
from monitor.boundary.redaction import display_url
from monitor.model.instants import read_instant

_T = TypeVar("_T")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST_DURATION = timedelta(days=36500)
_LONGEST_DURATION_CHARS = 1000
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")
_TAKEN_LABELS = frozenset({"alertname", "comparison", "segment", "severity", "metric", "statistic"})


# Marks a field that changes how lists are fetched, but not which lists: `Annotated[int,
# NOT_IN_HASH]`. `config_hash` leaves the field out.
NOT_IN_HASH = object()


def readable_by(parse: Callable[[Any], object]) -> AfterValidator:
    """Return a check of values and secrets. It fails if ``parse`` raises ValueError."""

    def check(value: _T) -> _T:
        parse(value.get_secret_value() if isinstance(value, SecretStr) else value)
        return value

    return AfterValidator(check)


def must(is_valid: Callable[[Any], object], requirement: str) -> AfterValidator:
    """A check of values and secrets. It fails with the text ``requirement`` if one is not valid."""

    def require(value: object) -> None:
        if not is_valid(value):
            raise ValueError(requirement)

    return readable_by(require)


def parse_duration(value: object) -> timedelta:
    """Read a duration such as ``15m``, ``1h30m`` or ``500ms``.

    A timedelta is returned unchanged. ValueError for other values and for numbers without a unit.
    """
    if isinstance(value, timedelta):
        return value
    if (
        not isinstance(value, str)
        or len(value) > _LONGEST_DURATION_CHARS
        or not _DURATION.fullmatch(value)
    ):
        raise ValueError(
            "not a duration: write a number with its unit, such as 30s, 15m, 1h30m or 7d"
        )
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if seconds > _LONGEST_DURATION.total_seconds():
        raise ValueError("must be at most 36500d")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """The duration in the largest unit that gives a whole number, such as ``90s`` or ``2m``."""
    milliseconds = round(value / timedelta(milliseconds=1))
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
    return next(f"{milliseconds // size}{unit}" for unit, size in units if milliseconds % size == 0)


def _is_above_zero(duration: timedelta) -> bool:
    return duration > timedelta(0)


# A length of time above zero, written as `15m`.
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    must(_is_above_zero, "must be longer than zero"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^{_DURATION.pattern}$",
            "examples": ["30s", "15m", "1h30m", "7d"],
        }
    ),
]


def _read_time(value: object) -> datetime:
    return read_instant(str(value))


# A date or a time, as aware UTC.
AwareInstant = Annotated[
    datetime,
    BeforeValidator(_read_time),
    WithJsonSchema({"type": "string", "examples": ["2026-11-01", "2026-11-01T06:00:00Z"]}),
]


def resolve_path(text: str, info: ValidationInfo) -> str:
    """Return the path. A relative path starts at the directory of the configuration file.

    That directory is ``base_dir`` of the validation context.
    """
    base = (info.context or {}).get("base_dir")
    return text if base is None else str(Path(base) / expand_home(text))


# A file's path. A relative path starts at the configuration file's directory.
ConfigPath = Annotated[str, AfterValidator(resolve_path)]


# The name of a further label of alerts. It must follow the rules of Prometheus.
LabelName = Annotated[
    str,
    must(
        _LABEL.fullmatch,
        "must be a label name: letters, digits and _, not beginning with a digit or __",
    ),
    must(
        lambda name: name not in _TAKEN_LABELS,
        "is a label that rankwatch sets itself: use another name",
    ),
]


def web_url_of(text: str) -> SplitResult | None:
    """The parts of a URL ``http(s)://host[:port]...`` on one line. None for any other text."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return None
    is_web_host = parts.scheme in ("http", "https") and parts.hostname
    if not is_web_host or re.search(r"[\x00-\x20\x7f]", text):
        return None
    return parts


def _is_header_value(value: str) -> bool:
    is_stripped = value != "" and value == value.strip()
    return is_stripped and value.isascii() and value.isprintable()


_of_header = must(
    _is_header_value,
    "must be printable ASCII text on one line without blanks at its ends",
)
HeaderText = Annotated[str, _of_header]
HeaderSecret = Annotated[SecretStr, _of_header]


def check_headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """Return the headers, if they are valid.

    ValueError for an invalid name or a value with a line break. The error quotes no header.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or re.search(r"[\r\n\0]", value.get_secret_value()):
            raise ValueError(
                "a header is not valid: use letters, digits and hyphens in its name, and no line "
                "break in its value"
            )
    return headers


@cache
def _names_by_key(options: type["Options"]) -> dict[str, str]:
    """Return the name of the field that each key in the file sets."""
    names = {}
    for name, field in options.model_fields.items():
        names[field.alias or name] = name
        if options.reads_secret_files and is_secret(field.annotation):
            names[f"{name}_file"] = name
    return names


class Options(BaseModel):
    """Base of all options. Unknown keys are errors. Errors quote no values. Instances are frozen.

    A field ``name`` of type SecretStr may be given as ``name_file: path``, and so may each entry of
    a mapping to SecretStr. Its value is then the file's text without the last line break. ``repr``
    shows URLs by `display_url`. A docstring below a field describes it in the reference and in the
    schema.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        # A class builds its validator at its first use, because most classes of options are not
        # used.
        defer_build=True,
    )

    # What becomes of options with problems. If true, only their invalid fields become None, and the
    # options are checked together with others. If false, None replaces the options as a whole.
    stays_partial: ClassVar[bool] = False
    reads_secret_files: ClassVar[bool] = True
    _invalid: frozenset[str] = PrivateAttr(default=frozenset())

    @classmethod
    def file_keys(cls) -> list[str]:
        """Return the keys as written in the file, with ``*_file`` for secrets."""
        return list(_names_by_key(cls))

    def has(self, *names: str) -> bool:
        """Return whether the file has a value, valid or not, for at least one of these fields."""
        for name in names:
            is_set = name in self.model_fields_set and getattr(self, name) is not None
            if is_set or name in self._invalid:
                return True
        return False

    @property
    def is_whole(self) -> bool:
        """Whether all fields are valid."""
        return not self._invalid

    @model_validator(mode="wrap")
    @classmethod
    def _validate(
        cls,
        data: Any,  # noqa: ANN401 - raw input is anything
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        if isinstance(data, Unusable):
            return cast("Self", None)
        if not isinstance(data, Mapping):
            return handler(data)
        context = info.context or {}
        base = context.get("base_dir")
        data = cls._prepared(data, base)
        values = dict(data)
        if cls.reads_secret_files:
            values = with_secrets(cls, data, base)
        problems: Problems | None = context.get("problems")
        if problems is not None and isinstance(data, PlacedMapping):
            options: Self = cls._validate_part(values, data.path, handler, problems)
            return options
        options = handler(values)
        for problem in options.disagreements():
            raise ValueError(problem)
        return options

    @classmethod
    def _prepared(
        cls,
        data: Mapping[str, Any],
        base: str | None,  # noqa: ARG003 - subclasses use it
    ) -> Mapping[str, Any]:
        """Return the mapping to read the options from. Relative paths start at ``base``.

        If ``data`` is a mapping of a document, the result must have its path too.
        """
        return data

    @classmethod
    def _validate_part(
        cls,
        values: dict[str, Any],
        path: KeyPath,
        handler: ModelWrapValidatorHandler[Self],
        problems: Problems,
    ) -> Partial:
        """Validate the options at this path of a document, and report their problems.

        ``stays_partial`` says what is returned if there are problems.
        """
        names = _names_by_key(cls)
        for key in [key for key in values if key not in names]:
            del values[key]
            meant_key = cls._report_unknown(key, path, problems)
            if meant_key is not None:
                values.setdefault(meant_key, Unusable())
        options = handler(values)
        if path not in problems.invalid:
            for message in options.disagreements():
                problems.add(path, message)
        if path not in problems.invalid:
            return options
        options._invalid = frozenset(  # noqa: SLF001 - of this class
            name for key, name in names.items() if (*path, key) in problems.invalid
        )
        return options if cls.stays_partial else None

    @classmethod
    def _report_unknown(cls, key: str, path: KeyPath, problems: Problems) -> str | None:
        """Report an unknown key. Returns the similar key that was probably meant.

        That key is marked as invalid, so that it is not reported as missing.
        """
        keys = cls.file_keys()
        hint = write_suggestion(key, keys) or f"; valid keys are {', '.join(keys)}"
        problems.add((*path, key), f"unknown key{hint}")
        meant = nearest_word(key, _names_by_key(cls))
        if meant is None:
            return None
        problems.add((*path, meant), None)
        name = _names_by_key(cls)[meant]
        return cls.model_fields[name].alias or name

    @field_validator("*", mode="wrap")
    @classmethod
    def _validate_field(
        cls,
        value: Any,  # noqa: ANN401 - raw input is anything
        handler: ValidatorFunctionWrapHandler,
    ) -> Any:  # noqa: ANN401 - a value of the field's type
        if not isinstance(value, Unusable):
            return handler(value)
        if value.message is not None:
            raise ValueError(value.message)
        return None

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The fields that ``repr`` shows. Of a URL, only its host and its database are shown."""
        for name, value in super().__repr_args__():
            yield name, _shown(value)

    def disagreements(self) -> Iterator[str]:
        """Yield the problems of options that do not fit together.

        The method ``_problems`` of a class yields only the problems of this class. The problems of
        its base classes are reported first.
        """
        for base in reversed(type(self).__mro__):
            if "_problems" in vars(base):
                yield from vars(base)["_problems"](self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe each field in the schema. For every secret ``name``, allow ``name_file`` too."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.get("properties", {})
        descriptions = field_docs(cls)
        for name, field in cls.model_fields.items():
            key = field.alias or name
            if name in descriptions and key in properties:
                properties[key]["description"] = descriptions[name]
            if not is_secret(field.annotation) or name not in properties:
                continue
            properties[f"{name}_file"] = {
                "type": "string",
                "description": f"Path of a file with the value of `{name}`.",
            }
            forms = [{"required": [name]}, {"required": [f"{name}_file"]}]
            rule: dict[str, Any] = {"not": {"allOf": forms}}
            if name in schema.get("required", ()):
                schema["required"].remove(name)
                rule = {"oneOf": forms}
            schema.setdefault("allOf", []).append(rule)
        return schema


def field_docs(options: type[BaseModel]) -> dict[str, str]:
    """Return the docstring of each field of a class and its base classes, by the field's name."""
    docs: dict[str, str] = {}
    for base in reversed(options.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= _own_field_docs(base)
    return docs


@cache
def _own_field_docs(options: type[BaseModel]) -> dict[str, str]:
    try:
        source = inspect.getsource(options)
    except (OSError, TypeError):  # `create_model` made the class
        return {}
    docs = {}
    (definition,) = ast.parse(textwrap.dedent(source)).body
    for field, below in pairwise(getattr(definition, "body", ())):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            docs[ast.unparse(field.target)] = " ".join(ast.literal_eval(below.value).split())
    return docs


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_shown, value))
    if isinstance(value, str) and "://" in value:
        return display_url(value)
    return value
