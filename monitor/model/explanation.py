"""Why a mean fell: what a run stores of it for later runs and for people."""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias

from monitor.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.run_reasons import IdMismatch


class Part(StrEnum):
    """The parts of a drop."""

    MEMBERSHIP = "membership"
    ORDER = "order"
    LENGTH = "length"
    COMPOSITION = "composition"


class Change(StrEnum):
    """How a user's list changed, worst first. `monitor.attribution.changes.classify` decides."""

    REPLACED = "replaced"
    CUT_SHORT = "cut_short"
    LENGTHENED = "lengthened"
    MOSTLY_REPLACED = "mostly_replaced"
    PARTLY_REPLACED = "partly_replaced"
    REORDERED = "reordered"
    UNCHANGED = "unchanged"


class FaultKind(StrEnum):
    """What happened to lists, the most specific kinds first. `find_fault` decides."""

    MISSING = "missing"  # users get no list
    SHARED_LIST = "shared_list"  # many users get one list, or a few
    IDENTICAL = "identical"  # users get the other arm's list
    CUT_SHORT = "cut_short"
    STALE = "stale"  # lists are the same as in the last run while other lists changed
    ITEMS_GONE = "items_gone"  # items are in no list any more
    RESPELLED = "respelled"  # the same items with other ids
    MIXED_UP = "mixed_up"  # users get other users' lists
    NOISE = "noise"  # lists that fit nobody
    REPLACED = "replaced"  # more other items than usual for the arm
    REORDERED = "reordered"  # the same items in another order


@immutable
class Finding:
    """What happened, to which lists in which arms: the cause that explains most of the drop."""

    kind: FaultKind
    arms: tuple[Arm, ...]
    segment: str  # where most of them are, ``all`` where they are everywhere
    segment_share: float  # how many of its users have it
    users: int  # who have it; estimated where healthy users look alike
    compared: int  # of how many, or asked where they are missing
    # Share of the drop that would not be there otherwise; None without a drop
    explained: float | None = None
    # Figures of the kind, such as items gone
    detail: Mapping[str, float] = field(default_factory=dict)
    is_exact: bool = False  # whether ``users`` are all that have it, and all of the segment
    note: str | None = None  # why users got no list, as the source says
    # Of respelled ids: before and now in one arm, else baseline and candidate
    spelling: IdMismatch | None = None

    @property
    def without_examples(self) -> "Finding":
        """The same without ids."""
        if self.spelling is None:
            return self
        return replace(self, spelling=self.spelling.without_examples)

    @property
    def share(self) -> float:
        """The share of the compared users, 0 to 1."""
        return self.users / max(1, self.compared)


@immutable
class PartMeans:
    """The parts of the distance from identical lists, averaged over the ``n`` users with parts."""

    n: int
    membership: float
    order: float
    length: float

    @property
    def whole(self) -> float:
        """Mean distance from identical lists."""
        return self.membership + self.order + self.length


Habits: TypeAlias = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Shares of users by arm, habit and bin, see `monitor.attribution.habits`."""


@immutable
class Split:
    """What a run stores for later runs: the distance between lists by ``metric``."""

    metric: str
    asked: int  # users
    means: PartMeans
    habits: Habits = field(default_factory=dict)


@immutable
class Cause:
    """A piece of a drop."""

    part: Part
    amount: float


@immutable
class SegmentFall:
    """One segment's contribution to the drop, by part."""

    segment: str
    share: float  # of the users that were scored
    share_before: float  # of those among them who are held against their earlier lists
    parts: Mapping[Part, float]
    excess: float  # contribution beyond its share of the drop of all, without composition

    @property
    def whole(self) -> float:
        """The total contribution."""
        return sum(self.parts.values())

    @property
    def within(self) -> float:
        """The contribution of lists that differ more than before, without the mix of users."""
        return sum(amount for part, amount in self.parts.items() if part is not Part.COMPOSITION)


@immutable
class ExposedItem:
    """An item's exposure before and after, 1 on top of every list, and its share of lists."""

    item: str
    title: str | None
    before: float
    after: float
    share_before: float
    share_after: float


@immutable
class ExampleLists:
    """Both lists of an example user."""

    user: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@immutable
class UserGroup:
    """Users of the explanation whose lists changed in the same way, with the most typical ones."""

    change: Change
    users: int
    share: float
    share_before: float | None  # None without earlier lists
    distance: float  # contribution to the mean distance
    examples: tuple[ExampleLists, ...]


@immutable
class Explanation:
    """Why lists differ by one metric, or why its mean fell: a sentence, and its figures.

    With ``paired`` users the drop compares their lists with those of an earlier run, and includes
    new users. Items are then those of ``arm``, before and now. Without paired users there is no
    drop, and items are those of baseline and candidate.
    """

    metric: str
    sentence: str
    # That of the finding, else the leading one of the drop, else `all`
    segment: str
    now: float  # mean distance from identical lists, and before
    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int
    groups: tuple[UserGroup, ...]
    before: float | None = None
    causes: tuple[Cause, ...] = ()  # they add up to the drop
    # In each dimension these add up to the drop too, the leading one first
    falls: tuple[SegmentFall, ...] = ()
    finding: Finding | None = None  # None without a clear fault
    paired: int = 0
    arm: Arm | None = None
    titles: Mapping[str, str] = field(default_factory=dict)  # of items of the examples
    since: datetime | None = None  # slot of the earlier run that is compared
    id_mismatches: tuple[IdMismatch, ...] = ()  # of the run, whatever explains the drop
    is_recalled: bool = False  # whether this explains an earlier run, see `recall_fault`

    @property
    def examples(self) -> tuple[ExampleLists, ...]:
        """One user of each of the first two groups with examples."""
        return tuple(group.examples[0] for group in self.groups if group.examples)[:2]

    @property
    def drop(self) -> float:
        """The increase of the distance from identical lists. 0 without earlier lists."""
        return 0.0 if self.before is None else self.now - self.before

    @property
    def without_items(self) -> "Explanation":
        """The same without items and lists."""
        return replace(self, gained=(), lost=(), groups=(), titles={})
