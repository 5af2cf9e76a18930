"""Why a mean fell. A run stores this for later runs and for people."""

from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import TypeAlias

from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.run_reasons import IdMismatch
from monitor.model.statistics import (
    ABOUT_ORDER,
    NO_LIST,
    DerivedMetric,
    ListTrait,
    parse_derived,
)

CLEAR_DROP = 2.0
"""A drop is clear if it is at least this many standard errors over users.

Other users would then show the drop too.
"""


class DropPart(StrEnum):
    """The parts of a drop."""

    MEMBERSHIP = "membership"
    ORDER = "order"
    LENGTH = "length"
    COMPOSITION = "composition"


class Change(StrEnum):
    """How a user's list changed, worst first.

    `monitor.statistics.attribution.changes.classify_changes` decides.
    """

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
    SHARED_LIST = "shared_list"  # many users get the same list, or one of a few lists
    IDENTICAL = "identical"  # users get the other arm's list
    ALIKE = "alike"  # users get nearly the other arm's list
    INTERLEAVED = "interleaved"  # lists of both arms are mixed
    CUT_SHORT = "cut_short"
    # Lists are the same as in the last run, or as before the test, while other lists changed. What
    # is stored and shown calls these lists stale
    UNCHANGED = "stale"
    ITEMS_GONE = "items_gone"  # items are in no list any more
    ITEMS_RISEN = "items_risen"  # items are in far more lists
    ITEMS_FALLEN = "items_fallen"  # items are in far fewer lists
    ITEMS_NEW = "items_new"  # many items that hardly any list had
    RESPELLED = "respelled"  # the same items with other ids
    SHIFTED = "shifted"  # the items are some places higher or lower
    FIRST_ITEM = "first_item"  # an item is first in far more or far fewer lists
    MIXED_UP = "mixed_up"  # users get other users' lists
    NOISE = "noise"  # lists that are unrelated to the users' earlier lists
    REPLACED = "replaced"  # more items are replaced than usual for the arm
    REORDERED = "reordered"  # the same items in another order

    @property
    def facts(self) -> "FaultFacts":
        """What holds for every fault of this kind."""
        return FAULT_FACTS[self]


@immutable
class FaultFacts:
    """What holds for every fault of one kind."""

    # Alerts on the share of lists with one of these traits count the users with the fault. The
    # first trait means the same as the fault.
    traits: tuple[ListTrait, ...] = ()
    is_estimated: bool = False  # the number of users is estimated, as healthy users can look so
    is_similarity: bool = False  # it makes the lists of both arms similar
    # It does not prove a fault, because a new model does this too. If it was wanted, it is accepted
    is_model_change: bool = False
    looks_like_training: bool = False  # a new training of a model can look like it
    brings_new_items: bool = False  # it explains many new items, and its end brings them too
    moves_first_items: bool = False  # it changes the first items of lists
    counts_items: bool = False  # ``Finding.detail`` has the number of items that it concerns
    may_be_respelled: bool = False  # lists look so, too, if item ids are spelled differently


FAULT_FACTS: Mapping[FaultKind, FaultFacts] = {
    FaultKind.MISSING: FaultFacts(traits=NO_LIST),
    FaultKind.SHARED_LIST: FaultFacts(traits=(ListTrait.SHARED,)),
    FaultKind.IDENTICAL: FaultFacts(
        traits=(ListTrait.IDENTICAL, ListTrait.ALIKE), is_similarity=True, looks_like_training=True
    ),
    FaultKind.ALIKE: FaultFacts(
        traits=(ListTrait.ALIKE,), is_estimated=True, is_similarity=True, looks_like_training=True
    ),
    FaultKind.INTERLEAVED: FaultFacts(
        traits=(ListTrait.INTERLEAVED,),
        is_estimated=True,
        is_similarity=True,
        looks_like_training=True,
    ),
    FaultKind.CUT_SHORT: FaultFacts(traits=(ListTrait.SHORT, ListTrait.DUPLICATED)),
    FaultKind.UNCHANGED: FaultFacts(traits=(ListTrait.UNCHANGED,)),
    FaultKind.ITEMS_GONE: FaultFacts(counts_items=True, may_be_respelled=True),
    FaultKind.ITEMS_RISEN: FaultFacts(counts_items=True, moves_first_items=True),
    FaultKind.ITEMS_FALLEN: FaultFacts(counts_items=True),
    FaultKind.ITEMS_NEW: FaultFacts(
        counts_items=True,
        looks_like_training=True,
        brings_new_items=True,
        moves_first_items=True,
        may_be_respelled=True,
    ),
    FaultKind.RESPELLED: FaultFacts(),
    FaultKind.SHIFTED: FaultFacts(
        traits=(ListTrait.SHIFTED,), is_estimated=True, moves_first_items=True
    ),
    FaultKind.FIRST_ITEM: FaultFacts(counts_items=True, moves_first_items=True),
    FaultKind.MIXED_UP: FaultFacts(
        is_estimated=True,
        looks_like_training=True,
        brings_new_items=True,
        may_be_respelled=True,
    ),
    FaultKind.NOISE: FaultFacts(
        is_estimated=True,
        looks_like_training=True,
        brings_new_items=True,
        may_be_respelled=True,
    ),
    FaultKind.REPLACED: FaultFacts(
        is_estimated=True,
        is_model_change=True,
        looks_like_training=True,
        brings_new_items=True,
        may_be_respelled=True,
    ),
    FaultKind.REORDERED: FaultFacts(
        traits=ABOUT_ORDER,
        is_estimated=True,
        is_model_change=True,
        looks_like_training=True,
        moves_first_items=True,
    ),
}
SIMILAR_FAULTS = tuple(kind for kind in FaultKind if kind.facts.is_similarity)


@immutable
class Finding:
    """The cause that explains most of the drop: what happened to which lists of which arms."""

    kind: FaultKind
    arms: tuple[Arm, ...]
    segment: str  # the segment with most of the affected users; ``all`` if they are in all segments
    segment_share: float  # share of the segment's users that are affected
    users: int  # affected users; an estimate if healthy users can look the same
    compared: int  # number of compared users; number of asked users if lists are missing
    # Share of the drop that this cause explains; None without a drop
    explained: float | None = None
    # Further figures by name. `docs/reference/json.md` says which kind of fault has which figures,
    # and what they mean. Stored explanations and the JSON output contain them.
    detail: Mapping[str, float] = field(default_factory=dict)
    # Whether ``users`` is the number of all affected users, and they are all users of the segment.
    is_exact: bool = False
    note: str | None = None  # why users got no list, in the source's words
    # The two spellings of respelled ids: before and now in one arm, or baseline and candidate
    spelling: IdMismatch | None = None

    @property
    def is_estimated(self) -> bool:
        """Whether ``users`` is an estimate."""
        return self.kind.facts.is_estimated

    @property
    def without_examples(self) -> "Finding":
        """A copy without ids."""
        if self.spelling is None:
            return self
        return replace(self, spelling=self.spelling.without_examples)

    @property
    def share(self) -> float:
        """The share of the compared users that are affected, from 0 to 1."""
        return self.users / max(1, self.compared)


@immutable
class PartMeans:
    """The parts of the distance from identical lists: their means over ``n`` users."""

    n: int
    membership: float
    order: float
    length: float

    @property
    def total(self) -> float:
        """Mean distance from identical lists."""
        return self.membership + self.order + self.length


Histograms: TypeAlias = Mapping[str, Mapping[str, tuple[float, ...]]]
"""Shares of users by arm, feature and bin, see `monitor.statistics.attribution.change_features`."""


@immutable
class Split:
    """What a run stores for later runs about the distance between lists, measured by ``metric``."""

    metric: str
    asked: int  # number of users asked
    means: PartMeans
    histograms: Histograms = field(default_factory=dict)


@immutable
class PartAmount:
    """How much one part contributes to a drop."""

    part: DropPart
    amount: float


@immutable
class SegmentFall:
    """One segment's contribution to the drop, by part."""

    segment: str
    share: float  # the segment's share of the users with a score
    # The segment's share of the users with a score that also have earlier lists
    share_before: float
    parts: Mapping[DropPart, float]
    # Contribution minus that of an average segment of this size. Composition is not included.
    excess: float

    @property
    def total(self) -> float:
        """The segment's contribution to the drop."""
        return sum(self.parts.values())

    @property
    def by_changed_lists(self) -> float:
        """The contribution of changed lists, without that of a changed mix of users."""
        return sum(
            amount for part, amount in self.parts.items() if part is not DropPart.COMPOSITION
        )


@immutable
class MeanDrop:
    """A drop of the mean score.

    The mean distance rose by the same amount. ``parts`` add up to this amount.
    """

    before: float  # mean distance in the earlier run
    now: float  # mean distance in this run
    # Standard error over users of the mean change. It ignores the variation between runs.
    noise: float
    parts: Mapping[DropPart, float]
    # The falls of each dimension add up to the drop, so falls of two dimensions must not be added.
    # The dimension that explains most comes first. Within a dimension the segment that fell most
    # comes first.
    falls: tuple[SegmentFall, ...]
    main_segment: SegmentFall | None  # the segment that fell clearly more than the others

    @property
    def amount(self) -> float:
        """The drop of the mean score, negative for a rise."""
        return self.now - self.before

    @property
    def causes(self) -> tuple[PartAmount, ...]:
        """The parts of the drop, the largest first."""
        causes = [PartAmount(part=part, amount=amount) for part, amount in self.parts.items()]
        return tuple(sorted(causes, key=attrgetter("amount"), reverse=True))

    @property
    def is_clear(self) -> bool:
        """Whether the mean fell by more than chance among users can explain."""
        return self.amount > 0 and self.amount >= CLEAR_DROP * self.noise

    @property
    def is_rise(self) -> bool:
        """Whether the mean rose by more than chance among users can explain."""
        return self.amount < 0 and -self.amount >= CLEAR_DROP * self.noise


@immutable
class ExposedItem:
    """An item's exposure and its share of lists, before and after.

    An item at the top of every list has exposure 1.
    """

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
    """Users whose lists changed in the same way, with the most typical users as examples."""

    change: Change
    users: int
    share: float
    share_before: float | None  # None without earlier lists
    distance: float  # contribution to the mean distance
    examples: tuple[ExampleLists, ...]


@immutable
class Explanation:
    """Why the arms' lists differ by one metric, or why its mean fell: a sentence and its figures.

    If there are ``paired`` users, their lists are compared with the lists of an earlier run. The
    items are then the items of ``arm``, before and now. The drop also includes users without
    earlier lists. If there are no paired users, there is no drop, and the items of both arms are
    compared.
    """

    metric: str
    sentence: str
    # The segment of the finding. Without a finding, the leading segment of the drop. Without both,
    # `all`.
    segment: str
    now: float  # mean distance from identical lists; ``before`` is the same for the earlier run
    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int
    groups: tuple[UserGroup, ...]
    before: float | None = None
    causes: tuple[PartAmount, ...] = ()  # the amounts add up to the drop
    # By dimension, with the leading dimension first. The falls of each dimension add up to the
    # drop.
    falls: tuple[SegmentFall, ...] = ()
    finding: Finding | None = None  # None without a clear fault
    also: Finding | None = None  # a second fault, of other users
    paired: int = 0
    arm: Arm | None = None
    titles: Mapping[str, str] = field(default_factory=dict)  # titles of the examples' items
    since: datetime | None = None  # slot of the earlier run that is compared
    # All mismatches of the run, even if they do not explain a drop
    id_mismatches: tuple[IdMismatch, ...] = ()
    is_recalled: bool = False  # whether this explains an earlier run, see `choose_explanation`

    @property
    def is_unpaired(self) -> bool:
        """Whether the current lists of the arms' users are compared, in place of before and now."""
        return parse_derived(self.metric).derived is DerivedMetric.SELF_GAP

    @property
    def has_items_by_arm(self) -> bool:
        """Whether the items are those of both arms now, and not those of before and now."""
        return self.is_unpaired and self.since is None

    @property
    def examples(self) -> tuple[ExampleLists, ...]:
        """Two users of the first group with examples. If it has one example, one of the next."""
        return tuple(chain.from_iterable(group.examples[:2] for group in self.groups))[:2]

    @property
    def drop(self) -> float:
        """The increase of the distance from identical lists. 0 without earlier lists."""
        return 0.0 if self.before is None else self.now - self.before

    @property
    def without_items(self) -> "Explanation":
        """A copy without items and lists."""
        return replace(self, gained=(), lost=(), groups=(), titles={})
