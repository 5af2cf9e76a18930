"""The grammar of metric names: ``name``, ``name(parameter=number, …)``, ``name(…)@depth``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import NoReturn

from monitor.errors import MetricError
from monitor.metrics.metric import Metric

_SHAPE = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\d{1,9}))?\s*", re.ASCII)
_FEW = 8
_LONGEST = 200
_SHOWN = 40
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def read_name(text: object, registry: Mapping[str, type[Metric]]) -> Metric:
    """The metric of that name; MetricError with the nearest known name or parameter otherwise."""
    if isinstance(text, str) and len(text) > _LONGEST:
        _fail(f"cannot read metric {text[:_SHOWN]!r}...: it has {len(text):,} characters, and no metric needs {_LONGEST}")
    match = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        _fail(f"cannot read metric {text!r}: write a name, with parameters and depth if wanted, such as rbo(p=0.9)@10")
    name, arguments, depth = match.groups()
    kind = registry.get(name)
    if kind is None:
        _fail(f"unknown metric {name!r}{_suggest(name, registry)}")
    values = _read_arguments(text, kind, arguments or "")
    return kind(depth=None if depth is None else int(depth), **values)


def _read_arguments(text: str, kind: type[Metric], arguments: str) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for argument in arguments.split(",") if arguments.strip() else ():
        name, equals, number = (part.strip() for part in argument.partition("="))
        if not equals:
            _fail(f"cannot read {name!r} in metric {text!r}: write parameters as name=value{_example(kind)}")
        if name not in kind.parameters():
            _fail(f"metric {kind.name} has no parameter {name!r}{_suggest(name, kind.parameters())}")
        if name in values:
            _fail(f"parameter {name!r} stands twice in metric {text!r}")
        values[name] = _read_value(text, kind, name, number)
    return values


def _read_value(text: str, kind: type[Metric], name: str, value: str) -> float | str:
    words = kind.choices.get(name)
    if words is None:
        if not _NUMBER.fullmatch(value):
            _fail(f"parameter {name!r} of metric {text!r} must be a number, not {value!r}")
        return float(value)
    if value not in words:
        _fail(f"parameter {name!r} of metric {text!r} must be one of {', '.join(words)}, not {value!r}")
    return value


def _suggest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if not names:
        return "; it takes none"
    near = get_close_matches(name.lower(), names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(names)}" if len(names) <= _FEW else "; `rankwatch metrics` lists all"


def _example(kind: type[Metric]) -> str:
    return f", such as {kind()}" if kind.parameters() else f"; {kind.name} takes none"


def _fail(message: str) -> NoReturn:
    raise MetricError(message)
