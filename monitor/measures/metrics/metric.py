"""The interface of all metrics of two lists, and the grammar of their names.

`monitor.measures.kernels` computes the scores.
"""

import math
import re
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, ClassVar

from monitor.boundary.plugins import Guard, PluginError, Registry
from monitor.measures.kernels import Alignment
from monitor.measures.kernels.kendall.element_weighted import DISCOUNTS
from monitor.model.arrays import Floats
from monitor.model.errors import MetricError
from monitor.model.immutable import immutable

STRICT = "ignored: tied items are ordered by their ids"
ON_COMMON_ITEMS = "only the common items are compared; NaN with fewer than two common items"


_DECLARED = ("__doc__", "low", "high", "identical", "disjoint", "one_empty", "uneven", "source")
_SHAPE = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*(?:@\s*(\d{1,9}))?\s*", re.ASCII)
_MOST_SUGGESTED_NAMES = 8
_LONGEST_NAME_CHARS = 200
_QUOTED_CHARS = 40
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


class Need(StrEnum):
    """The data that a metric needs in addition to the lists.

    The value is the name of the argument and of the configuration key.
    """

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    RELEVANCE = "relevance"


@immutable
class Metric(ABC):
    """A metric with a name, parameters and a depth.

    Two metrics are equal if their names, parameters and depths are equal. ``str(metric)`` is the
    canonical name. It consists of the name, all parameters, and ``@depth``. A metric is only
    computed for lists without duplicates. Every metric declares:

    - ``kernel``: the function that computes the scores. Its docstring has the formula and all
      special cases. The metric has the kernel's name unless it declares a ``name``.
    - ``low`` and ``high``: the range of the scores, over all parameters and lists. The range is
      infinite if it grows with the length of the lists. `bounds` is the range for lists of at most
      k items.
    - ``identical``, ``disjoint``, ``one_empty`` and ``both_empty``: the exact scores of such lists.
      ``identical`` and ``disjoint`` are for two lists of the same length. A score is NaN if it is
      undefined. It is None if it depends on the lists or parameters.
    """

    depth: int | None = None  # lists are cut to this number of items

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
    uneven: ClassVar[str]  # how the metric treats lists of unequal length
    ties: ClassVar[str] = STRICT  # how the metric treats items with equal scores
    need: ClassVar[Need | None] = None
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    source: ClassVar[str]
    guard: ClassVar[Guard | None] = None  # only for a metric of an installed package

    def __init_subclass__(cls) -> None:
        """Give the metric the name of its kernel."""
        if "kernel" in vars(cls) and "name" not in vars(cls):
            cls.name = cls.kernel.__name__

    def __post_init__(self) -> None:
        """Raise MetricError if a parameter or the depth is out of range."""
        if self.depth is not None and self.depth < 1:
            raise MetricError(f"{self.name}@{self.depth}: the depth must be at least 1")
        for name, words in self.choices.items():
            if getattr(self, name) not in words:
                raise MetricError(
                    f"{self.name}({name}={getattr(self, name)}): {name} must be one of "
                    f"{', '.join(words)}"
                )

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """The names of the metric's parameters.

        The value of a parameter is a number, or one of the words that `choices` lists for it.
        """
        return tuple(field.name for field in fields(cls) if field.name != "depth")

    def __str__(self) -> str:
        name = self.name
        values = [f"{field}={_write_value(getattr(self, field))}" for field in self.parameters()]
        if values:
            name += f"({', '.join(values)})"
        if self.depth is not None:
            name += f"@{self.depth}"
        return name

    def bounds(self, k: int) -> tuple[float, float]:  # noqa: ARG002 - metrics override it
        """The lowest and highest possible score for lists of at most min(k, ``depth``) items."""
        return self.low, self.high

    def measure(self, alignment: Alignment) -> Floats:
        """The scores of aligned pairs: float64 (n,). The lists must be cut to ``depth`` already."""
        return type(self).kernel(alignment, *(getattr(self, name) for name in self.parameters()))

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - default
        """The mean score of two random lists of k items from a catalogue. None if it is unknown."""
        return None


class Similarity(Metric, ABC):
    """A metric from 0 to 1. Identical lists score 1. Disjoint lists score 0.

    If one of the lists is empty, the score is 0 too. A subclass may declare other values.
    """

    low = 0.0
    high = 1.0
    identical: ClassVar[float | None] = 1.0
    disjoint: ClassVar[float | None] = 0.0
    one_empty = 0.0


class Correlation(Metric, ABC):
    """A metric from -1 to 1 that is 1 for identical lists."""

    low = -1.0
    high = 1.0
    identical = 1.0


class OrderCorrelation(Correlation, ABC):
    """A correlation that compares only the order of the common items."""

    disjoint = math.nan
    one_empty = math.nan
    uneven = ON_COMMON_ITEMS

    def expected_by_chance(self, k: int, catalogue: int) -> float | None:  # noqa: ARG002 - as base
        """0, because the order is random. None if two common items are impossible."""
        return 0.0 if k > 1 else None


class Distance(Metric, ABC):
    """A metric that is 0 for identical lists. It has no upper limit unless it is normalized."""

    low = 0.0
    high = math.inf
    higher_is_more_alike = False
    identical = 0.0


class OrderDistance(Distance, ABC):
    """A distance that compares only the order of the common items."""

    disjoint = math.nan
    one_empty = math.nan
    uneven = ON_COMMON_ITEMS


class WeightedOrderDistance(OrderDistance, ABC):
    """A distance in which items have weights."""

    need = Need.ITEM_WEIGHTS
    source = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"


@immutable
class PositionWeighted(OrderDistance, ABC):
    """A distance in which ranks have weights. In some of these metrics, items have weights too."""

    # The value of a rank is 1 / log2(rank + 1), or 1 / rank for ``hyperbolic``. A move between two
    # ranks costs the difference of their values.
    discount: str = "dcg"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"discount": tuple(DISCOUNTS)}
    source = "Kumar and Vassilvitskii, Generalized distances between rankings (2010)"


def _write_value(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return repr(float(value))  # so that p=1 and p=1.0 have one name


def read_metric_kind(kind: Any, name: str, who: str) -> type[Metric]:  # noqa: ANN401 - of an entry point
    """Check the metric of an installed package, and guard its calls.

    Raises PluginError if it is not a valid metric.
    """
    is_metric = (
        isinstance(kind, type)
        and issubclass(kind, Metric)
        and getattr(kind, "name", None) == name
        and all(getattr(kind, attribute, "") != "" for attribute in _DECLARED)
        and kind.low < kind.high
    )
    if not is_metric:
        raise PluginError(
            f"must be a Metric that is named {name}, has a docstring, and declares "
            f"{', '.join(_DECLARED[1:])}"
        )
    # rankwatch does not call these methods of a plugin. A run needs only ``low`` and ``high`` of
    # the metric.
    kind.bounds = Metric.bounds
    kind.expected_by_chance = Metric.expected_by_chance
    kind.guard = Guard(who, MetricError)
    metric: type[Metric] = kind
    return metric


def read_name(text: object, registry: Registry[type[Metric]]) -> Metric:
    """The metric that ``text`` names.

    Raises MetricError if there is none. The message of the error suggests a similar name or
    parameter.
    """
    name_text = text if isinstance(text, str) else ""
    if len(name_text) > _LONGEST_NAME_CHARS:
        raise MetricError(
            f"cannot read metric {name_text[:_QUOTED_CHARS]!r}...: it has {len(name_text):,} characters; write at "
            f"most {_LONGEST_NAME_CHARS}"
        )
    match = _SHAPE.fullmatch(name_text)
    if match is None:
        raise MetricError(
            f"cannot read metric {text!r}: write a name, with parameters and depth if wanted, "
            "such as rbo(p=0.9)@10"
        )
    name, arguments, depth = match.groups()
    kind = registry.get(name) or registry.installed(name).get(name)
    if kind is None:
        suggestion = _suggest(name, [*registry, *registry.installed()])
        raise MetricError(f"unknown metric {name!r}{suggestion}")
    values: dict[str, Any] = _read_arguments(name_text, kind, arguments or "")
    if depth is not None:
        values["depth"] = int(depth)
    return kind(**values)


def _read_arguments(text: str, kind: type[Metric], arguments: str) -> dict[str, float | str]:
    """The values of parameters. For ``rbo(p=0.9)@20``, the ``arguments`` are ``p=0.9``."""
    values: dict[str, float | str] = {}
    if not arguments.strip():
        return values
    for argument in arguments.split(","):
        name, equals, value = (part.strip() for part in argument.partition("="))
        if not equals:
            raise MetricError(
                f"cannot read {name!r} in metric {text!r}: write parameters as "
                f"name=value{_example(kind)}"
            )
        if name not in kind.parameters():
            raise MetricError(
                f"metric {kind.name} has no parameter {name!r}{_suggest(name, kind.parameters())}"
            )
        if name in values:
            raise MetricError(f"metric {text!r} has parameter {name!r} twice: write it once")
        values[name] = _read_value(text, kind, name, value)
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
            f"parameter {name!r} of metric {text!r} must be one of {', '.join(words)}, not "
            f"{value!r}"
        )
    return value


def _suggest(name: str, candidates: Iterable[str]) -> str:
    """The end of an error about an unknown name: which of the candidates may be meant."""
    names = sorted(candidates)
    if not names:
        return "; the metric has no parameters"
    near = get_close_matches(name.lower(), names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if len(names) <= _MOST_SUGGESTED_NAMES:
        return f"; write one of {', '.join(names)}"
    return "; `rankwatch metrics` lists all names"


def _example(kind: type[Metric]) -> str:
    if kind.parameters():
        return f", such as {kind()}"
    return f"; {kind.name} has no parameters"
