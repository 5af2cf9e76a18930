"""What a mean is made of, and why it fell: what a run keeps of it for later runs and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Part(StrEnum):
    """What a drop is made of."""

    MEMBERSHIP = "membership"
    ORDER = "order"
    LENGTH = "length"
    COMPOSITION = "composition"
    MISSING = "missing"


class Change(StrEnum):
    """What became of a user's list, worst first; `monitor.attribution.classify` has the rules."""

    REPLACED = "replaced"
    CUT_SHORT = "cut_short"
    LENGTHENED = "lengthened"
    MOSTLY_REPLACED = "mostly_replaced"
    PARTLY_REPLACED = "partly_replaced"
    REORDERED = "reordered"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMeans:
    """The parts of one segment's distance, averaged over its ``n`` users whose parts are known, of ``asked`` users.

    Means and ``spread`` (standard deviation of the whole distance over the users, n in the denominator) are NaN where n is 0.
    """

    segment: str
    asked: int
    n: int
    membership: float
    order: float
    length: float
    spread: float

    @property
    def whole(self) -> float:
        """Mean distance from identical lists."""
        return self.membership + self.order + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What a run keeps of one metric for later runs to be held against: means of the parts, shares of the kinds of change.

    ``means`` by segment, ``all`` first; ``kinds`` of those segments of which somebody was compared.
    """

    metric: str
    means: tuple[PartMeans, ...]
    kinds: Mapping[str, Mapping[Change, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A piece of a drop: one part, in one segment, in all others (``is_rest``), or everywhere (``segment`` None)."""

    part: Part
    amount: float
    segment: str | None = None
    is_rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFall:
    """What one segment adds to the drop, by part; ``share`` and ``share_before`` of the users that were scored.

    ``excess``: what it adds beyond its share of what all segments lost.
    """

    segment: str
    share: float
    share_before: float
    parts: Mapping[Part, float]
    excess: float

    @property
    def whole(self) -> float:
        """What it adds altogether."""
        return sum(self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareRise:
    """A share of one segment's users, now and before: without a score (``change`` None), or with lists changed in one way."""

    change: Change | None
    segment: str
    share: float
    share_before: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedItem:
    """An item's exposure from baseline to candidate, 1 on top of every list, and the share of lists that hold it."""

    item: str
    title: str | None
    before: float
    after: float
    share_before: float
    share_after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleLists:
    """Both lists of a user that stands for others."""

    user: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserGroup:
    """Users whose lists changed in the same way, of those that the explanation looks at, and the most central of them.

    ``distance``: what they add to the mean distance; ``share_before`` None where nothing earlier is known.
    """

    change: Change
    users: int
    share: float
    share_before: float | None
    distance: float
    examples: tuple[ExampleLists, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one metric's mean fell since the ``runs`` healthy runs before, in one sentence and all that stands behind it.

    With ``runs`` 0 there is nothing to compare with: it describes what sets the lists apart, and no drop (``before``,
    ``least``, ``most`` None, ``causes``, ``falls``, ``rises`` empty). ``now``, ``before``: mean distance from identical lists;
    their difference is the drop, the sum over ``causes``, and over the ``falls`` of each dimension, the leading one first.
    ``least``, ``most`` bound the drop of all users asked, whatever the missing ones' lists are; ``most`` is None where nothing
    bounds it. ``items`` and ``groups`` are those of ``segment``, which leads (``all``: none does, or its users are not there).
    """

    metric: str
    runs: int
    sentence: str
    segment: str
    now: float
    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int
    groups: tuple[UserGroup, ...]
    before: float | None = None
    least: float | None = None
    most: float | None = None
    causes: tuple[Cause, ...] = ()
    falls: tuple[SegmentFall, ...] = ()
    rises: tuple[ShareRise, ...] = ()
