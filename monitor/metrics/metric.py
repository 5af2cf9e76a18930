"""Metric: the contract that every measure of two lists keeps. What computes it lives in `monitor.kernels`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.alignment import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(ABC):
    """A named measure with its parameters; equal to another of the same name, parameters and depth.

    ``depth``: lists are cut to their first ``depth`` items before measuring; None for as long as they are. ``str(metric)`` is
    the canonical name: all parameters written out, then ``@depth``. A score is in ``low`` to ``high``, or NaN where undefined.
    """

    depth: int | None = None

    name: ClassVar[str]
    low: ClassVar[float]
    high: ClassVar[float]
    higher_is_more_alike: ClassVar[bool] = True
    identical: ClassVar[float]
    disjoint: ClassVar[float]
    one_empty: ClassVar[float]
    both_empty: ClassVar[float] = math.nan
    source: ClassVar[str]

    def __post_init__(self) -> None:
        """MetricError for a parameter out of range."""
        if self.depth is not None and self.depth < 1:
            msg = f"{self.name}@{self.depth}: the depth must be at least 1"
            raise MetricError(msg)

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the metric's own parameters, all of them numbers."""
        return tuple(field.name for field in fields(cls) if field.name != "depth")

    def __str__(self) -> str:
        values = ", ".join(f"{name}={float(getattr(self, name))!r}" for name in self.parameters())
        return self.name + (f"({values})" if values else "") + ("" if self.depth is None else f"@{self.depth}")

    @abstractmethod
    def measure(self, alignment: Alignment) -> Floats:
        """Scores of the aligned pairs, which have been cut to ``depth`` already: float64 (n,)."""
