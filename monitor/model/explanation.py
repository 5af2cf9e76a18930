"""What a mean is made of, and why it fell: what a run keeps of it for later runs and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from monitor.model.rankings import Arm


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


class FaultKind(StrEnum):
    """What happened to lists, the most specific kinds first; `monitor.attribution.find_fault` has the tests."""

    MISSING = "missing"  # users get no list
    SHARED_LIST = "shared_list"  # many users get one list, or a few
    CUT_SHORT = "cut_short"
    STALE = "stale"  # lists stayed as they were in the last run while others changed
    ITEMS_GONE = "items_gone"  # nobody is shown them any more
    MIXED_UP = "mixed_up"  # users get other users' lists
    NOISE = "noise"  # lists that fit nobody
    REPLACED = "replaced"  # other items, more of them than the arm is used to change
    REORDERED = "reordered"  # the same items in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What happened, to whose lists and in which arms: the hypothesis that explains most of the drop.

    ``users`` of the ``compared`` have it, or of those asked where they are missing; estimated where healthy users look alike.
    ``segment``: where most of them are, ``all`` where they are everywhere; ``segment_share``: how many of its users have it.
    ``explained``: share of the drop that would not be there, had their lists changed like others'; None without a drop.
    ``detail``: figures of the kind, such as the items that are gone.
    """

    kind: FaultKind
    arms: tuple[Arm, ...]
    segment: str
    segment_share: float
    users: int
    compared: int
    explained: float | None = None
    detail: Mapping[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Of the users that were compared, 0 to 1."""
        return self.users / max(1, self.compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMeans:
    """The parts of one segment's distance, averaged over its ``n`` users whose parts are known; NaN where n is 0."""

    segment: str
    asked: int
    n: int
    membership: float
    order: float
    length: float
    spread: float  # standard deviation of the whole distance over the users, n in the denominator

    @property
    def whole(self) -> float:
        """Mean distance from identical lists."""
        return self.membership + self.order + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What a run keeps of one metric for later runs to be held against: means of the parts, shares of the kinds of change."""

    metric: str
    means: tuple[PartMeans, ...]  # by segment, `all` first
    kinds: Mapping[str, Mapping[Change, float]]  # of those segments of which somebody was compared
    # How much each arm's lists changed since the run before: shares of users by bin, by arm and habit.
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A piece of a drop: one part, in one segment, in all others (``is_rest``), or everywhere (``segment`` None)."""

    part: Part
    amount: float
    segment: str | None = None
    is_rest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFall:
    """What one segment adds to the drop, by part; ``share`` and ``share_before`` of the users that were scored."""

    segment: str
    share: float
    share_before: float
    parts: Mapping[Part, float]
    excess: float  # what it adds beyond its share of what all segments lost

    @property
    def whole(self) -> float:
        """What it adds altogether."""
        return sum(self.parts.values())


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
    """Users whose lists changed in the same way, of those that the explanation looks at, and the most central of them."""

    change: Change
    users: int
    share: float
    share_before: float | None  # None where nothing earlier is known
    distance: float  # what they add to the mean distance
    examples: tuple[ExampleLists, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why one metric's mean fell since the ``runs`` healthy runs before, in one sentence and all that stands behind it.

    The drop is the difference between ``now`` and ``before``, mean distances from identical lists. ``least`` and ``most`` bound
    that of all users asked, whatever the missing ones' lists are. Items and groups are those of ``segment``.

    With ``paired`` users the drop is that of their lists since their own lists of an earlier run, beside what users add who are
    new to the comparison, and items are those that ``arm`` showed then and shows now; without, of baseline and candidate.
    """

    metric: str
    runs: int  # 0: there is nothing to compare with, and what sets the lists apart is described, without any field of a drop
    sentence: str
    segment: str  # the one that leads; `all` where none does, or its users are not there
    now: float
    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int
    groups: tuple[UserGroup, ...]
    before: float | None = None
    least: float | None = None
    most: float | None = None  # None where nothing bounds it
    causes: tuple[Cause, ...] = ()  # they add up to the drop
    falls: tuple[SegmentFall, ...] = ()  # and so do these in each dimension, the leading one first
    finding: Finding | None = None  # None where no kind of fault stands out
    paired: int = 0
    arm: Arm | None = None
