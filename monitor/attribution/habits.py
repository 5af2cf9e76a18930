"""An arm's habit: how its own lists usually change from run to run, and what is beyond it."""

from collections.abc import Sequence
from enum import StrEnum
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from monitor.attribution.changes import OwnLists
from monitor.immutable import immutable
from monitor.kernels.exposure import number_repeated
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.explanation import FaultKind

_BINS = 10
_LEAST_USERS = 5.0
_SURE = 4.0

# Up to this multiple of the usual share of users is usual, since trainings differ. The smaller one
# is for habits with few bins.
_WANDERS = 3.0
_HARDLY_WANDERS = 1.5

# If this share of usual users is at or above a bin, the other users may be chance.
_SAYS_LITTLE = 0.95
_FEW_BINS = 4


class Habit(StrEnum):
    """A way in which a user's list may differ from the same arm's former one.

    Bins go from ordinary to far out.
    """

    REPLACED = "replaced"  # share of items that were removed
    TURNED = "turned"  # share of the pairs of common items in reversed order
    MOVED = "moved"  # both together
    TOP_TURNED = "top_turned"  # reversed pairs of the first three, if these are the same items
    STILL = "still"  # the list is the same
    SHARED = "shared"  # many users have the list
    IDENTICAL = "identical"  # the list is the other arm's, only binned for the candidate


def bin_lists(lists: OwnLists, is_still: Flags) -> dict[Habit, Integers]:
    """Bin of each user by habit, integers (n,) from 0.

    -1 for users that cannot be judged, such as users without former lists.
    """
    is_known = ~np.isnan(lists.kept_share)
    replaced = np.rint(_BINS * (1 - np.nan_to_num(lists.kept_share)))
    turned = np.floor(_BINS * lists.turned_share)
    bins = {
        Habit.REPLACED: replaced,
        Habit.TURNED: turned,
        Habit.MOVED: replaced + turned,
        Habit.TOP_TURNED: np.where(lists.has_same_top, lists.turned_on_top, -1),
        Habit.STILL: is_still,
        Habit.SHARED: find_shared(lists.present)[0],
    }
    for habit, values in bins.items():
        bins[habit] = np.where(is_known, values, -1).astype(np.int64)
    return bins


def share_bins(bins: Integers) -> tuple[float, ...]:
    """Share of the users that can be judged by bin, up to the last bin with a user."""
    counts = np.bincount(bins[bins >= 0], minlength=1)
    return tuple((counts / max(1, counts.sum())).tolist())


def pool_bins(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Mean shares by bin, with the same weight for each run."""
    return tuple(_pad(runs).mean(axis=0).tolist())


@immutable
class Outliers:
    """Users beyond what is usual."""

    least: int  # their least bin
    usual: float  # share of ordinary users that may be there too
    reversed: float  # share of ordinary users that would be there if the habit were reversed
    # Share of users beyond the usual share, among users that usually are elsewhere.
    beyond: float


def find_excess(bins: Integers, usual: Sequence[float]) -> Outliers | None:
    """The bin from which on there are far more users than usual. None if there is none.

    ``bins`` is from `bin_lists`, ``usual`` has shares by bin. With p and r the present and the
    usual share from a bin on, it is the bin with the greatest p - 3 r among those with a
    significant p - r. With few bins it is the greatest p - 1.5 r.
    """
    judged = bins[bins >= 0]
    if not len(judged):
        return None
    now, before = _tails(share_bins(judged), usual)
    wanders = _HARDLY_WANDERS if len(now) <= _FEW_BINS else _WANDERS
    at_most = np.minimum(1.0, wanders * before)
    beyond = now - at_most
    doubt = (_LEAST_USERS + _SURE * np.sqrt(len(judged) * before)) / len(judged)
    beyond[now - before < doubt] = -np.inf
    if len(now) == 1:
        return None
    least = 1 + int(np.argmax(beyond[1:]))
    if beyond[least] <= 0:
        return None
    return Outliers(
        least=least,
        usual=float(at_most[least]),
        reversed=float(sum(usual[: _BINS - least + 1])),
        beyond=float((now - before)[least] / max(1 - before[least], 1e-9)),
    )


def least_share(bins: Integers, usual: Sequence[float]) -> float:
    """Least share of users that were hit, 0 to 1: fewer than usual are in the ordinary bins.

    With q and s the present and the usual share up to a bin, at most q / s of the users are usual
    (the greatest share of a known part in a mixture: Blanchard, Lee and Scott 2010). Bins up to
    which there is hardly any usual user are ignored.
    """
    now, before = _tails(share_bins(bins), usual)
    says_much = before[1:] <= _SAYS_LITTLE
    fewer = (now - before)[1:][says_much]
    at_most = 1 - before[1:][says_much]
    return float((fewer / at_most).max(initial=0.0))


def widest(*habits: Sequence[float]) -> tuple[float, ...]:
    """Shares by bin with the greatest of these habits' shares from every bin on."""
    tails = _tails(*habits).max(axis=0)
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def _tails(*habits: Sequence[float]) -> Floats:
    """Shares from each bin on."""
    from_last_bin = _pad(habits)[:, ::-1]
    return np.asarray(np.cumsum(from_last_bin, axis=1)[:, ::-1])


def _pad(habits: Sequence[Sequence[float]]) -> Floats:
    return np.array(list(zip_longest(*habits, fillvalue=0.0))).T


# A list is shared if at least this many users have it, and this share of all users.
_MANY = 5
_LEAST_SHARE = 0.001

# Number of former lists to compare with, and of users whose lists are compared.
_MODELS = 500
_SAMPLE = 300

# Lists are still the user's own from this place on between two values: what the lists of two
# users have in common, and what a user's lists usually have in common.
_STILL_OWN = 0.12

# Former lists have items in common. Lists of other users have at least these shares of that in
# common with them: with the most similar list, and with all.
_LIKEST = 0.75
_LIKE = 0.6


def find_shared(codes: Codes) -> tuple[Flags, Integers]:
    """Whether many users have the same list, and a number for each list that is shared: (n,)."""
    group = number_repeated(codes)
    users = np.bincount(group + 1, minlength=1)[group + 1]
    return (users >= max(_MANY, _LEAST_SHARE * len(codes))) & (group >= 0), group


def judge_lists(lists: OwnLists, hit: Flags) -> FaultKind:
    """Whether these lists are other users' lists, random, or just others than before."""
    rows = _thin(np.flatnonzero(hit), _SAMPLE)
    models = _thin(np.flatnonzero(lists.former_lengths), _MODELS)
    former = _count_common(lists.former[rows], lists.former[models], rows, models)
    present = _count_common(lists.present[rows], lists.former[models], rows, models)
    own_share = float(np.nanmean(lists.kept_share[rows]))
    strangers_share = former.mean() / max(1.0, float(lists.former_lengths[rows].mean()))
    ordinary = lists.kept_share[~hit & ~np.isnan(lists.kept_share)]
    usual_share = float(ordinary.mean()) if len(ordinary) else 1.0
    # Lists of other users are as far from the user's former list as the lists of any two users.
    if own_share > strangers_share + _STILL_OWN * (usual_share - strangers_share):
        return FaultKind.REPLACED
    likest_now = present.max(axis=1).mean()
    likest_before = former.max(axis=1).mean()
    is_like_one = likest_now >= _LIKEST * likest_before
    if is_like_one and present.mean() >= _LIKE * former.mean():
        return FaultKind.MIXED_UP
    return FaultKind.NOISE


def _thin(rows: Rows, count: int) -> Rows:
    """About ``count`` of the rows, evenly spaced."""
    return rows[:: max(1, len(rows) // count)]


def _count_common(
    codes: Codes,
    models: Codes,
    rows: Rows,
    places: Rows,
) -> npt.NDArray[np.float32]:
    """Items in common of each list with each model, 0 with the user's own: (lists, models)."""
    items = np.unique(models[models >= 0])
    has_item = np.zeros((len(items), len(models)), dtype=np.float32)
    where = models >= 0
    has_item[np.searchsorted(items, models[where]), np.nonzero(where)[0]] = 1
    item_places = np.searchsorted(items, codes).clip(0, max(0, len(items) - 1))
    is_there = (codes >= 0) & (items[item_places] == codes)
    common = np.zeros((len(codes), len(models)), dtype=np.float32)
    for rank in range(codes.shape[1]):
        common += np.where(is_there[:, rank, None], has_item[item_places[:, rank]], 0)
    common[rows[:, None] == places] = 0
    return common
