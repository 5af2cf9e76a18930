"""What a mean is made of, and why it fell: what a run keeps of it for later runs and for people."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from monitor.model.id_mismatches import IdMismatch
from monitor.model.rankings import Arm


class Part(StrEnum):
    """What a drop is made of."""

    MEMBERSHIP = "membership"
    ORDER = "order"
    LENGTH = "length"
    COMPOSITION = "composition"


class Change(StrEnum):
    """What became of a user's list, worst first.

    `monitor.attribution.changes.classify` has the rules.
    """

    REPLACED = "replaced"
    CUT_SHORT = "cut_short"
    LENGTHENED = "lengthened"
    MOSTLY_REPLACED = "mostly_replaced"
    PARTLY_REPLACED = "partly_replaced"
    REORDERED = "reordered"
    UNCHANGED = "unchanged"


class FaultKind(StrEnum):
    """What happened to lists, the most specific kinds first.

    `monitor.attribution.find_fault` has the tests.
    """

    MISSING = "missing"  # users get no list
    SHARED_LIST = "shared_list"  # many users get one list, or a few
    IDENTICAL = "identical"  # users get the other arm's list
    CUT_SHORT = "cut_short"
    STALE = "stale"  # lists stayed as they were in the last run while others changed
    ITEMS_GONE = "items_gone"  # nobody is shown them any more
    RESPELLED = "respelled"  # the same items, whose ids are spelled otherwise
    MIXED_UP = "mixed_up"  # users get other users' lists
    NOISE = "noise"  # lists that fit nobody
    REPLACED = "replaced"  # other items, more of them than the arm is used to change
    REORDERED = "reordered"  # the same items in another order


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What happened, to whose lists and in which arms: the hypothesis that explains most of the drop."""

    kind: FaultKind
    arms: tuple[Arm, ...]
    segment: str  # where most of them are, ``all`` where they are everywhere
    segment_share: float  # how many of its users have it
    users: int  # who have it; estimated where healthy users look alike
    compared: int  # of how many, or asked where they are missing
    explained: float | None = (
        None  # share of the drop that would not be there otherwise; None without a drop
    )
    detail: Mapping[str, float] = field(
        default_factory=dict
    )  # figures of the kind, such as items gone
    is_exact: bool = False  # whether ``users`` are all that have it, and all of the segment
    note: str | None = None  # why users got no list, as the source says
    spelling: IdMismatch | None = (
        None  # of respelled ids: before and now in one arm, else baseline and candidate
    )

    @property
    def without_examples(self) -> "Finding":
        """The same without ids."""
        return (
            self
            if self.spelling is None
            else replace(self, spelling=self.spelling.without_examples)
        )

    @property
    def share(self) -> float:
        """Of the users that were compared, 0 to 1."""
        return self.users / max(1, self.compared)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMeans:
    """The parts of the distance from identical lists, averaged over the ``n`` users of whom they are known."""

    n: int
    membership: float
    order: float
    length: float

    @property
    def whole(self) -> float:
        """Mean distance from identical lists."""
        return self.membership + self.order + self.length


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What a run keeps for later ones: how far lists lie apart by ``metric``."""

    metric: str
    asked: int  # users
    means: PartMeans
    habits: Mapping[str, Mapping[str, tuple[float, ...]]] = field(
        default_factory=dict
    )  # shares by arm, habit, bin


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A piece of a drop."""

    part: Part
    amount: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFall:
    """What one segment adds to the drop, by part."""

    segment: str
    share: float  # of the users that were scored
    share_before: float  # of those among them who are held against their earlier lists
    parts: Mapping[Part, float]
    excess: float  # what it adds beyond its share of what all segments lost, composition apart

    @property
    def whole(self) -> float:
        """What it adds altogether."""
        return sum(self.parts.values())

    @property
    def within(self) -> float:
        """What it adds by lists that differ more than before, the mix of users apart."""
        return sum(amount for part, amount in self.parts.items() if part is not Part.COMPOSITION)


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
    """What sets lists apart by one metric, or why its mean fell, in one sentence and all that stands behind it.

    With ``paired`` users the drop is that of their lists since an earlier run, beside what new users add; items are those that
    ``arm`` showed then and shows now. Without there is no drop, and items are those of baseline and candidate.
    """

    metric: str
    sentence: str
    # That of the finding, else the one that leads the drop; `all` where none does, or its users are
    # not there
    segment: str
    now: float  # mean distance from identical lists, and before
    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int
    groups: tuple[UserGroup, ...]
    before: float | None = None
    causes: tuple[Cause, ...] = ()  # they add up to the drop
    falls: tuple[SegmentFall, ...] = ()  # and so do these in each dimension, the leading one first
    finding: Finding | None = None  # None where no kind of fault stands out
    paired: int = 0
    arm: Arm | None = None
    titles: Mapping[str, str] = field(default_factory=dict)  # of items of the examples
    since: datetime | None = None  # slot of the run whose lists these are held against
    id_mismatches: tuple[IdMismatch, ...] = ()  # of the run, whatever explains the drop
    is_recalled: bool = False  # whether this explains an earlier run, see `recall_fault`

    @property
    def examples(self) -> tuple[ExampleLists, ...]:
        """A user of each of the two leading groups that show any."""
        return tuple(group.examples[0] for group in self.groups if group.examples)[:2]

    @property
    def drop(self) -> float:
        """How much farther from identical lists than before, negative for a rise.

        0 where nothing earlier is known.
        """
        return 0.0 if self.before is None else self.now - self.before

    @property
    def without_items(self) -> "Explanation":
        """The same without what names an item or a list."""
        return replace(self, gained=(), lost=(), groups=(), titles={})
