"""Names of what the noise floor adds to a metric: series of their own beside that of the metric itself."""

from __future__ import annotations

import re
from enum import StrEnum

_DERIVED = re.compile(r"(floor|over_floor)\((.+)\)", re.DOTALL)


class Derived(StrEnum):
    """What is told of a metric M beside its scores of baseline and candidate.

    ``floor``: the scores of the baseline and itself (asked twice, its last run, or a second training), over the users that
    have both. ``over_floor``: per user who has all three lists, how much farther the candidate is from the baseline than the
    baseline from itself: floor less score where more is more alike, else score less floor; above 0 is drift beyond noise.
    """

    FLOOR = "floor"
    OVER_FLOOR = "over_floor"

    def of(self, metric: str) -> str:
        """Name of this series of a metric: ``floor(tau_ext@10)``."""
        return f"{self}({metric})"


def parse_derived(name: str) -> tuple[Derived | None, str]:
    """What a series is and the metric it is about: ``over_floor(rbo(p=0.9)@10)`` is (over_floor, ``rbo(p=0.9)@10``)."""
    if match := _DERIVED.fullmatch(name):
        return Derived(match[1]), match[2]
    return None, name
