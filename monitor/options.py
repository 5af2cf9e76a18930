"""The grammar all options share: strict keys, secrets, durations, paths.

What can be set stands beside the code it sets.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import chain
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
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from monitor.files import read_bounded
from monitor.plugins import Registry
from monitor.redaction import display_url

_T = TypeVar("_T")
_OneOfT = TypeVar("_OneOfT", bound="OneOf")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)", re.ASCII)
_NEARLY = re.compile(
    r"(\d{1,9}(?:\.\d{1,3})?)\s*(milli|ms|s|m|h|d|w)[a-z]*\.?", re.ASCII | re.IGNORECASE
)
_CLOCK = re.compile(r"(\d{1,4}):(\d{2})", re.ASCII)
_LONGEST = timedelta(days=36500)
_LONGEST_TEXT = 1000
_LARGEST_SECRET_FILE = 1 << 16
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LABEL = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]{0,99}")
_TAKEN_LABELS = frozenset({"alertname", "comparison", "segment", "severity", "metric", "statistic"})


# Marks a field, `Annotated[int, NOT_IN_HASH]`, that decides how lists are fetched and not which:
# `config_hash` omits it.
NOT_IN_HASH = object()


def readable_by(parse: Callable[[Any], object]) -> AfterValidator:
    """A check that keeps a value, or a secret, that this reads.

    What is wrong is the ValueError that it raises.
    """

    def check(value: _T) -> _T:
        parse(value.get_secret_value() if isinstance(value, SecretStr) else value)
        return value

    return AfterValidator(check)


def must(hold: Callable[[Any], object], reason: str) -> AfterValidator:
    """A check that keeps a value, or a secret, for which this holds, and else gives the reason."""

    def require(value: object) -> None:
        if not hold(value):
            raise ValueError(reason)

    return readable_by(require)


def parse_duration(value: object) -> timedelta:
    """Read ``15m``, ``1h30m``, ``500ms``.

    A timedelta passes. ValueError on anything else, bare numbers included.
    """
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT or not _DURATION.fullmatch(value):
        raise ValueError(f"not a duration: {_advice(value)}")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    if seconds > _LONGEST.total_seconds():
        raise ValueError("must be at most 36500d")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta) -> str:
    """Write a duration as it is read, in its largest whole unit: ``90s`` for a minute and a half."""
    milliseconds = round(value / timedelta(milliseconds=1))
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))
    return next(f"{milliseconds // size}{unit}" for unit, size in units if milliseconds % size == 0)


def _advice(value: object) -> str:
    text = "" if isinstance(value, bool) else str(value).strip()
    if re.fullmatch(r"\d{1,9}", text, re.ASCII):
        return f"a number needs its unit, write {text}s, {text}m or {text}h"
    if match := _CLOCK.fullmatch(text):
        return f"write {int(match[1])}h{int(match[2])}m or {int(match[1])}m{int(match[2])}s"
    if match := _NEARLY.fullmatch(text):
        return f"write {match[1]}{match[2].lower().replace('milli', 'ms')}"
    return "write a number with its unit, such as 30s, 15m, 1h30m or 7d"


# A length of time above zero, written as `15m`.
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    must(lambda value: value > timedelta(0), "must be longer than zero"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^{_DURATION.pattern}$",
            "examples": ["30s", "15m", "1h30m", "7d"],
        }
    ),
]


def resolve_path(text: str, info: ValidationInfo) -> str:
    """Make a relative path start at the directory of the configuration file (the validation context's ``base_dir``)."""
    base = (info.context or {}).get("base_dir")
    return text if base is None else str(Path(base) / _expand_home(text))


def _expand_home(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise ValueError(
            "begins with a home directory that cannot be found: write the whole path"
        ) from None


# A file's path; a relative one starts at the configuration file's directory.
ConfigPath = Annotated[str, AfterValidator(resolve_path)]


# Name of a further label of alerts, as Prometheus has them.
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
    """The parts of ``http(s)://host[:port]...`` on one line; None for anything else."""
    try:
        parts = urlsplit(text)
        is_whole = (
            parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        )
    except ValueError:
        return None
    return parts if is_whole and not re.search(r"[\x00-\x20\x7f]", text) else None


_of_header = must(
    lambda text: text and text == text.strip() and text.isascii() and text.isprintable(),
    "must be printable ASCII text on one line without blanks at its ends",
)
HeaderText = Annotated[str, _of_header]
HeaderSecret = Annotated[SecretStr, _of_header]


def check_headers(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    """The headers; ValueError, which repeats none of them, when one has a name that is none, or a value of several lines."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or re.search(r"[\r\n\0]", value.get_secret_value()):
            raise ValueError(
                "a header's name is letters, digits and hyphens, and its value has no line break"
            )
    return headers


def is_secret(annotation: object) -> bool:
    """Whether a field of this type is a secret itself, so that its value may stand in a file: ``name_file``."""
    wraps = get_origin(annotation) in {Annotated, Union, UnionType}
    return annotation is SecretStr or (
        wraps and any(is_secret(part) for part in get_args(annotation))
    )


def _holds_secret(annotation: object) -> bool:
    return annotation is SecretStr or any(_holds_secret(part) for part in get_args(annotation))


@cache
def _secrets_of(options: type[BaseModel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields that are secrets, and of those that hold some."""
    fields = options.model_fields.items()
    holders = tuple(name for name, field in fields if _holds_secret(field.annotation))
    return tuple(name for name, field in fields if is_secret(field.annotation)), holders


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """Stands in for a secret that could not be had, so that its field, and only it, reports why."""

    message: str


def _read_secret(path: object, base: str | None) -> str | _Unreadable:
    if not isinstance(path, str):
        return _Unreadable("must be the path of a file that holds the value")
    try:
        text = (
            read_bounded(Path(base or ".") / _expand_home(path), _LARGEST_SECRET_FILE)
            .decode()
            .rstrip("\r\n")
        )
    except UnicodeDecodeError:
        return _Unreadable(f"cannot read {path}: it is not UTF-8 text")
    except (OSError, ValueError) as error:
        return _Unreadable(
            f"cannot read {path}: {getattr(error, 'strerror', None) or type(error).__name__}"
        )
    return text or _Unreadable(f"{path} is empty: it must hold the value")


class Options(BaseModel):
    """Base of everything that can be set: unknown keys are errors, values never echo, instances never change.

    A field of type SecretStr (or a mapping of them) may be given as ``name_file: path`` instead: the file's text without its
    last line break is the value. What ``repr`` shows of a URL is `display_url` of it.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, validate_default=False
    )

    @model_validator(mode="before")
    @classmethod
    def _read_secret_files(cls, data: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 - raw input is anything
        if not isinstance(data, Mapping):
            return data
        base = (info.context or {}).get("base_dir")
        secrets, holders = _secrets_of(cls)
        read = _read_files(data, secrets, base)
        for name in holders:
            if isinstance(values := read.get(name), Mapping):
                read[name] = _read_files(
                    values, [key.removesuffix("_file") for key in values], base
                )
        return read

    @field_validator("*", mode="before")
    @classmethod
    def _report_unreadable(cls, value: Any) -> Any:  # noqa: ANN401 - raw input is anything
        if isinstance(value, _Unreadable):
            raise ValueError(value.message)  # noqa: TRY004 - pydantic collects ValueError only
        entries = value.items() if isinstance(value, Mapping) else ()
        if found := [
            f"{name}_file: {entry.message}"
            for name, entry in entries
            if isinstance(entry, _Unreadable)
        ]:
            raise ValueError("; ".join(found))
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Fields for ``repr``: no URL is shown beyond its host and database."""
        for name, value in super().__repr_args__():
            yield name, _shown(value)

    def _problems(self) -> Iterator[str]:
        """What is wrong with the options together.

        Each class has its own, which come behind those of its bases.
        """
        return iter(())

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        found = (
            vars(each)["_problems"](self)
            for each in reversed(type(self).__mro__)
            if "_problems" in vars(each)
        )
        if problem := next(chain.from_iterable(found), None):
            raise ValueError(problem)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Let every secret be given as ``name_file`` in the schema too."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema.get("properties", {})
        for name, field in cls.model_fields.items():
            if not is_secret(field.annotation) or name not in properties:
                continue
            properties[f"{name}_file"] = {
                "type": "string",
                "description": f"Path of a file that holds {name}.",
            }
            is_required = name in schema.get("required", ())
            one, other = {"required": [name]}, {"required": [f"{name}_file"]}
            if is_required:
                schema["required"].remove(name)
            rule = {"oneOf": [one, other]} if is_required else {"not": {"allOf": [one, other]}}
            schema.setdefault("allOf", []).append(rule)
        return schema


def _shown(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(_shown(item) for item in value)
    return display_url(value) if isinstance(value, str) and "://" in value else value


def _read_files(
    values: Mapping[str, Any], names: Iterable[str], base: str | None
) -> dict[str, Any]:
    """Replace ``name_file: path`` of these names by ``name: text``."""
    read = dict(values)
    for name in names:
        if (key := f"{name}_file") in read:
            path = read.pop(key)
            both = _Unreadable(f"give either {name} or {key}, not both")
            read[name] = both if name in read else _read_secret(path, base)
    return read


Kinds = Mapping[str, tuple[type[Options], str | None]]
"""By name the options of kinds, and a line about each."""


class OneOf(Options):
    """Options of which exactly one field is given, ``http: {...}`` or ``file: {...}``, beside those of ``also``.

    Kinds that installed packages bring are fields of a class that is made when one is named: see `with_installed`.
    """

    also: ClassVar[frozenset[str]] = frozenset()  # fields that are no choices
    installed: ClassVar[Callable[[str | None], Kinds]] = lambda _: {}  # as `Registry.installed`

    @classmethod
    def choices(cls) -> tuple[str, ...]:
        """Fields of which one must be given."""
        return tuple(name for name in cls.model_fields if name not in cls.also)

    @property
    def kind(self) -> str:
        """The field that is given."""
        return next(name for name in self.choices() if getattr(self, name) is not None)

    @property
    def given(self) -> Any:  # noqa: ANN401 - options of any kind
        """Its value."""
        return getattr(self, self.kind)

    @classmethod
    def with_installed(cls, name: object = None) -> type[Self]:
        """The class with what a package brings of that name, or with all that can be used.

        PluginError where what is named cannot be used.
        """
        kinds = (
            {}
            if name in cls.model_fields or not isinstance(name, str | None)
            else cls.installed(name)
        )
        further = tuple(
            (kind, found) for kind, found in kinds.items() if kind not in cls.model_fields
        )
        return _add_kinds(cls, further) if further else cls

    @model_validator(mode="wrap")
    @classmethod
    def _take_installed(
        cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:  # noqa: ANN401
        for name in data if isinstance(data, Mapping) else ():
            if (found := cls.with_installed(name)) is not cls:
                return found.model_validate(data, context=info.context)
        return handler(data)

    def _problems(self) -> Iterator[str]:
        given = [name for name in self.choices() if getattr(self, name) is not None]
        if len(given) != 1:
            known = ", ".join(self.with_installed().choices())
            yield f"give exactly one of {known}" + (
                f"; found {' and '.join(given)}" if given else ""
            )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Say in the schema too that exactly one is given, of all that are installed."""
        schema, kinds = (
            super().__get_pydantic_json_schema__(core_schema, handler),
            cls.installed(None),
        )
        for name, (options, about) in kinds.items():
            schema["properties"][name] = {
                **handler(options.__pydantic_core_schema__),
                "description": about,
            }
        return {**schema, "oneOf": [{"required": [name]} for name in (*cls.choices(), *kinds)]}


def with_kinds(
    registry: Registry[_T], kinds_of: Callable[[Mapping[str, _T]], Kinds]
) -> Callable[[type[_OneOfT]], type[_OneOfT]]:
    """Give a class of options one optional field for each kind of a registry: its options, and a line about them."""

    def decorate(model: type[_OneOfT]) -> type[_OneOfT]:
        made = _add_kinds(model, tuple(kinds_of(registry).items()))
        made.installed = lambda name: kinds_of(registry.installed(name))
        return made

    return decorate


@cache
def _add_kinds(
    model: type[_OneOfT], kinds: tuple[tuple[str, tuple[type[Options], str | None]], ...]
) -> type[_OneOfT]:
    fields: dict[str, Any] = {
        kind: (options | None, Field(default=None, description=about))
        for kind, (options, about) in kinds
    }
    # Fields of later bases come first: kinds stand before what the class has of its own.
    bases: Any = (model, create_model(f"{model.__name__}Kinds", __base__=Options, **fields))
    made: type[_OneOfT] = create_model(
        model.__name__, __base__=bases, __module__=model.__module__, __doc__=model.__doc__
    )
    return made
