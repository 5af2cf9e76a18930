"""How each user's pair changed against the same user's pair of an earlier run, by arm and part, and the kinds of change."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from monitor.attribution.parts import Parts, ScoreBatch, share_steps, walk_to
from monitor.kernels import PAD, blocks
from monitor.kernels.exposure import compact_codes
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.explanation import Change, ExampleLists, UserGroup
from monitor.model.rankings import Arm, PairBatch

_TOP = 3

# Times that an item was listed, at least, before its absence says something, and share of it that
# may be left.
_LISTED = 10
_LEFT = 0.02

Kinds: TypeAlias = npt.NDArray[np.int8]
CHANGES = tuple(Change)


@dataclass(frozen=True, kw_only=True)
class OwnLists:
    """One arm's lists of the same n users in an earlier run and in this one: codes (n, k) padded with -1, and lengths (n,)."""

    former: Codes
    former_lengths: Codes
    present: Codes
    lengths: Codes

    @property
    def kept(self) -> Floats:
        """Share of the longer list's items that both lists hold, 0 to 1.

        NaN where either is empty.
        """
        return self._aligned[0]

    @property
    def turned(self) -> Floats:
        """Share of the pairs of common items that stand the other way around, 0 to 1.

        0 with fewer than two.
        """
        return self._aligned[1]

    @cached_property
    def _aligned(self) -> tuple[Floats, Floats]:
        return _align(self.former, self.former_lengths, self.present, self.lengths)

    @cached_property
    def is_same(self) -> Flags:
        """Whether both lists are one, empty ones included."""
        return np.asarray((self.former == self.present).all(axis=1))

    @cached_property
    def has_same_top(self) -> Flags:
        """Whether the first three items are the same ones in whatever order.

        False of lists of no more than three.
        """
        ours, theirs = (np.sort(codes[:, :_TOP], axis=1) for codes in (self.former, self.present))
        return np.asarray((ours == theirs).all(axis=1) & (self.lengths > _TOP))

    @property
    def turned_on_top(self) -> Integers:
        """Of the three pairs of the first three items how many stand the other way around, where these are the same."""
        tops = (np.minimum(lengths, _TOP) for lengths in (self.former_lengths, self.lengths))
        _, share = _align(self.former[:, :_TOP], next(tops), self.present[:, :_TOP], next(tops))
        return np.rint(_TOP * share).astype(np.int64)

    @cached_property
    def gone(self) -> tuple[Codes, float]:
        """Items that were listed often and hardly are, and what share of all places they had."""
        former, present, items = compact_codes(self.former, self.present)
        # The padding's code, -1, is counted first.
        before, after = (
            np.bincount(codes.ravel() + 1, minlength=len(items) + 1)[1:]
            for codes in (former, present)
        )
        is_gone = (before >= _LISTED) & (after <= _LEFT * before)
        return items[is_gone], float(before[is_gone].sum() / max(1, before.sum()))


@dataclass(frozen=True, kw_only=True)
class PairChanges:
    """What changed of n users' pairs since the ``former`` ones."""

    former: PairBatch
    is_known: Flags  # (n,), whether they had lists of both arms then
    lists: Mapping[Arm, OwnLists]
    by_arm: Mapping[
        Arm, Parts
    ]  # its part in the change of each pair's distance, > 0 where lists moved apart, or NaN
    is_still: Mapping[Arm, Flags]  # whether the list is as in that run, or the last one

    @cached_property
    def parts(self) -> Parts:
        """The change of each user's distance: both arms' parts together."""
        return _add(self.by_arm[Arm.BASELINE], self.by_arm[Arm.CANDIDATE])


def compare_pairs(
    present: PairBatch, former: PairBatch, score: ScoreBatch, *, last: PairBatch | None = None
) -> PairChanges:
    """Split the change of each pair's distance since an earlier run by arm and part, exactly.

    ``former``: the same users' lists then, in the same codes, empty for who had none; ``last``:
    those of the last run, where that is yet another one. From the former pair (B', C') to the
    present one (B, C) lead two ways, over (B, C') and over (B', C). An arm's share is the mean of
    what its step costs on the two (Shapley 1953), each split by `walk_to`: 0 where its list is as
    it was, NaN where a score is undefined; the same items have a membership of exactly 0. Only
    lists are looked at, no scores, weights, grades. Costs two walks and at most 24 scorings, mostly
    16."""
    lists = _own_lists(former, present)

    def turned(batch: PairBatch) -> Floats:
        return score(
            _pair(batch.candidate, batch.candidate_lengths, batch.baseline, batch.baseline_lengths)
        )

    baseline, candidate = lists.values()
    parts = {
        Arm.BASELINE: _move(baseline, candidate, turned),
        Arm.CANDIDATE: _move(candidate, baseline, score),
    }
    is_known = (former.baseline_lengths > 0) & (former.candidate_lengths > 0)
    whole = parts[Arm.BASELINE].whole + parts[Arm.CANDIDATE].whole
    nothing = np.where(is_known & ~np.isnan(whole), 0.0, np.nan)
    unknown = Parts(membership=nothing, order=nothing, length=nothing)
    since = lists if last is None else _own_lists(last, present)
    return PairChanges(
        former=former,
        is_known=is_known,
        lists=lists,
        by_arm={arm: _add(each, unknown) for arm, each in parts.items()},
        is_still={arm: own.is_same | since[arm].is_same for arm, own in lists.items()},
    )


def _align(
    former: Codes, former_lengths: Codes, present: Codes, lengths: Codes
) -> tuple[Floats, Floats]:
    """``kept`` and ``turned`` of `OwnLists`."""
    common, turned = np.zeros(len(lengths)), np.zeros(len(lengths))
    for rows, alignment in blocks(_pair(former, former_lengths, present, lengths)):
        common[rows] = alignment.common
        pairs = np.maximum(1.0, common[rows] * (common[rows] - 1) / 2)
        # Absent items count as last, so that each common one behind an absent one is one inversion
        # too many.
        is_absent = alignment.positions == alignment.k
        behind = (np.cumsum(is_absent, axis=0, dtype=np.int16) * ~is_absent).sum(axis=0)
        turned[rows] = (alignment.inversions - behind) / pairs
    is_there = (lengths > 0) & (former_lengths > 0)
    return np.where(
        is_there, common / np.maximum(1, np.maximum(lengths, former_lengths)), np.nan
    ), turned


def _own_lists(former: PairBatch, present: PairBatch) -> dict[Arm, OwnLists]:
    k, own = max(former.baseline.shape[1], present.baseline.shape[1]), {}
    for arm in Arm:
        (then, then_lengths), (now, lengths) = former.of(arm), present.of(arm)
        own[arm] = OwnLists(
            former=_widen(then, k),
            former_lengths=then_lengths,
            present=_widen(now, k),
            lengths=lengths,
        )
    return own


def _widen(codes: Codes, k: int) -> Codes:
    return (
        codes
        if codes.shape[1] == k
        else np.pad(codes, ((0, 0), (0, k - codes.shape[1])), constant_values=PAD)
    )


def _pair(ours: Codes, our_lengths: Codes, theirs: Codes, their_lengths: Codes) -> PairBatch:
    return PairBatch(
        baseline=ours,
        candidate=theirs,
        baseline_lengths=our_lengths,
        candidate_lengths=their_lengths,
    )


def _move(own: OwnLists, other: OwnLists, score: ScoreBatch) -> Parts:
    """What the arm's own change costs, in the mean over the other arm's former lists and its present ones."""
    fixed = (other.former, other.former_lengths)
    walk = walk_to(
        _pair(*fixed, own.former, own.former_lengths), _pair(*fixed, own.present, own.lengths)
    )
    ways = []
    for codes, lengths in (fixed, (other.present, other.lengths)):
        # The walk is the same against other lists; steps that are one stay one.
        against = {
            id(step): replace(step, baseline=codes, baseline_lengths=lengths) for step in walk
        }
        ways.append(share_steps([against[id(step)] for step in walk], score))
    return _add(ways[0], ways[1], weight=0.5)


def _add(ours: Parts, theirs: Parts, weight: float = 1.0) -> Parts:
    return Parts(
        membership=weight * (ours.membership + theirs.membership),
        order=weight * (ours.order + theirs.order),
        length=weight * (ours.length + theirs.length),
    )


def classify(batch: PairBatch) -> Kinds:
    """Place in `CHANGES` of each pair's kind of change, int8 (n,): the first of these rules that holds.

    ``unchanged``: the same list; two empty lists are. ``replaced``: no item in common. ``cut_short``, ``lengthened``: the
    candidate's list is shorter, longer. ``mostly_replaced``: fewer than half of the items in common; ``partly_replaced``: at
    least half, not all. ``reordered``: the same items in another order. Costs an alignment, in blocks.
    """
    kinds = np.empty(len(batch), dtype=np.int8)
    for rows, alignment in blocks(batch):
        common, ours, theirs = (
            alignment.common.astype(np.int64),
            alignment.baseline_lengths,
            alignment.candidate_lengths,
        )
        is_same = (batch.baseline[rows] == batch.candidate[rows]).all(axis=1)
        rules = {
            Change.UNCHANGED: is_same,
            Change.REPLACED: common == 0,
            Change.CUT_SHORT: theirs < ours,
            Change.LENGTHENED: theirs > ours,
            Change.MOSTLY_REPLACED: 2 * common < ours,
            Change.PARTLY_REPLACED: common < ours,
        }
        places = [CHANGES.index(change) for change in rules]
        kinds[rows] = np.select(list(rules.values()), places, CHANGES.index(Change.REORDERED))
    return kinds


def share_kinds(kinds: Kinds) -> dict[Change, float]:
    """Share of the users in each kind of change, none left out."""
    counts = np.bincount(kinds, minlength=len(CHANGES))
    return {
        change: int(count) / max(1, len(kinds))
        for change, count in zip(CHANGES, counts, strict=True)
    }


def group_users(
    kinds: Kinds,
    parts: Parts,
    rows: Rows,
    *,
    before: Mapping[Change, float] | None = None,
    show: Callable[[int], ExampleLists],
    examples: int = 1,
) -> tuple[UserGroup, ...]:
    """Groups of these rows by kind of change.

    Those that grew most first where ``before`` is known, else those that add most.

    Growth is that of the share times the group's mean distance. Users whose parts are unknown
    belong to no group, but count among all users. ``show``: the lists of a row, of the ``examples``
    most central users of each group."""
    known = rows[~np.isnan(parts.whole[rows])]
    found = {change: known[kinds[known] == place] for place, change in enumerate(CHANGES)}
    groups = [
        UserGroup(
            change=change,
            users=len(own),
            share=len(own) / len(rows),
            share_before=None if before is None else before[change],
            distance=float(parts.whole[own].sum()) / len(rows),
            examples=tuple(show(int(row)) for row in own[find_central(parts, own)[:examples]]),
        )
        for change, own in found.items()
        if len(own)
    ]

    def grown(group: UserGroup) -> float:
        # By distance: otherwise a reorder of everybody would hide replaced lists.
        return group.distance * (1 - (group.share_before or 0.0) / group.share)

    return tuple(sorted(groups, key=lambda group: (-grown(group), CHANGES.index(group.change))))


def find_central(parts: Parts, rows: Rows) -> Rows:
    """Places in ``rows``, first of the users whose parts lie nearest to the median of each part; equals go by place."""
    values = np.column_stack([parts.membership[rows], parts.order[rows], parts.length[rows]])
    # Rounded, so that equal distances stay equal.
    return np.argsort(
        np.round(np.abs(values - np.median(values, axis=0)).sum(axis=1), 9), kind="stable"
    )
