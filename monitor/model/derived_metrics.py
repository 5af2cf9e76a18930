"""The noise floor, and the names of the series that it adds beside those of a metric."""

from __future__ import annotations

import re
from enum import StrEnum

_DERIVED = re.compile(r"(floor|over_floor)\((.+)\)", re.DOTALL)


class NoiseFloor(StrEnum):
    """What the baseline is held against to see how similar it is to itself.

    ``serve``: asked twice at the same moment; ``temporal``: its lists of the last run; ``retrain``: a second training of the
    same model, which is a source of its own.
    """

    SERVE = "serve"
    TEMPORAL = "temporal"
    RETRAIN = "retrain"


class DerivedMetric(StrEnum):
    """Series of a metric M beside its scores of baseline and candidate.

    ``floor``: the scores of the baseline and itself, over those compared users for whom it has a second list. ``over_floor``:
    of the same users, how much farther the candidate is from the baseline than the baseline from itself: floor less score
    where more is more alike, else score less floor; above 0 is drift beyond noise.
    """

    FLOOR = "floor"
    OVER_FLOOR = "over_floor"

    def of(self, metric: str) -> str:
        """Name of this series of a metric: ``floor(tau_ext@10)``."""
        return f"{self}({metric})"


def parse_derived(name: str) -> tuple[DerivedMetric | None, str]:
    """What a series is and the metric it is about: ``over_floor(rbo(p=0.9)@10)`` is (over_floor, ``rbo(p=0.9)@10``)."""
    if match := _DERIVED.fullmatch(name):
        return DerivedMetric(match[1]), match[2]
    return None, name
