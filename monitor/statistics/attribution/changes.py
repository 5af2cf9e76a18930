"""Measures how each pair changed since an earlier run: by arm, by part, and by kind of change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.measures.kernels import PAD, blocks
from monitor.measures.kernels.alignment import count_discordant, count_pairs, count_shared
from monitor.measures.kernels.exposure import weigh_changes
from monitor.measures.kernels.item_codes import compact_codes, count_codes
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.explanation import Change, ExampleLists, UserGroup
from monitor.model.immutable import immutable
from monitor.model.rankings import Arm, PairBatch
from monitor.statistics.attribution.parts import Parts, ScoreBatch, share_steps, walk_to

_TOP_DEPTH = 3

# An item counts as removed if at most this share of the lists that had it still has it.
STILL_LISTED = 0.02
# An arm counts as unchanged if at least this share of its lists is unchanged. The share is not 1,
# because a few users always get new lists.
_UNCHANGED = 0.99

ALL_CHANGES = tuple(Change)
ChangeKinds: TypeAlias = npt.NDArray[np.int8]
"""The kind of change of each pair, int8 (n,), as an index in `ALL_CHANGES`."""


@immutable
class ItemCounts:
    """How many users had each item in their former list, and have it in their present list.

    Each array has the shape (items,).
    """

    items: Codes
    before: Integers
    now: Integers

    @property
    def weighed_changes(self) -> Floats:
        """How much the number of users of each item changed, see `weigh_changes`."""
        return weigh_changes(self.before, self.now)


@immutable
class RemovedItems:
    """Items that hardly any user has now, and the share of all former places that they filled."""

    items: Codes
    share_of_places: float


@dataclass(frozen=True, kw_only=True)
class OwnLists:
    """The lists of n users from one arm, in an earlier run and in this run.

    The codes have the shape (n, k) and are padded with -1. The lengths have the shape (n,).
    """

    former: Codes
    former_lengths: Codes
    present: Codes
    present_lengths: Codes

    @classmethod
    def of_pairs(cls, pairs: PairBatch) -> "OwnLists":
        """Return the baseline's lists as former lists, and the candidate's as present lists."""
        return cls(
            former=pairs.baseline,
            former_lengths=pairs.baseline_lengths,
            present=pairs.candidate,
            present_lengths=pairs.candidate_lengths,
        )

    @property
    def backwards(self) -> "OwnLists":
        """The same lists as if the earlier run were this run, and this run the earlier run."""
        return OwnLists(
            former=self.present,
            former_lengths=self.present_lengths,
            present=self.former,
            present_lengths=self.former_lengths,
        )

    def select(self, rows: Flags) -> "OwnLists":
        """Return the lists of these users."""
        return OwnLists(
            former=self.former[rows],
            former_lengths=self.former_lengths[rows],
            present=self.present[rows],
            present_lengths=self.present_lengths[rows],
        )

    @property
    def kept_share(self) -> Floats:
        """Number of items in both lists, divided by the length of the longer list, 0 to 1.

        NaN if either list is empty.
        """
        kept_share, _ = self._kept_and_reversed
        return kept_share

    @property
    def reversed_share(self) -> Floats:
        """Share of the pairs of common items whose order is reversed, 0 to 1.

        It is 0 if there are no pairs.
        """
        _, reversed_share = self._kept_and_reversed
        return reversed_share

    @cached_property
    def _kept_and_reversed(self) -> tuple[Floats, Floats]:
        """The values of `kept_share` and of `reversed_share`, from one alignment."""
        common = np.zeros(len(self.present_lengths))
        reversed_share = np.zeros(len(self.present_lengths))
        list_pairs = PairBatch(
            baseline=self.former,
            candidate=self.present,
            baseline_lengths=self.former_lengths,
            candidate_lengths=self.present_lengths,
        )
        for rows, alignment in blocks(list_pairs):
            common[rows] = alignment.common
            item_pairs = np.maximum(1, count_pairs(count_shared(alignment)))
            reversed_share[rows] = count_discordant(alignment) / item_pairs
        has_lists = (self.present_lengths > 0) & (self.former_lengths > 0)
        longer = np.maximum(1, np.maximum(self.present_lengths, self.former_lengths))
        return np.where(has_lists, common / longer, np.nan), reversed_share

    @cached_property
    def is_same(self) -> Flags:
        """Whether both lists are equal. Two empty lists are equal."""
        return np.asarray((self.former == self.present).all(axis=1))

    @cached_property
    def has_same_top_items(self) -> Flags:
        """Whether both lists have the same first three items, in any order.

        False for lists of at most three items.
        """
        former_top = np.sort(self.former[:, :_TOP_DEPTH], axis=1)
        present_top = np.sort(self.present[:, :_TOP_DEPTH], axis=1)
        return np.asarray(
            (former_top == present_top).all(axis=1) & (self.present_lengths > _TOP_DEPTH)
        )

    @property
    def place_of_first(self) -> Integers:
        """The place in this run of the item that was first in the earlier run, 0 to 2.

        -1 if the item is not among the first three, or if the list has at most three items.
        """
        is_former_first = self.present[:, :_TOP_DEPTH] == self.former[:, :1]
        has_lists = (self.present_lengths > _TOP_DEPTH) & (self.former_lengths > 0)
        is_in_top = has_lists & is_former_first.any(axis=1)
        return np.where(is_in_top, is_former_first.argmax(axis=1), -1)

    @property
    def first_items(self) -> "OwnLists":
        """The lists cut to their first items."""
        return OwnLists(
            former=self.former[:, :1],
            former_lengths=np.minimum(self.former_lengths, 1),
            present=self.present[:, :1],
            present_lengths=np.minimum(self.present_lengths, 1),
        )

    @cached_property
    def item_counts(self) -> ItemCounts:
        """The users of each item, among the users with lists in both runs."""
        has_both = (self.former_lengths > 0) & (self.present_lengths > 0)
        return _count_users(self.former[has_both], self.present[has_both])

    @property
    def has_item_change(self) -> Flags:
        """Whether the list gained or lost the item whose number of users changed most.

        This is the item with the largest change by `weigh_changes`. If its number of users rose,
        the lists that gained it are marked. If the number fell, the lists that lost it are marked.
        As many lists are marked as the change weighs, so that the weights of two runs can be
        compared.
        """
        counts = self.item_counts
        if not len(counts.items):
            return np.zeros(len(self.present_lengths), dtype=bool)
        most_moved_index = int(np.argmax(counts.weighed_changes))
        item = counts.items[most_moved_index]
        was_there = (self.former == item).any(axis=1)
        is_there = (self.present == item).any(axis=1)
        has_moved = is_there & ~was_there
        if counts.now[most_moved_index] < counts.before[most_moved_index]:
            has_moved = was_there & ~is_there
        weight = round(float(counts.weighed_changes[most_moved_index]))
        return np.asarray(has_moved & (np.cumsum(has_moved) <= weight))

    def find_removed(self, least_users: int, ignored: Codes | tuple[()] = ()) -> RemovedItems:
        """Return the items that at least ``least_users`` users had, and that hardly any has now.

        The ``ignored`` items are left out.
        """
        counts = _count_users(self.former, self.present)
        has_gone = counts.now <= STILL_LISTED * counts.before
        is_removed = (counts.before >= least_users) & has_gone & ~np.isin(counts.items, ignored)
        places = counts.before[is_removed].sum()
        return RemovedItems(
            items=counts.items[is_removed],
            share_of_places=float(places / max(1, counts.before.sum())),
        )


def _count_users(former_lists: Codes, present_lists: Codes) -> ItemCounts:
    """Return the users of each item. A list has an item at most once."""
    former, present, items = compact_codes(former_lists, present_lists)
    return ItemCounts(
        items=items,
        before=count_codes(former, len(items)),
        now=count_codes(present, len(items)),
    )


@dataclass(frozen=True, kw_only=True)
class PairChanges:
    """What changed in the pairs of n users since the ``former`` pairs."""

    former: PairBatch
    is_known: Flags  # (n,), whether the former pair had lists of both arms
    lists: Mapping[Arm, OwnLists]
    # How much each arm changed each pair's distance. The change is positive if the lists moved
    # apart, and NaN if it is not known.
    by_arm: Mapping[Arm, Parts]
    # Whether the list equals the list of the former run or of the last run
    is_unchanged: Mapping[Arm, Flags]

    def is_arm_unchanged(self, arm: Arm) -> bool:
        """Return whether hardly any list of the arm changed since the earlier run."""
        return bool(self.lists[arm].is_same[self.is_known].mean() >= _UNCHANGED)

    @cached_property
    def parts(self) -> Parts:
        """The change of each user's distance, which is the sum of the changes by both arms."""
        return _add(self.by_arm[Arm.BASELINE], self.by_arm[Arm.CANDIDATE])


def compare_pairs(
    present: PairBatch,
    former: PairBatch,
    score: ScoreBatch,
    *,
    last: PairBatch | None = None,
) -> PairChanges:
    """Split the change of each pair's distance since an earlier run, by arm and part.

    ``former`` has the earlier lists of the same users, in the same codes. A user without earlier
    lists has empty lists there. ``last`` has the lists of the last run, if the last run is not the
    earlier run. Item scores, weights and grades are ignored.

    How much an arm's change adds to the distance depends on whether the other arm's list changes
    first. So each arm gets the mean over both orders (Shapley 1953). A `Walk` from the arm's former
    list to its present list splits the change into parts. All parts are 0 if the arm's list is
    unchanged, and NaN if a score is undefined. The part ``membership`` is exactly 0 if the list has
    the same items as before.

    The cost: for each arm and order, a pair is scored at each batch of the walk. These are six
    batches, or four if no list is cut. If the arm's list is unchanged, the pair is scored once.
    """
    lists = pair_runs(former, present)

    # A walk changes only the candidate's list. So the arms are swapped to split the baseline's
    # change. They are swapped back for scoring.
    def score_swapped(batch: PairBatch) -> Floats:
        swapped_back = PairBatch(
            baseline=batch.candidate,
            candidate=batch.baseline,
            baseline_lengths=batch.candidate_lengths,
            candidate_lengths=batch.baseline_lengths,
        )
        return score(swapped_back)

    baseline, candidate = lists[Arm.BASELINE], lists[Arm.CANDIDATE]
    by_baseline = _split_change(baseline, candidate, score_swapped)
    by_candidate = _split_change(candidate, baseline, score)
    is_known = (former.baseline_lengths > 0) & (former.candidate_lengths > 0)
    # A user's change is known only if the changes by both arms are known.
    is_defined = is_known & ~np.isnan(by_baseline.total + by_candidate.total)
    is_unchanged = {arm: of_arm.is_same for arm, of_arm in lists.items()}
    if last is not None:
        for arm, of_arm in pair_runs(last, present).items():
            is_unchanged[arm] = is_unchanged[arm] | of_arm.is_same
    return PairChanges(
        former=former,
        is_known=is_known,
        lists=lists,
        by_arm={
            Arm.BASELINE: by_baseline.where(is_defined),
            Arm.CANDIDATE: by_candidate.where(is_defined),
        },
        is_unchanged=is_unchanged,
    )


def pair_runs(former: PairBatch, present: PairBatch) -> dict[Arm, OwnLists]:
    """Return each arm's lists of both runs, padded to one width.

    Both batches must have the same users in the same order.
    """
    k = max(former.baseline.shape[1], present.baseline.shape[1])
    lists = {}
    for arm in Arm:
        former_codes, former_lengths = former.of(arm)
        present_codes, present_lengths = present.of(arm)
        lists[arm] = OwnLists(
            former=_widen(former_codes, k),
            former_lengths=former_lengths,
            present=_widen(present_codes, k),
            present_lengths=present_lengths,
        )
    return lists


def _widen(codes: Codes, k: int) -> Codes:
    """Pad lists of at most k places to k places."""
    missing_places = k - codes.shape[1]
    if not missing_places:
        return codes
    return np.pad(codes, ((0, 0), (0, missing_places)), constant_values=PAD)


def _split_change(lists: OwnLists, other: OwnLists, score: ScoreBatch) -> Parts:
    """Return how much score each pair loses because one arm's ``lists`` changed, by part.

    ``other`` are the other arm's lists. ``score`` gets pairs with these lists as the baseline, and
    with ``lists`` as the candidate. If ``lists`` are the baseline's, ``score`` must swap both.

    The loss is computed twice, with the former and with the present lists of the other arm. The
    mean of both is returned. Unchanged lists lose nothing. Their pairs are scored only to find
    undefined scores.
    """
    before = PairBatch(
        baseline=other.former,
        candidate=lists.former,
        baseline_lengths=other.former_lengths,
        candidate_lengths=lists.former_lengths,
    )
    after = replace(before, candidate=lists.present, candidate_lengths=lists.present_lengths)

    def score_with_present(pairs: PairBatch, rows: Rows) -> Floats:
        # The pairs have the former lists of the other arm. They get its present lists instead.
        present_lengths = other.present_lengths[rows]
        return score(replace(pairs, baseline=other.present[rows], baseline_lengths=present_lengths))

    values_by_part = {part.name: np.empty(len(before)) for part in fields(Parts)}
    unchanged = np.flatnonzero(lists.is_same)
    if len(unchanged):
        pairs = before.take(unchanged)
        is_defined = np.isfinite(score(pairs))
        is_defined &= np.isfinite(score_with_present(pairs, unchanged))
        for values in values_by_part.values():
            values[unchanged] = np.where(is_defined, 0.0, np.nan)
    changed = np.flatnonzero(~lists.is_same)
    if len(changed):
        # The walk does not depend on the other arm's lists, so it is the same for both.
        walk = walk_to(before.take(changed), after.take(changed))
        loss_with_former = share_steps(walk, score)
        loss_with_present = share_steps(walk, lambda pairs: score_with_present(pairs, changed))
        loss = _mean(loss_with_former, loss_with_present)
        for name, values in values_by_part.items():
            values[changed] = getattr(loss, name)
    return Parts(**values_by_part)


def _add(first: Parts, second: Parts) -> Parts:
    return Parts(
        membership=first.membership + second.membership,
        order=first.order + second.order,
        length=first.length + second.length,
    )


def _mean(first: Parts, second: Parts) -> Parts:
    total = _add(first, second)
    return Parts(membership=total.membership / 2, order=total.order / 2, length=total.length / 2)


def classify_changes(batch: PairBatch) -> ChangeKinds:
    """Return the kind of change from the baseline's list to the candidate's list, for each pair.

    The first kind that fits is used:

    - ``unchanged``: both lists are equal. Two empty lists are equal.
    - ``replaced``: the lists have no common item.
    - ``cut_short``: the candidate's list is shorter.
    - ``lengthened``: the candidate's list is longer.
    - ``mostly_replaced``: fewer than half of the items are common.
    - ``partly_replaced``: at least half of the items are common, but not all.
    - ``reordered``: the lists have the same items in another order.

    The cost is one alignment, computed in blocks.
    """
    kinds = np.empty(len(batch), dtype=np.int8)
    for rows, alignment in blocks(batch):
        common_items = alignment.common.astype(np.int64)
        baseline_length = alignment.baseline_lengths
        candidate_length = alignment.candidate_lengths
        # The order of the rules matters, because `np.select` uses the first rule that holds.
        rules = {
            Change.UNCHANGED: (batch.baseline[rows] == batch.candidate[rows]).all(axis=1),
            Change.REPLACED: common_items == 0,
            Change.CUT_SHORT: candidate_length < baseline_length,
            Change.LENGTHENED: candidate_length > baseline_length,
            Change.MOSTLY_REPLACED: 2 * common_items < baseline_length,
            Change.PARTLY_REPLACED: common_items < baseline_length,
        }
        indexes = [ALL_CHANGES.index(change) for change in rules]
        otherwise = ALL_CHANGES.index(Change.REORDERED)
        kinds[rows] = np.select(list(rules.values()), indexes, otherwise)
    return kinds


def share_kinds(kinds: ChangeKinds) -> dict[Change, float]:
    """Return the share of the users with each kind of change. It is 0 for a kind without users."""
    shares = np.bincount(kinds, minlength=len(ALL_CHANGES)) / max(1, len(kinds))
    return dict(zip(ALL_CHANGES, shares.tolist(), strict=True))


def group_users(  # noqa: PLR0913 - what is known of the users
    kinds: ChangeKinds,
    parts: Parts,
    rows: Rows,
    *,
    before: Mapping[Change, float] | None = None,
    show: Callable[[int], ExampleLists],
    examples: int = 1,
    affected: Flags | None = None,
) -> tuple[UserGroup, ...]:
    """Group the users of these rows by kind of change. Kinds without users have no group.

    A group's ``distance`` is what the group adds to the mean distance of all users. ``before`` has
    the share of each kind of change in the earlier run. If it is given, the groups that grew most
    come first. A group's growth is the growth of its share, times the mean distance of its users.
    If ``before`` is None, the groups with the largest ``distance`` come first.

    Users with undefined parts are in no group, but they count as users in all shares. Each group
    shows ``examples`` users with typical parts. Users in ``affected``, whom a fault affected, are
    shown first. ``show`` returns the lists of the user in a row.
    """
    defined = rows[~np.isnan(parts.total[rows])]
    groups = []
    for index, change in enumerate(ALL_CHANGES):
        members = defined[kinds[defined] == index]
        if not len(members):
            continue
        typical_first = _most_typical_first(parts, members)
        if affected is not None:
            typical_first = typical_first[np.argsort(~affected[typical_first], kind="stable")]
        group = UserGroup(
            change=change,
            users=len(members),
            share=len(members) / len(rows),
            share_before=None if before is None else before[change],
            distance=float(parts.total[members].sum()) / len(rows),
            examples=tuple(show(int(row)) for row in typical_first[:examples]),
        )
        groups.append(group)

    return tuple(sorted(groups, key=_growth, reverse=True))


def _growth(group: UserGroup) -> float:
    # This is (share - share_before) * distance / share, where distance / share is the mean distance
    # of a user. The distance is a factor because otherwise a group with small changes of many lists
    # would come before a group with replaced lists.
    return group.distance * (1 - (group.share_before or 0.0) / group.share)


def _most_typical_first(parts: Parts, rows: Rows) -> Rows:
    """Sort ``rows`` by how far each user's parts are from the medians of the parts, nearest first.

    Users at the same distance keep their order.
    """
    values = np.column_stack([parts.membership[rows], parts.order[rows], parts.length[rows]])
    distances = np.abs(values - np.median(values, axis=0)).sum(axis=1)
    # Distances are rounded, so that rounding errors do not separate equal distances.
    return rows[np.argsort(np.round(distances, 9), kind="stable")]
