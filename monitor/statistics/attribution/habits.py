"""Describes how an arm's lists usually change from run to run, and finds larger changes."""

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

# A share of users is normal up to this multiple of the usual share, because trainings differ. The
# second multiple is for habits with few bins.
_WANDERS = 3.0
_HARDLY_WANDERS = 1.5

# A bin is ignored if more than this share of the users is usually in it or above it.
_SAYS_LITTLE = 0.95
_FEW_BINS = 4


class Habit(StrEnum):
    """A way in which a user's list may differ from the same arm's former list.

    It is measured in bins. Lists in low bins are ordinary, and lists in high bins are rare.
    """

    REPLACED = "replaced"  # share of items that were removed
    TURNED = "turned"  # share of the pairs of common items in reversed order
    MOVED = "moved"  # the sum of the bins of `REPLACED` and `TURNED`
    FIRST_MOVED = "first_moved"  # place of the former first item, if it is among the first three
    FIRST_GONE = "first_gone"  # the former first item is not in the list any more
    FIRST_NEW = "first_new"  # the first item was not in the former list
    ITEM_MOVED = "item_moved"  # the list has changed in the item that came or went most often
    STILL = "still"  # the list is unchanged
    SHARED = "shared"  # many users have the list
    # These three compare the lists of both arms. They are computed for the candidate only.
    IDENTICAL = "identical"
    ALIKE = "alike"  # nearly the same list
    INTERLEAVED = "interleaved"  # the baseline's first items are near the top


def bin_lists(lists: OwnLists, is_still: Flags) -> dict[Habit, Integers]:
    """Return the bin of each user for each habit, integers (n,) from 0.

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
        Habit.FIRST_GONE: ~(lists.present == lists.former[:, :1]).any(axis=1),
        Habit.FIRST_NEW: ~(lists.former == lists.present[:, :1]).any(axis=1),
        Habit.ITEM_MOVED: lists.has_most_moved,
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
    """The users in high bins, if more users than usual are in these bins."""

    least: int  # the lowest of these bins
    usual: float  # share of ordinary users that may be in these bins too
    reversed: float  # share of ordinary users that would be there if their lists were reversed
    # Estimated share of hit users. It is the share of users in these bins minus the usual share,
    # divided by the share of users that are usually in lower bins.
    beyond: float


def find_outliers(bins: Integers, usual: Sequence[float]) -> Outliers | None:
    """Find a bin for which far more users than usual are in this bin or in higher bins.

    None if there is no such bin.

    ``bins`` is the result of `bin_lists`. ``usual`` has the usual share of each bin. For each bin,
    p is the present share of users in this bin or above it, and r is the usual share. Only bins
    with a significant p - r are considered. The bin with the greatest p - 3 r is returned. If there
    are few bins, it is the bin with the greatest p - 1.5 r.
    """
    judged = bins[bins >= 0]
    if not len(judged):
        return None
    present, usually = _tails(share_bins(judged), usual)
    # All users are in the first bin or above it, so this bin is never an outlier.
    if len(present) == 1:
        return None
    wanders = _HARDLY_WANDERS if len(present) <= _FEW_BINS else _WANDERS
    at_most = wanders * usually
    surplus = present - at_most
    doubt = (_LEAST_USERS + _SURE * np.sqrt(len(judged) * usually)) / len(judged)
    surplus[present - usually < doubt] = -np.inf
    least = 1 + int(np.argmax(surplus[1:]))
    if surplus[least] <= 0:
        return None
    return Outliers(
        least=least,
        usual=float(at_most[least]),
        # Reversing a list moves it from bin b to bin BINS - b.
        reversed=float(sum(usual[: BINS - least + 1])),
        beyond=float((present - usually)[least] / (1 - usually[least])),
    )


def least_share(bins: Integers, usual: Sequence[float]) -> float:
    """A lower bound on the share of users that were hit, 0 to 1.

    If users were hit, the ordinary bins have fewer users than usual. For each bin, ``above`` is the
    present share of users in this bin or above it, and ``usually_above`` is the usual share. So the
    lower bins have the shares 1 - above and 1 - usually_above. Then at most their quotient
    (1 - above) / (1 - usually_above) of the users were not hit. This is the greatest share of a
    known part in a mixture (Blanchard, Lee and Scott 2010). So at least
    (above - usually_above) / (1 - usually_above) were hit. The greatest of these bounds is
    returned. A bin is ignored if hardly any user is usually below it.
    """
    # The first bin is left out, because no user is below it.
    above, usually_above = (tails[1:] for tails in _tails(share_bins(bins), usual))
    is_ignored = usually_above > _SAYS_LITTLE
    above = above[~is_ignored]
    usually_above = usually_above[~is_ignored]
    bounds = (above - usually_above) / (1 - usually_above)
    return float(bounds.max(initial=0.0))


def widest(*habits: Sequence[float]) -> tuple[float, ...]:
    """Combine habits into one habit.

    For every bin, the share of users in this bin or above it is the largest share among the habits.
    """
    tails = _tails(*habits).max(axis=0)
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def _tails(*habits: Sequence[float]) -> Floats:
    """For each bin, the share of users in this bin or in a higher one."""
    from_last_bin = _pad(habits)[:, ::-1]
    return np.asarray(np.cumsum(from_last_bin, axis=1)[:, ::-1])


def _pad(habits: Sequence[Sequence[float]]) -> Floats:
    return np.array(list(zip_longest(*habits, fillvalue=0.0))).T


# A list is shared if at least this many users and at least this share of all users have it.
_MANY = 5
_LEAST_SHARE = 0.001

# About this many former lists are used for comparison. The lists of about this many hit users are
# compared with them.
_OTHER_LISTS = 500
_SAMPLE = 300

# Lists are still the user's own if they kept enough of the user's former list. The limit lies
# between the share that another user's list has in common with it and the share that lists usually
# keep. It is this part of the way from the first share to the second.
_STILL_OWN = 0.12

# New lists are taken for other users' lists if they are as similar to former lists as former lists
# are to each other. These factors of that similarity are enough. The first factor is for the most
# similar list, and the second factor is for the mean over all lists.
_LIKE_ONE = 0.75
_LIKE_ALL = 0.6


def find_shared(codes: Codes, many: int = _MANY) -> tuple[Flags, Integers]:
    """Find the users with a list that many users have, and number the lists, (n,) each.

    Equal lists have the same number. The number is -1 if only one user has the list.
    """
    group = number_repeated(codes)
    users = np.bincount(group + 1, minlength=1)[group + 1]
    return (users >= max(many, _LEAST_SHARE * len(codes))) & (group >= 0), group


def judge_lists(lists: OwnLists, hit: Flags) -> FaultKind:
    """Decide whether these lists are other users' lists, random lists, or the user's own new lists.

    The results are `MIXED_UP`, `NOISE` and `REPLACED`, in this order. The ``hit`` users must have
    lists in both runs.
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
    # Another user's list is as far from the user's former list as the lists of any two users are
    # from each other.
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
    """Count the items that each list has in common with each other list, (lists, other lists).

    The count is 0 if both lists belong to the same user.
    """
    listed = other_lists >= 0
    items = np.unique(other_lists[listed])
    has_item = np.zeros((len(items), len(other_lists)), dtype=np.float32)
    has_item[np.searchsorted(items, other_lists[listed]), np.nonzero(listed)[0]] = 1
    # A code above all items would get the place len(items), which does not exist. It is clipped
    # here, and the next statement ignores it.
    item_places = np.searchsorted(items, codes).clip(max=len(items) - 1)
    is_there = (codes >= 0) & (items[item_places] == codes)
    common = np.zeros((len(codes), len(other_lists)), dtype=np.float32)
    # The loop adds one rank after the other, because an array of all ranks would be too large.
    for rank in range(codes.shape[1]):
        common += np.where(is_there[:, rank, None], has_item[item_places[:, rank]], 0)
    common[code_users[:, None] == other_users] = 0
    return common
