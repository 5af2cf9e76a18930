"""Metric: the contract that every measure of two lists keeps, and the grammar of its name.

`monitor.kernels` computes it.
"""

import math
import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.kendall.element_weighted import DISCOUNTS
from monitor.model.arrays import Floats
from monitor.plugins import Guard, PluginError, Registry

STRICT = "none: tied items are taken in the order of their ids"
ON_COMMON_ITEMS = (
    "exact on the items in common, whatever the lengths; NaN where there are fewer than two"
)


_DECLARED = ("__doc__", "low", "high", "identical", "disjoint", "one_empty", "uneven", "source")
_SHAPE = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\d{1,9}))?\s*", re.ASCII)
_FEW = 8
_LONGEST = 200
_SHOWN = 40
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Need(StrEnum):
    """What a metric needs to know beside the lists.

    The word is the argument and the configuration key that gives it.
    """

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    RELEVANCE = "relevance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(ABC):
    """A named measure with its parameters; equal to another of the same name, parameters and depth.

    ``str(metric)`` is the canonical name: all parameters written out, then ``@depth``. Later
    duplicates never reach a metric. Every metric declares its ``kernel``, whose docstring has the
    formula and every corner, and whose name it goes by unless it declares a ``name``; ``low`` and
    ``high``, the range over all parameters and lists (infinite where it grows with the lists;
    `bounds` narrows it for lists of at most k); and its exact value on ``identical`` and
    ``disjoint`` lists of one length, on ``one_empty`` and ``both_empty``: NaN where undefined, None
    where it depends on the lists or parameters."""

    depth: int | None = None  # lists are cut to their first ``depth`` items before measuring

    name: ClassVar[str]
    kernel: ClassVar[Callable[..., Floats]]
    low: ClassVar[float]
    high: ClassVar[float]
    higher_is_more_alike: ClassVar[bool] = True
    is_symmetric: ClassVar[bool] = True
    identical: ClassVar[float | None]
    disjoint: ClassVar[float | None]
    one_empty: ClassVar[float | None]
    both_empty: ClassVar[float | None] = math.nan
    uneven: ClassVar[str]  # what lists of unequal length mean to it,
    ties: ClassVar[str] = STRICT  # and items of equal score
    need: ClassVar[Need | None] = None
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    source: ClassVar[str]
    guard: ClassVar[Guard | None] = None  # of one that an installed package brings

    def __init_subclass__(cls) -> None:
        """Name the metric as its kernel is named."""
        if "kernel" in vars(cls) and "name" not in vars(cls):
            cls.name = cls.kernel.__name__

    def __post_init__(self) -> None:
        """MetricError for a parameter out of range."""
        if self.depth is not None and self.depth < 1:
            raise MetricError(f"{self.name}@{self.depth}: the depth must be at least 1")
        for name, known in self.choices.items():
            if getattr(self, name) not in known:
                raise MetricError(
                    (
                        f"{self.name}({name}={getattr(self, name)}): {name} must be one of "
                        f"{', '.join(known)}"
                    )
                )

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the metric's own parameters: words where `choices` lists them, numbers otherwise."""
        return tuple(field.name for field in fields(cls) if field.name != "depth")

    def __str__(self) -> str:
        values = ", ".join(f"{name}={_shown(getattr(self, name))}" for name in self.parameters())
        return (
            self.name
            + (f"({values})" if values else "")
            + ("" if self.depth is None else f"@{self.depth}")
        )

    def bounds(self, k: int) -> tuple[float, float]:  # noqa: ARG002 - for measures that depend on it
        """Lowest and highest possible score of lists of at most k items (at most ``depth``, where there is one)."""
        return self.low, self.high

    def measure(self, alignment: Alignment) -> Floats:
        """Scores of the aligned pairs, which have been cut to ``depth`` already: float64 (n,)."""
        return type(self).kernel(alignment, *(getattr(self, name) for name in self.parameters()))

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - for measures of which it is known
        """Mean score of two lists of k items drawn at random from a catalogue.

        None where it is not known.
        """
        return None


class Similarity(Metric, ABC):
    """From 0 to 1: 1 for identical lists, 0 for disjoint ones and where one is empty, unless a measure declares otherwise."""

    low = 0.0
    high = 1.0
    identical: ClassVar[float | None] = 1.0
    disjoint: ClassVar[float | None] = 0.0
    one_empty = 0.0


class Correlation(Metric, ABC):
    """From -1 to 1: 1 for identical lists."""

    low = -1.0
    high = 1.0
    identical = 1.0


class OrderCorrelation(Correlation, ABC):
    """A correlation of the order of the items in common, and of nothing else."""

    disjoint = math.nan
    one_empty = math.nan
    uneven = ON_COMMON_ITEMS

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - the base's signature
        """0: the order of the items in common is random. None where there cannot be two."""
        return 0.0 if k > 1 else None


class Distance(Metric, ABC):
    """From 0, for identical lists, to no end unless a measure is normalized."""

    low = 0.0
    high = math.inf
    higher_is_more_alike = False
    identical = 0.0


class OrderDistance(Distance, ABC):
    """A distance between the orders of the items in common, and of nothing else."""

    disjoint = math.nan
    one_empty = math.nan
    uneven = ON_COMMON_ITEMS


class WeightedOrderDistance(OrderDistance, ABC):
    """One in which items have weights."""

    need = Need.ITEM_WEIGHTS
    source = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionWeighted(OrderDistance, ABC):
    """One in which ranks have weights, and where a measure needs them items, too."""

    # A rank's worth, 1 / log2(rank + 1) or 1 / rank for ``hyperbolic``; a move costs the difference
    discount: str = "dcg"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"discount": tuple(DISCOUNTS)}
    source = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"


def _shown(value: float | str) -> str:
    # Numbers as floats, so that p=1 and p=1.0 are one name.
    return value if isinstance(value, str) else repr(float(value))


def read_kind(found: Any, name: str, who: str) -> type[Metric]:  # noqa: ANN401 - whatever an entry point holds
    """The metric of an installed package, kept from doing harm. PluginError for what is none."""
    is_metric = (
        isinstance(found, type)
        and issubclass(found, Metric)
        and getattr(found, "name", None) == name
    )
    if (
        not is_metric
        or any(getattr(found, each, "") == "" for each in _DECLARED)
        or not found.low < found.high
    ):
        raise PluginError(
            (
                f"must be a Metric that is named {name}, has a docstring, and declares "
                f"{', '.join(_DECLARED[1:])}"
            )
        )
    # Its range is all that is asked: what else it could say is nothing that a run can go on
    # without.
    found.bounds, found.expected_by_chance = Metric.bounds, Metric.expected_by_chance
    found.guard = Guard(who, MetricError)
    kind: type[Metric] = found
    return kind


def read_name(text: object, registry: Registry[type[Metric]]) -> Metric:
    """The metric of that name; MetricError with the nearest known name or parameter otherwise."""
    if isinstance(text, str) and len(text) > _LONGEST:
        raise MetricError(
            (
                f"cannot read metric {text[:_SHOWN]!r}...: it has {len(text):,} characters, and no "
                f"metric needs {_LONGEST}"
            )
        )
    match = _SHAPE.fullmatch(text) if isinstance(text, str) else None
    if match is None or not isinstance(text, str):
        raise MetricError(
            (
                f"cannot read metric {text!r}: write a name, with parameters and depth if wanted, "
                "such as rbo(p=0.9)@10"
            )
        )
    name, arguments, depth = match.groups()
    kind = registry.get(name) or registry.installed(name).get(name)
    if kind is None:
        raise MetricError(
            f"unknown metric {name!r}{_suggest(name, [*registry, *registry.installed()])}"
        )
    values = _read_arguments(text, kind, arguments or "")
    return kind(depth=None if depth is None else int(depth), **values)


def _read_arguments(text: str, kind: type[Metric], arguments: str) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for argument in arguments.split(",") if arguments.strip() else ():
        name, equals, number = (part.strip() for part in argument.partition("="))
        if not equals:
            raise MetricError(
                (
                    f"cannot read {name!r} in metric {text!r}: write parameters as "
                    f"name=value{_example(kind)}"
                )
            )
        if name not in kind.parameters():
            raise MetricError(
                f"metric {kind.name} has no parameter {name!r}{_suggest(name, kind.parameters())}"
            )
        if name in values:
            raise MetricError(f"parameter {name!r} stands twice in metric {text!r}")
        values[name] = _read_value(text, kind, name, number)
    return values


def _read_value(text: str, kind: type[Metric], name: str, value: str) -> float | str:
    words = kind.choices.get(name)
    if words is None:
        if not _NUMBER.fullmatch(value):
            raise MetricError(
                f"parameter {name!r} of metric {text!r} must be a number, not {value!r}"
            )
        return float(value)
    if value not in words:
        raise MetricError(
            (
                f"parameter {name!r} of metric {text!r} must be one of {', '.join(words)}, not "
                f"{value!r}"
            )
        )
    return value


def _suggest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    if not names:
        return "; it takes none"
    near = get_close_matches(name.lower(), names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    return (
        f"; known: {', '.join(names)}" if len(names) <= _FEW else "; `rankwatch metrics` lists all"
    )


def _example(kind: type[Metric]) -> str:
    return f", such as {kind()}" if kind.parameters() else f"; {kind.name} takes none"
