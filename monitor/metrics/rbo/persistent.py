"""What the measures of rank-biased overlap share: the persistence p, and the ways to say it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from monitor.errors import MetricError
from monitor.kernels import Alignment
from monitor.kernels.finding.positions import rank_dtype
from monitor.kernels.rbo.weight import rbo_persistence
from monitor.metrics.metric import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent(Metric, ABC):
    """A measure that weighs depth d with (1-p) p^(d-1).

    ``p``: chance that a reader who looked at one rank looks at the next; at 0.9 the first ten ranks carry 86 % of the weight.
    It may be said as ``top`` and ``share`` instead: the p at which that share of the weight lies in the top ranks.
    """

    p: float = 0.9

    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """MetricError unless 0 < p < 1."""
        Metric.__post_init__(self)
        if not 0 < self.p < 1:
            msg = f"{self.name}(p={self.p!r}): p must lie between 0 and 1, both excluded, such as {self.name}(p=0.9)"
            raise MetricError(msg)

    @classmethod
    def accepted(cls) -> tuple[str, ...]:
        """``p``, or ``top`` and ``share`` together."""
        return (*cls.parameters(), "top", "share")

    @classmethod
    def build(cls, depth: int | None, values: Mapping[str, float | str]) -> Self:
        """The metric with this p, or with the p at which the ``top`` ranks carry this ``share`` of the weight."""
        numbers = {name: float(value) for name, value in values.items()}
        if "top" not in numbers and "share" not in numbers:
            return cls(depth=depth, **numbers)
        written = f"{cls.name}({', '.join(f'{name}={value:g}' for name, value in numbers.items())})"
        if numbers.keys() != {"top", "share"}:
            msg = f"{written}: write either p, or top and share together, such as {cls.name}(top=10, share=0.86)"
            raise MetricError(msg)
        return cls(depth=depth, p=_persistence(written, numbers["top"], numbers["share"]))


def _persistence(written: str, top: float, share: float) -> float:
    try:
        return rbo_persistence(top, share)
    except MetricError as error:
        msg = f"{written}: {error}"
        raise MetricError(msg) from None


def align_full(k: int, *, is_same: bool) -> Alignment:
    """One pair of lists of k items, identical or disjoint: where the bounds of these measures are attained."""
    places = np.arange(k) if is_same else np.full(k, k)
    length = np.array([k], dtype=np.int32)
    return Alignment(places.astype(rank_dtype(k))[:, None], length, length)
