"""The references of all settings and of profiles, made from the options and profiles.

`make generated` writes them.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from monitor.boundary.options import field_docs, format_duration
from monitor.boundary.options.secret_files import is_secret
from monitor.settings.configuration import Settings
from monitor.settings.rule_options import KINDS as RULE_KINDS, RuleOptions
from monitor.settings.value_types import ParsedBy
from monitor.sources.http.profiles import PROFILE_FOLDER

_NAMES: dict[object, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "`true` or `false`",
    timedelta: "a duration",
    datetime: "a date or a time",
    SecretStr: "a secret text",
    Any: "any value",
}


def settings_reference() -> str:
    """One table for each group of settings: key, type, default, meaning.

    Starts with a heading, has no title of its own.

    Keys that several groups inherit stand in a table of their own, to which these groups link.
    """
    groups: dict[type[BaseModel], list[str]] = {}
    _collect(Settings, "", groups)
    users = Counter(
        home
        for model in groups
        for home in dict.fromkeys(_home(model, name) for name in _fields_of(model))
    )
    shared = [
        home
        for home, count in users.items()
        if count > 1 and home not in groups and len(home.model_fields) > 1
    ]
    titles = {
        model: ", ".join(f"`{path}`" if path else "Top level" for path in paths)
        for model, paths in groups.items()
    }
    titles |= {home: f"Keys of {_words(home)}" for home in shared}
    return "\n\n".join(_section(model, titles) for model in titles) + "\n"


def profiles_reference() -> str:
    """A section for each profile of sources over HTTP: what it is for, where its API is described, its variables."""
    parts = []
    for path in sorted(PROFILE_FOLDER.glob("*.yaml")):
        profile = yaml.safe_load(path.read_text(encoding="utf-8"))
        rows = [
            (
                f"| `{name}` | "
                f"{'**required**' if 'default' not in told else _cell(told['default'])} | "
                f"{told['about']} |"
            )
            for name, told in profile.get("with", {}).items()
        ]
        parts.append(
            f"## {path.stem}\n\n{profile['about']} [Documentation]({profile['documentation']})."
        )
        parts.extend(
            ["\n".join(["| in `with` | default | meaning |", "|---|---|---|", *rows])]
            if rows
            else []
        )
    return "\n\n".join(parts) + "\n"


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in an annotation, including those in lists, mappings and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models_in(part)


def _cell(default: object) -> str:
    return "" if default is None else f"`{_literal(default)}`"


def _collect(model: type[BaseModel], path: str, groups: dict[type[BaseModel], list[str]]) -> None:
    """Add the group at this path and those within it.

    What stands within a group that is known already is known, too.
    """
    groups.setdefault(model, []).append(path)
    if len(groups[model]) > 1:
        return
    for name, field in _fields_of(model).items():
        many = "[]" if _is_list(field.annotation) else ""
        for inner in models_in(field.annotation):
            _collect(inner, f"{path}.{field.alias or name}{many}".lstrip("."), groups)


def _fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of the options. All kinds of rules have one table."""
    if model is not RuleOptions:
        return model.model_fields
    # First the name, then the keys of each kind, and then the keys of all kinds.
    fields = {"alert": model.model_fields["alert"]}
    kinds = RULE_KINDS[::-1]
    bases = dict.fromkeys((*kinds, *(base for kind in kinds for base in kind.__mro__)))
    for base in sorted(bases, key=lambda base: issubclass(RuleOptions, base)):
        for name in inspect.get_annotations(base):
            for kind in RULE_KINDS:
                if name in kind.model_fields:
                    fields.setdefault(name, kind.model_fields[name])
    return fields


def _home(model: type[BaseModel], name: str) -> type[BaseModel]:
    homes = (base for base in model.__mro__ if name in inspect.get_annotations(base))
    return next(homes, model)


def _words(model: type[BaseModel]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__.removesuffix("Options")).lower()


def _section(model: type[BaseModel], titles: Mapping[type[BaseModel], str]) -> str:
    fields = _fields_of(model)
    homes = {name: _home(model, name) for name in fields}
    linked = dict.fromkeys(home for home in homes.values() if home is not model and home in titles)
    also = ", ".join(f"[{titles[home]}](#{_anchor(titles[home])})" for home in linked)
    parts = [
        f"### {titles[model]}",
        _about(model) + (f" You can also use the keys in these tables: {also}." if also else ""),
    ]
    docs = dict[str, str]()
    for kind in RULE_KINDS if model is RuleOptions else (model,):
        docs |= field_docs(kind)
    if rows := [
        _row(field.alias or name, field, docs.get(name) or field.description)
        for name, field in fields.items()
        if homes[name] not in linked
    ]:
        parts.append("\n".join(["| key | type | default | meaning |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _anchor(title: str) -> str:
    """The fragment that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def _row(key: str, field: FieldInfo, description: str | None) -> str:
    shown = f"`{key}`" + (f", `{key}_file`" if is_secret(field.annotation) else "")
    cells = (
        shown,
        _type(field.annotation),
        _default(field),
        description or " ".join(map(_about, models_in(field.annotation))),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _about(model: type[BaseModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _default(field: FieldInfo) -> str:
    if field.is_required():
        is_one_of_several = any(field is kind.model_fields[kind.key] for kind in RULE_KINDS)
        return "" if is_one_of_several else "**required**"
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
    return str(value) if hasattr(value, "parse") or isinstance(value, str) else json.dumps(value)


def _type(annotation: object) -> str:
    """Return the forms that a value may have, as in ``a, b or c``, each once."""
    *others, last = dict.fromkeys(_forms(annotation))
    return f"{', '.join(others)} or {last}" if others else last


def _forms(annotation: object) -> list[str]:  # noqa: PLR0911 - one line a kind of annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        is_parsed = any(isinstance(part, ParsedBy) for part in arguments)
        return ["a text"] if is_parsed else _forms(arguments[0])
    if annotation in _NAMES:
        return [_NAMES[annotation]]
    if hasattr(annotation, "parse"):  # `ParsedBy` is in the metadata of the field
        return ["a text"]
    if origin is Literal:
        return [f"`{_literal(choice)}`" for choice in arguments]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [f"`{choice.value}`" for choice in annotation]
    if _is_list(annotation):
        if len(set(_forms(arguments[0]))) > 1:
            return [f"a list; each entry is {_type(arguments[0])}"]
        return [f"a list of {_plural(arguments[0])}"]
    if len(arguments) > 1 and isinstance(origin, type) and origin.__name__ in {"dict", "Mapping"}:
        return [f"a mapping from names to {_plural(arguments[1])}"]
    if arguments:
        parts = [part for part in arguments if part is not NoneType]
        return [form for part in parts for form in _forms(part)]
    return ["a mapping"]


def _plural(annotation: object) -> str:
    return f"{_type(annotation).removeprefix('a ')}s"


def _is_list(annotation: object) -> bool:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_list(get_args(annotation)[0])
    return origin in {tuple, list} or bool(re.search(r"Sequence$", getattr(origin, "__name__", "")))
