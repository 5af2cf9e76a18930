"""ArmMetric: the contract that every measure of one arm's lists as a whole keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum
from typing import ClassVar

from monitor.arm_metrics.listing import Listing
from monitor.model import Arm


class ArmNeed(StrEnum):
    """What a metric needs to know beside the lists; the word is the configuration key that gives it."""

    SCORES = "scores"
    ITEM_WEIGHTS = "item_weights"
    KEEP_LISTS = "keep_lists"


class ArmMetric(ABC):
    """A named measure of what one arm lists to all users of a segment. Without parameters; ``str`` is its name.

    ``low`` and ``high`` are its range, infinite where it grows with what is listed. It says how an arm is, not whether that is
    good: ``meaning`` tells what a high value is. ``arms``: those that it is told of.
    """

    name: ClassVar[str]
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    meaning: ClassVar[str]
    need: ClassVar[ArmNeed | None] = None
    arms: ClassVar[tuple[Arm, ...]] = tuple(Arm)
    source: ClassVar[str]

    def __str__(self) -> str:
        return self.name

    def lists(self, listing: Listing) -> int:
        """Number of lists that the value speaks of."""
        return listing.n

    @abstractmethod
    def measure(self, listing: Listing) -> float | None:
        """The value; None where it is undefined or what it needs is not known. The listing holds at least one item."""
