"""Features of how lists change from run to run, their usual histograms, and larger changes."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest

import numpy as np

from monitor.measures.kernels.list_traits import flag_shifted, number_repeated
from monitor.model.arrays import Codes, Flags, Floats, Integers
from monitor.model.immutable import immutable
from monitor.statistics.attribution.changes import OwnLists

# A feature that measures a share from 0 to 1 has the bins 0 to `SHARE_BINS`.
SHARE_BINS = 10

# The users in high bins must exceed the usual number by at least so many users, plus so many
# standard deviations.
_LEAST_USERS = 5.0
_SURE = 4.0

# A share of users is normal up to this multiple of the usual share, because trainings differ. The
# second multiple is for features with at most `_FEW_BINS` bins.
_TIMES_USUAL = 3.0
_TIMES_USUAL_FEW_BINS = 1.5
_FEW_BINS = 4

# A bin is ignored if more than this share of the users is usually in it or above it.
_NEARLY_ALL = 0.95


class ChangeFeature(StrEnum):
    """A feature of how one user's list differs from the same arm's former list.

    Each feature has bins. Ordinary lists are in low bins, and rare lists are in high bins.
    """

    REPLACED = "replaced"  # share of items that were removed
    REORDERED = "reordered"  # share of the pairs of common items in reversed order
    TOTAL = "total"  # the sum of the bins of `REPLACED` and `REORDERED`
    FIRST_MOVED = "first_moved"  # place of the former first item, if it is among the first three
    FIRST_GONE = "first_gone"  # the former first item is not in the list any more
    FIRST_NEW = "first_new"  # the first item was not in the former list
    ITEM_MOVED = "item_moved"  # the list follows the most moved item, see `OwnLists`
    FIRST_ITEM_MOVED = "first_item_moved"  # the first place follows the item that moved most there
    UNCHANGED = "unchanged"  # the list is unchanged
    SHARED = "shared"  # many users have the list
    # These three compare the lists of both arms. They are stored as features of the candidate.
    IDENTICAL = "identical"
    ALIKE = "alike"  # nearly the same list
    INTERLEAVED = "interleaved"  # another list and the baseline's list may have taken turns


def bin_lists(lists: OwnLists, is_unchanged: Flags) -> dict[ChangeFeature, Integers]:
    """Return each user's bin for each feature that compares lists of one arm, integers (n,).

    Bins are counted from 0. The bin is -1 if the user cannot be judged, for example because a list
    is empty. ``is_unchanged`` marks the users with unchanged lists.
    """
    is_known = ~np.isnan(lists.kept_share)
    # The share is rounded to the nearest bin. So one new item of a list of 10 items is in bin 1.
    replaced = np.rint(SHARE_BINS * (1 - np.nan_to_num(lists.kept_share)))
    # This share is rounded down. So lists with a few pairs in reversed order are in bin 0.
    reordered = np.floor(SHARE_BINS * lists.reversed_share)
    is_shared, _ = flag_shared_lists(lists.present)
    was_shared, _ = flag_shared_lists(lists.former)
    is_first_gone, is_first_new = flag_shifted(lists.former, lists.present)
    bins = {
        ChangeFeature.REPLACED: replaced,
        ChangeFeature.REORDERED: reordered,
        ChangeFeature.TOTAL: replaced + reordered,
        ChangeFeature.FIRST_MOVED: lists.place_of_first,
        ChangeFeature.FIRST_GONE: is_first_gone,
        ChangeFeature.FIRST_NEW: is_first_new,
        ChangeFeature.ITEM_MOVED: lists.has_item_change,
        ChangeFeature.FIRST_ITEM_MOVED: lists.first_items.has_item_change,
        ChangeFeature.UNCHANGED: is_unchanged,
        ChangeFeature.SHARED: is_shared,
    }
    for feature, values in bins.items():
        bins[feature] = np.where(is_known, values, -1).astype(np.int64)
    # A list that many users now get is a fault of its own, whatever items it has.
    for feature in (ChangeFeature.REPLACED, ChangeFeature.REORDERED, ChangeFeature.TOTAL):
        bins[feature][is_shared & ~was_shared] = -1
    return bins


def share_bins(bins: Integers) -> tuple[float, ...]:
    """Return the share of the users in each bin, up to the last bin with a user.

    Users that cannot be judged are left out.
    """
    counts = np.bincount(bins[bins >= 0], minlength=1)
    return tuple((counts / max(1, counts.sum())).tolist())


def pool_bins(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the mean share of each bin over the runs. All runs have the same weight."""
    return tuple(_pad(runs).mean(axis=0).tolist())


@immutable
class Outliers:
    """The users in high bins, if more users than usual are in these bins."""

    lowest_bin: int  # the lowest of these bins
    greatest_normal_share: float  # share of ordinary users that may be in these bins too
    # Estimated share of affected users: the share of users in these bins minus the usual share,
    # divided by the share of users that are usually in lower bins.
    affected_share: float


def find_outlying_bins(bins: Integers, usual: Sequence[float]) -> Outliers | None:
    """Find the lowest bin of the outliers.

    ``bins`` has the bin of each user for one feature, see `bin_lists`. Users with the bin -1 cannot
    be judged and are left out. ``usual`` has the usual share of each bin.

    For each bin, ``above`` is the present share of users in this bin or above it, and
    ``usually_above`` is the usual share. ``above`` is normal up to a multiple of ``usually_above``.
    The bin in which ``above`` exceeds this ``greatest_normal`` share most is selected. There,
    ``above`` must also be significantly greater than ``usually_above``. None if there is no such
    bin, if there is only one bin, or if no user can be judged.
    """
    judged = bins[bins >= 0]
    if not len(judged):
        return None
    above, usually_above = _tails(share_bins(judged), usual)
    if len(above) == 1:
        return None
    times_usual = _TIMES_USUAL
    if len(above) <= _FEW_BINS:
        times_usual = _TIMES_USUAL_FEW_BINS
    greatest_normal = times_usual * usually_above
    above_normal = above - greatest_normal
    rise = above - usually_above
    least_rise = (_LEAST_USERS + _SURE * np.sqrt(len(judged) * usually_above)) / len(judged)
    above_normal[rise < least_rise] = -np.inf
    # All users are in the first bin or above it, so the first bin is left out.
    lowest_bin = 1 + int(np.argmax(above_normal[1:]))
    if above_normal[lowest_bin] <= 0:
        return None
    return Outliers(
        lowest_bin=lowest_bin,
        greatest_normal_share=float(greatest_normal[lowest_bin]),
        affected_share=float(rise[lowest_bin] / (1 - usually_above[lowest_bin])),
    )


@immutable
class ClearestBin:
    """The bin that shows best how many users are affected, see `find_clearest_bin`."""

    lowest_bin: int  # the users in this bin or above it look affected
    usual_share: float  # share of users that are usually in it or above it
    affected_share: float  # lower bound on the share of affected users, 0 to 1


def find_clearest_bin(bins: Integers, usual: Sequence[float]) -> ClearestBin:
    """Find the bin that gives the greatest lower bound on the share of affected users.

    ``bins`` has the bin of each user now, and ``usual`` the usual share of users in each bin. For
    each bin, ``above`` is the present share of users in this bin or above it, and ``usually_above``
    is the usual share. So the share 1 - above of all users is in lower bins.

    Unaffected users are in lower bins as often as usual. Let u be the share of unaffected users.
    Then the share u (1 - usually_above) of all users is unaffected and in lower bins. This is at
    most 1 - above. So at least the share (above - usually_above) / (1 - usually_above) of the users
    is affected (Blanchard, Lee and Scott 2010). A bin is ignored if hardly any user is usually
    below it, and so is the first bin.
    """
    above, usually_above = _tails(share_bins(bins), usual)
    bounds = np.zeros(len(above))
    is_used = usually_above <= _NEARLY_ALL
    bounds[is_used] = (above - usually_above)[is_used] / (1 - usually_above[is_used])
    lowest_bin = int(bounds.argmax())
    return ClearestBin(
        lowest_bin=lowest_bin,
        usual_share=float(usually_above[lowest_bin]),
        affected_share=float(bounds[lowest_bin]),
    )


def least_affected_share(bins: Integers, usual: Sequence[float]) -> float:
    """Return the lower bound of `find_clearest_bin` on the share of affected users, 0 to 1."""
    return find_clearest_bin(bins, usual).affected_share


def widest_shares(*histograms: Sequence[float]) -> tuple[float, ...]:
    """Combine several histograms of one feature. A histogram has the share of users in each bin.

    For each bin, the share of users in this bin or above it is the largest of all histograms.
    """
    tails = _tails(*histograms).max(axis=0)
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def scale_to_part(
    usual: Sequence[float], part: Sequence[float], whole: Sequence[float]
) -> tuple[float, ...]:
    """Return the usual shares of a part of the users, from the ``usual`` shares of all users.

    ``part`` and ``whole`` are the shares of these users, and of all users, at another time. For
    each bin, the usual share of users in this bin or above it is multiplied by how much larger this
    share was in the part than in the whole.
    """
    usual_tails, part_tails, whole_tails = _tails(usual, part, whole)
    ratios = np.ones(len(usual_tails))
    np.divide(part_tails, whole_tails, out=ratios, where=whole_tails > 0)
    # A share of users in high bins is at most the share in lower bins.
    tails = np.minimum.accumulate(np.minimum(1.0, usual_tails * ratios))
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def _tails(*histograms: Sequence[float]) -> Floats:
    """Return for each histogram and bin the share of users in this bin or in a higher one.

    All histograms get as many bins as the longest one.
    """
    from_last_bin = _pad(histograms)[:, ::-1]
    return np.asarray(np.cumsum(from_last_bin, axis=1)[:, ::-1])


def _pad(histograms: Sequence[Sequence[float]]) -> Floats:
    """Return the shares as an array (histograms, bins). Missing bins have the share 0."""
    return np.array(list(zip_longest(*histograms, fillvalue=0.0))).T


# A list is shared if at least this many users and at least this share of all users have it.
_LEAST_SHARING_USERS = 5
_LEAST_SHARING_SHARE = 0.001


def flag_shared_lists(
    codes: Codes, least_users: int = _LEAST_SHARING_USERS
) -> tuple[Flags, Integers]:
    """Return for each user whether many users have the same items, and the number of the list.

    Lists with the same items have the same number. The number is -1 if only one user has the list,
    and if the list is empty.
    """
    # The order does not matter. Padding stays at the end.
    list_numbers = number_repeated(np.sort(codes, axis=1)[:, ::-1])
    # 1 is added, because `np.bincount` does not accept -1.
    users_with_list = np.bincount(list_numbers + 1, minlength=1)[list_numbers + 1]
    is_shared = users_with_list >= max(least_users, _LEAST_SHARING_SHARE * len(codes))
    return is_shared & (list_numbers >= 0), list_numbers
