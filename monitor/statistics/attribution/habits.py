"""An arm's habits: how its lists usually change from run to run, and which changes exceed this."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from monitor.measures.kernels.exposure import number_repeated
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.explanation import FaultKind
from monitor.model.immutable import immutable
from monitor.statistics.attribution.changes import OwnLists

BINS = 10
_LEAST_USERS = 5.0
_SURE = 4.0

# A share of users is usual up to this multiple of the usual share, since trainings differ. The
# second factor is for habits with few bins.
_WANDERS = 3.0
_HARDLY_WANDERS = 1.5

# Bins with more than this share of the usual users at or above them say too little.
_SAYS_LITTLE = 0.95
_FEW_BINS = 4


class Habit(StrEnum):
    """A way in which a user's list may differ from the same arm's former list.

    Low bins are ordinary. High bins are far out.
    """

    REPLACED = "replaced"  # share of items that were removed
    TURNED = "turned"  # share of the pairs of common items in reversed order
    MOVED = "moved"  # the sum of the bins of `REPLACED` and `TURNED`
    FIRST_MOVED = "first_moved"  # place of the former first item, if it is among the first three
    STILL = "still"  # the list is unchanged
    SHARED = "shared"  # many users have the list
    IDENTICAL = "identical"  # both arms give the same list; computed for the candidate only


def bin_lists(lists: OwnLists, is_still: Flags) -> dict[Habit, Integers]:
    """The bin of each user by habit, integers (n,) from 0.

    The bin is -1 if the user cannot be judged. Users without former lists cannot be judged.
    """
    is_known = ~np.isnan(lists.kept_share)
    replaced = np.rint(BINS * (1 - np.nan_to_num(lists.kept_share)))
    turned = np.floor(BINS * lists.turned_share)
    bins = {
        Habit.REPLACED: replaced,
        Habit.TURNED: turned,
        Habit.MOVED: replaced + turned,
        Habit.FIRST_MOVED: lists.place_of_first,
        Habit.STILL: is_still,
        Habit.SHARED: find_shared(lists.present)[0],
    }
    for habit, values in bins.items():
        bins[habit] = np.where(is_known, values, -1).astype(np.int64)
    return bins


def share_bins(bins: Integers) -> tuple[float, ...]:
    """Share of the users in each bin, up to the last bin with a user.

    Users that cannot be judged are left out.
    """
    counts = np.bincount(bins[bins >= 0], minlength=1)
    return tuple((counts / max(1, counts.sum())).tolist())


def pool_bins(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean share of each bin over the runs. All runs have the same weight."""
    return tuple(_pad(runs).mean(axis=0).tolist())


@immutable
class Outliers:
    """Users in high bins, if there are more of them than usual."""

    least: int  # the lowest of these bins
    usual: float  # share of ordinary users that may be in these bins too
    reversed: float  # share of ordinary users that would be in them if their lists were reversed
    # The share of users in these bins minus the usual share. It is divided by the share of users
    # that are usually in lower bins.
    beyond: float


def find_excess(bins: Integers, usual: Sequence[float]) -> Outliers | None:
    """Find the bin such that far more users than usual are in it or above it.

    None if there is no such bin.

    ``bins`` is the result of `bin_lists`. ``usual`` has the usual share of each bin. For each bin,
    p is the present share of users in this bin or above it, and r is the usual share. Only bins
    with a significant p - r are considered. The bin with the greatest p - 3 r is returned. If there
    are few bins, it is the bin with the greatest p - 1.5 r.
    """
    judged = bins[bins >= 0]
    if not len(judged):
        return None
    now, before = _tails(share_bins(judged), usual)
    if len(now) == 1:
        return None
    wanders = _HARDLY_WANDERS if len(now) <= _FEW_BINS else _WANDERS
    at_most = wanders * before
    surplus = now - at_most
    doubt = (_LEAST_USERS + _SURE * np.sqrt(len(judged) * before)) / len(judged)
    surplus[now - before < doubt] = -np.inf
    least = 1 + int(np.argmax(surplus[1:]))
    if surplus[least] <= 0:
        return None
    return Outliers(
        least=least,
        usual=float(at_most[least]),
        # Reversing a list moves it from bin b to bin BINS - b.
        reversed=float(sum(usual[: BINS - least + 1])),
        beyond=float((now - before)[least] / (1 - before[least])),
    )


def least_share(bins: Integers, usual: Sequence[float]) -> float:
    """A lower bound on the share of users that were hit, 0 to 1.

    If users were hit, the ordinary bins have fewer users than usual. For each bin, ``below`` is the
    present share of users in lower bins, and ``usually_below`` is the usual share. Then at most
    below / usually_below of the users are usual (the greatest share of a known part in a mixture:
    Blanchard, Lee and Scott 2010). So at least (usually_below - below) / usually_below were hit.
    The greatest of these bounds is returned. Bins with hardly any usual user below them are
    ignored.
    """
    # Shares of the users in each bin or in a higher one. No user is below the first bin.
    above, usually_above = (tails[1:] for tails in _tails(share_bins(bins), usual))
    says_much = usually_above <= _SAYS_LITTLE
    usually_below = 1 - usually_above[says_much]
    fewer_below = (above - usually_above)[says_much]  # usually_below - below
    return float((fewer_below / usually_below).max(initial=0.0))


def widest(*habits: Sequence[float]) -> tuple[float, ...]:
    """Combine habits.

    For every bin, the share of users in it or above it is the largest share of all habits.
    """
    tails = _tails(*habits).max(axis=0)
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def _tails(*habits: Sequence[float]) -> Floats:
    """For each bin, the share of users in this bin or in a higher one."""
    from_last_bin = _pad(habits)[:, ::-1]
    return np.asarray(np.cumsum(from_last_bin, axis=1)[:, ::-1])


def _pad(habits: Sequence[Sequence[float]]) -> Floats:
    return np.array(list(zip_longest(*habits, fillvalue=0.0))).T


# A list is shared if at least this many users have it, and at least this share of all users.
_MANY = 5
_LEAST_SHARE = 0.001

# So many former lists are used for comparison. The lists of so many users are compared with them.
_OTHER_LISTS = 500
_SAMPLE = 300

# Lists are still the user's own if they kept more of the former list than other users' lists have
# of it. The threshold is this part of the way from there to what lists usually keep.
_STILL_OWN = 0.12

# New lists are other users' lists if they have enough in common with former lists. The unit is what
# former lists have in common. The first limit is for the most similar list, the second for all.
_LIKE_ONE = 0.75
_LIKE_ALL = 0.6


def find_shared(codes: Codes) -> tuple[Flags, Integers]:
    """For each user, whether many users have the same list, and the number of the list: (n,) each.

    Equal lists have the same number. The number is -1 if only one user has the list.
    """
    group = number_repeated(codes)
    users = np.bincount(group + 1, minlength=1)[group + 1]
    return (users >= max(_MANY, _LEAST_SHARE * len(codes))) & (group >= 0), group


def judge_lists(lists: OwnLists, hit: Flags) -> FaultKind:
    """Whether these lists are other users' lists, random, or just others than before.

    Other users' lists are `MIXED_UP`, random lists are `NOISE`, and the user's own new lists are
    `REPLACED`. The ``hit`` users have lists in both runs.
    """
    hit_users = _thin(np.flatnonzero(hit), _SAMPLE)
    other_users = _thin(np.flatnonzero(lists.former_lengths), _OTHER_LISTS)
    other_lists = lists.former[other_users]
    common_before = _count_common(
        lists.former[hit_users], other_lists, code_users=hit_users, other_users=other_users
    )
    common_now = _count_common(
        lists.present[hit_users], other_lists, code_users=hit_users, other_users=other_users
    )
    own_share = lists.kept_share[hit_users].mean()
    # Lists of other users are as far from the user's former list as the lists of any two users.
    strangers_share = common_before.mean() / lists.former_lengths[hit_users].mean()
    ordinary = lists.kept_share[~hit & ~np.isnan(lists.kept_share)]
    usual_share = float(ordinary.mean()) if len(ordinary) else 1.0
    least_own_share = strangers_share + _STILL_OWN * (usual_share - strangers_share)
    if own_share > least_own_share:
        return FaultKind.REPLACED
    likest_now = common_now.max(axis=1).mean()
    likest_before = common_before.max(axis=1).mean()
    is_like_one = likest_now >= _LIKE_ONE * likest_before
    if is_like_one and common_now.mean() >= _LIKE_ALL * common_before.mean():
        return FaultKind.MIXED_UP
    return FaultKind.NOISE


def _thin(rows: Rows, count: int) -> Rows:
    """Select about ``count`` of the rows, evenly spaced."""
    return rows[:: max(1, len(rows) // count)]


def _count_common(
    codes: Codes,
    other_lists: Codes,
    *,
    code_users: Rows,
    other_users: Rows,
) -> npt.NDArray[np.float32]:
    """Number of items that each list has in common with each other list, (lists, other lists).

    0 where both are of one user.
    """
    listed = other_lists >= 0
    items = np.unique(other_lists[listed])
    has_item = np.zeros((len(items), len(other_lists)), dtype=np.float32)
    has_item[np.searchsorted(items, other_lists[listed]), np.nonzero(listed)[0]] = 1
    # A code above all items would have the place len(items). The next statement ignores such codes.
    item_places = np.searchsorted(items, codes).clip(max=len(items) - 1)
    is_there = (codes >= 0) & (items[item_places] == codes)
    common = np.zeros((len(codes), len(other_lists)), dtype=np.float32)
    # Rank by rank, because an array of all ranks would be too large.
    for rank in range(codes.shape[1]):
        common += np.where(is_there[:, rank, None], has_item[item_places[:, rank]], 0)
    common[code_users[:, None] == other_users] = 0
    return common
