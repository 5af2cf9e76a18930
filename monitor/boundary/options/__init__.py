"""The base of all options: strict keys, secrets, durations, paths.

Each module defines its options next to its code.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from monitor.boundary.files import read_bounded
from monitor.boundary.options.problems import Partial, Reading, Unusable
from monitor.boundary.plugins import Registry
from monitor.boundary.redaction import display_url

_T = TypeVar("_T")
_OneOfT = TypeVar("_OneOfT", bound="OneOf")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST = timedelta(days=36500)
_LONGEST_TEXT = 1000
_LARGEST_SECRET_FILE = 1 << 16
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")
_TAKEN_LABELS = frozenset({"alertname", "comparison", "segment", "severity", "metric", "statistic"})


# Marks a field that changes how lists are fetched, but not which lists: `Annotated[int,
# NOT_IN_HASH]`. `config_hash` leaves the field out.
NOT_IN_HASH = object()


def readable_by(parse: Callable[[Any], object]) -> AfterValidator:
    """A check that accepts a value or a secret, unless ``parse`` raises ValueError for it."""

    def check(value: _T) -> _T:
        parse(value.get_secret_value() if isinstance(value, SecretStr) else value)
        return value

    return AfterValidator(check)


def must(is_valid: Callable[[Any], object], requirement: str) -> AfterValidator:
    """A check that accepts a value or a secret if it is valid. Otherwise it raises ValueError."""

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
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not _DURATION.fullmatch(value):
        raise ValueError(
            "not a duration: write a number with its unit, such as 30s, 15m, 1h30m or 7d"
        )
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if seconds > _LONGEST.total_seconds():
        raise ValueError("must be at most 36500d")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """The duration as a whole number of the largest possible unit: ``90s``, ``2m``."""
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


def resolve_path(text: str, info: ValidationInfo) -> str:
    """The path. A relative path starts at the directory of the configuration file.

    That directory is ``base_dir`` of the validation context.
    """
    base = (info.context or {}).get("base_dir")
    return text if base is None else str(Path(base) / _expand_home(text))


def _expand_home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            "begins with a home directory that cannot be found: write the full path"
        ) from None


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
    """The headers, if they are valid.

    ValueError for an invalid name or a value with a line break. The error quotes no header.
    """
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or re.search(r"[\r\n\0]", value.get_secret_value()):
            raise ValueError(
                "a header is not valid: use letters, digits and hyphens in its name, and no line "
                "break in its value"
            )
    return headers


def is_secret(annotation: object) -> bool:
    """Whether a field of this type is a secret. ``name_file`` can replace such a field."""
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


def _read_secret(path: object, base: str | None) -> str | Unusable:
    if not isinstance(path, str):
        return Unusable("must be the path of a file with the value")
    try:
        file = Path(base or ".") / _expand_home(path)
        text = read_bounded(file, _LARGEST_SECRET_FILE).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return Unusable(f"cannot read {path}: it is not UTF-8 text")
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or type(error).__name__
        return Unusable(f"cannot read {path}: {cause}")
    return text or Unusable(f"{path} is empty: write the value into it")


class Options(BaseModel):
    """Base of all options: unknown keys are errors, errors quote no values, instances are frozen.

    A field of type SecretStr, or of a mapping to SecretStr, may be given as ``name_file: path``.
    Its value is then the file's text without the last line break. ``repr`` shows URLs by
    `display_url`. A docstring below a field describes it in the reference and in the schema.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
        # Most kinds of options are never used, so a class builds its validator when it is used.
        defer_build=True,
    )

    # Whether options with problems are still checked together with others. Their invalid fields are
    # None then. Other options with problems become None themselves.
    stays_partial: ClassVar[bool] = False
    reads_secret_files: ClassVar[bool] = True
    _invalid: frozenset[str] = PrivateAttr(default=frozenset())

    @classmethod
    def file_keys(cls) -> list[str]:
        """The keys as written in the file, with ``*_file`` for secrets."""
        keys: list[str] = []
        for name, field in cls.model_fields.items():
            keys.append(field.alias or name)
            if cls.reads_secret_files and is_secret(field.annotation):
                keys.append(f"{name}_file")
        return keys

    def has(self, *names: str) -> bool:
        """Whether the file has a value, valid or not, for one of these fields."""
        given = (name for name in names if getattr(self, name) is not None)
        return not self.model_fields_set.isdisjoint(given) or not self._invalid.isdisjoint(names)

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
        if not isinstance(data, Mapping):
            return handler(data)
        context = info.context or {}
        read: Mapping[str, Any] = data
        if cls.reads_secret_files:
            read = cls._with_secrets(data, context.get("base_dir"))
        reading: Reading | None = context.get("reading")
        if reading is None:
            options = handler(read)
            for problem in options.disagreements():
                raise ValueError(problem)
            return options
        partial: Partial
        partial, invalid = reading.options(
            data, cls.file_keys, handler, read, stays_partial=cls.stays_partial
        )
        if partial is not None:
            partial._invalid = invalid  # noqa: SLF001 - of this class
        result: Self = partial
        return result

    @classmethod
    def _with_secrets(cls, data: Mapping[str, Any], base: str | None) -> Mapping[str, Any]:
        secrets, holders = _secrets_of(cls)
        read = _read_files(data, secrets, base)
        for name in holders:
            values = read.get(name)
            if isinstance(values, Mapping):
                keys = [key.removesuffix("_file") for key in values]
                read[name] = _read_files(values, keys, base)
        return read

    @field_validator("*", mode="wrap")
    @classmethod
    def _validate_field(
        cls,
        value: Any,  # noqa: ANN401 - raw input is anything
        handler: ValidatorFunctionWrapHandler,
        info: ValidationInfo,
    ) -> Any:  # noqa: ANN401 - a value of the field's type
        reading: Reading | None = (info.context or {}).get("reading")
        if reading is not None:
            name = str(info.field_name)
            return reading.field(name, cls.model_fields[name].alias or name, value, handler)
        if isinstance(value, Unusable):
            raise ValueError(value.message)  # noqa: TRY004 - pydantic collects ValueError only
        return handler(value)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The fields that ``repr`` shows. A URL is shown with its host and database only."""
        for name, value in super().__repr_args__():
            yield name, _shown(value)

    def _problems(self) -> Iterator[str]:
        """Yield the problems of options that do not fit together.

        Each class yields its own problems. The problems of its base classes are reported first.
        """
        return iter(())

    def disagreements(self) -> Iterator[str]:
        """The problems of each class in `_problems`, those of base classes first."""
        for base in reversed(type(self).__mro__):
            if "_problems" in vars(base):
                yield from vars(base)["_problems"](self)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe each field, and allow ``name_file`` in the schema too, for every secret."""
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
    """The docstrings below the fields of a class and of its base classes, by the field's name."""
    docs: dict[str, str] = {}
    for base in reversed(options.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            docs |= _own_field_docs(base)
    return docs


@cache
def _own_field_docs(options: type[BaseModel]) -> dict[str, str]:
    try:
        source = inspect.getsource(options)
    except (OSError, TypeError):  # made by `create_model`
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


def _read_files(
    values: Mapping[str, Any],
    names: Iterable[str],
    base: str | None,
) -> dict[str, Any]:
    """Replace ``name_file: path`` by ``name: text``, for these names."""
    read = dict(values)
    for name in names:
        key = f"{name}_file"
        if key not in read:
            continue
        path = read.pop(key)
        if name in read:
            read[name] = Unusable(f"give either {name} or {key}, not both")
        else:
            read[name] = _read_secret(path, base)
    return read


Kinds = Mapping[str, tuple[type[Options], str | None]]
"""The options of each kind and their description, by the kind's name."""


class OneOf(Options):
    """Options that must set exactly one of several fields, such as ``http: {...}``.

    The fields in ``also`` may be set in addition. If kinds of installed packages are used,
    `with_installed` makes a class with fields for them.
    """

    also: ClassVar[frozenset[str]] = frozenset()
    installed: ClassVar[Callable[[str | None], Kinds]] = lambda _: {}  # see `Registry.installed`

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """The names of the fields. Exactly one of these fields must have a value."""
        return tuple(name for name in cls.model_fields if name not in cls.also)

    @classmethod
    def file_keys(cls) -> list[str]:
        """The keys as written in the file, with those of installed packages."""
        extended = cls.with_installed()
        return super(OneOf, extended).file_keys()

    @property
    def kind(self) -> str:
        """The name of the field that has a value."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @property
    def given(self) -> Any:  # noqa: ANN401 - options of any kind
        """The value of that field."""
        return getattr(self, self.kind)

    @classmethod
    def with_installed(cls, name: object = None) -> type[Self]:
        """A class with a further field for the plugin of that name. None adds all plugins.

        PluginError if the named plugin cannot be used.
        """
        if name in cls.model_fields or not isinstance(name, str | None):
            return cls
        kinds = cls.installed(name).items()
        further = tuple((kind, entry) for kind, entry in kinds if kind not in cls.model_fields)
        return _add_kinds(cls, further) if further else cls

    @model_validator(mode="wrap")
    @classmethod
    def _take_installed(
        cls,
        data: Any,  # noqa: ANN401 - JSON
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        if isinstance(data, Mapping):
            for name in data:
                extended = cls.with_installed(name)
                if extended is not cls:
                    return extended.model_validate(data, context=info.context)
        return handler(data)

    def _problems(self) -> Iterator[str]:
        names = [name for name in self.choices() if getattr(self, name) is not None]
        if len(names) == 1:
            return
        problem = f"give exactly one of {', '.join(self.with_installed().choices())}"
        if names:
            problem += f"; found {' and '.join(names)}"
        yield problem

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Require exactly one field in the schema too, including kinds of installed packages."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        kinds = cls.installed(None)
        for name, (options, about) in kinds.items():
            schema["properties"][name] = {
                **handler(options.__pydantic_core_schema__),
                "description": about,
            }
        return {**schema, "oneOf": [{"required": [name]} for name in (*cls.choices(), *kinds)]}


def with_kinds(
    registry: Registry[_T], kinds_of: Callable[[Mapping[str, _T]], Kinds]
) -> Callable[[type[_OneOfT]], type[_OneOfT]]:
    """Add an optional field to a class of options for each kind of a registry."""

    def decorate(model: type[_OneOfT]) -> type[_OneOfT]:
        extended = _add_kinds(model, tuple(kinds_of(registry).items()))
        extended.installed = lambda name: kinds_of(registry.installed(name))
        return extended

    return decorate


@cache
def _add_kinds(
    model: type[_OneOfT], kinds: tuple[tuple[str, tuple[type[Options], str | None]], ...]
) -> type[_OneOfT]:
    fields: dict[str, Any] = {
        kind: (options | None, Field(default=None, description=about))
        for kind, (options, about) in kinds
    }
    # Fields of later base classes come first, so kinds come before the other fields of the class.
    bases: Any = (model, create_model(f"{model.__name__}Kinds", __base__=Options, **fields))
    extended: type[_OneOfT] = create_model(
        model.__name__,
        __base__=bases,
        __module__=model.__module__,
        __doc__=model.__doc__,
    )
    return extended
