"""How an arm changes its own lists from run to run: shares of users by how much they changed, and what is beyond it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from monitor.attribution.changes import OwnLists
from monitor.kernels.exposure import number_repeated
from monitor.model.arrays import Codes, Flags, Floats, Integers, Rows
from monitor.model.explanation import FaultKind

_BINS = 10
_LEAST_USERS = 5.0
_SURE = 4.0

# How many times the usual share of users counts as usual still, since trainings differ; less so for
# habits with few bins.
_WANDERS, _HARDLY_WANDERS = 3.0, 1.5

# Share of usual users from a bin on of which no more than chance can be said of the others.
_SAYS_LITTLE = 0.95
_FEW_BINS = 4


class Habit(StrEnum):
    """A way in which a user's list may differ from the same arm's former one, in bins from ordinary to far out."""

    REPLACED = "replaced"  # share of items that are gone
    TURNED = "turned"  # share of pairs of common items that stand the other way around
    MOVED = "moved"  # both together
    TOP_TURNED = "top_turned"  # pairs of the first three that do, where these are the same three
    STILL = "still"  # the list is the same
    SHARED = "shared"  # many users have it


def bin_lists(lists: OwnLists, is_still: Flags) -> dict[Habit, Integers]:
    """Bin of each user by habit, from 0, -1 where nothing can be said, such as of users without former lists: integers (n,)."""
    is_known = ~np.isnan(lists.kept)
    replaced, turned = (
        np.rint(_BINS * (1 - np.nan_to_num(lists.kept))),
        np.floor(_BINS * lists.turned),
    )
    bins = {
        Habit.REPLACED: replaced,
        Habit.TURNED: turned,
        Habit.MOVED: replaced + turned,
        Habit.TOP_TURNED: np.where(lists.has_same_top, lists.turned_on_top, -1),
        Habit.STILL: is_still,
        Habit.SHARED: find_shared(lists.present)[0],
    }
    return {
        habit: np.where(is_known, values, -1).astype(np.int64) for habit, values in bins.items()
    }


def share_bins(bins: Integers) -> tuple[float, ...]:
    """Share of those users of whom something can be said by bin, up to the last one that has any."""
    counts = np.bincount(bins[bins >= 0], minlength=1)
    return tuple((counts / max(1, counts.sum())).tolist())


def pool_bins(runs: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Mean shares by bin, runs counting alike."""
    return tuple(_pad(runs).mean(axis=0).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class Outliers:
    """Users beyond what is usual."""

    least: int  # their least bin
    usual: float  # share of ordinary users that may lie there, too
    reversed: float  # share of them that would if the habit were turned round
    # Share of users by which there are more than usual, of those who usually lie elsewhere
    beyond: float


def find_excess(bins: Integers, usual: Sequence[float]) -> Outliers | None:
    """The bin from which on far more users lie than usual, None where none does.

    ``bins`` from `bin_lists`, ``usual`` shares by bin. With p and r the shares now and usual from a
    bin on, it is that of the greatest p - 3 r beyond doubt, p - 1.5 r with few bins."""
    known = bins[bins >= 0]
    if not len(known):
        return None
    now, then = _tails(share_bins(known), usual)
    at_most = np.minimum(1.0, (_HARDLY_WANDERS if len(now) <= _FEW_BINS else _WANDERS) * then)
    beyond = now - at_most
    doubt = (_LEAST_USERS + _SURE * np.sqrt(len(known) * then)) / len(known)
    beyond[now - then < doubt] = -np.inf
    least = 1 + int(np.argmax(beyond[1:])) if len(now) > 1 else 0
    if not least or beyond[least] <= 0:
        return None
    hit, turned = (
        (now - then)[least] / max(1 - then[least], 1e-9),
        float(sum(usual[: _BINS - least + 1])),
    )
    return Outliers(least=least, usual=float(at_most[least]), reversed=turned, beyond=float(hit))


def least_share(bins: Integers, usual: Sequence[float]) -> float:
    """Least share of users that were hit, 0 to 1, since fewer than usual are left in the most ordinary bins.

    With q and s the shares now and usual up to a bin, at most q / s of the users are as usual (a mixture's greatest known part:
    Blanchard, Lee and Scott 2010); bins up to which hardly anybody lies are left to chance.
    """
    now, then = _tails(share_bins(bins), usual)
    says_much = then[1:] <= _SAYS_LITTLE
    return float(((now - then)[1:][says_much] / (1 - then[1:][says_much])).max(initial=0.0))


def widest(*habits: Sequence[float]) -> tuple[float, ...]:
    """Shares by bin that lie as far out, from every bin on, as the farthest of these."""
    tails = _tails(*habits).max(axis=0)
    return tuple((tails - np.append(tails[1:], 0.0)).tolist())


def _tails(*habits: Sequence[float]) -> Floats:
    """Shares from each bin on."""
    return np.asarray(np.cumsum(_pad(habits)[:, ::-1], axis=1)[:, ::-1])


def _pad(habits: Sequence[Sequence[float]]) -> Floats:
    return np.array(list(zip_longest(*habits, fillvalue=0.0))).T


# Users from which on a list is nobody's own, and share of all of them.
_MANY = 5
_LEAST_SHARE = 0.001

# Former lists that lists are compared with, and of how many users.
_MODELS = 500
_LOOKED_AT = 300

# From where on, between what two strangers' lists share and what a user's own usually do, lists are
# the user's own still.
_OWN = 0.12

# Share of what former lists have in common with one another that lists of other users still have,
# with the likest and with all.
_LIKEST = 0.75
_LIKE = 0.6


def find_shared(codes: Codes) -> tuple[Flags, Integers]:
    """Whether so many users have the list that it is nobody's own, and a number for each list that is shared: (n,) both."""
    group = number_repeated(codes)
    users = np.bincount(group + 1, minlength=1)[group + 1]
    return (users >= max(_MANY, _LEAST_SHARE * len(codes))) & (group >= 0), group


def judge_lists(lists: OwnLists, hit: Flags) -> FaultKind:
    """Whether these lists are other users', nobody's, or just others than before."""
    rows, models = np.flatnonzero(hit), np.flatnonzero(lists.former_lengths)
    rows, models = (
        rows[:: max(1, len(rows) // _LOOKED_AT)],
        models[:: max(1, len(models) // _MODELS)],
    )
    former, present = (
        _count_common(codes[rows], lists.former[models], rows, models)
        for codes in (lists.former, lists.present)
    )
    own = float(np.nanmean(lists.kept[rows]))
    k = max(1.0, float(lists.former_lengths[rows].mean()))
    ordinary = lists.kept[~hit & ~np.isnan(lists.kept)]
    strangers, usual = former.mean() / k, float(ordinary.mean()) if len(ordinary) else 1.0
    # Lists of other users are as far from one's own former list as any two users' lists are.
    if own > strangers + _OWN * (usual - strangers):
        return FaultKind.REPLACED
    is_somebodys = (
        present.max(axis=1).mean() >= _LIKEST * former.max(axis=1).mean()
        and present.mean() >= _LIKE * former.mean()
    )
    return FaultKind.MIXED_UP if is_somebodys else FaultKind.NOISE


def _count_common(codes: Codes, models: Codes, rows: Rows, places: Rows) -> npt.NDArray[np.float32]:
    """Items in common of each of these lists with each model, 0 with a user's own: (m, models)."""
    items = np.unique(models[models >= 0])
    held = np.zeros((len(items), len(models)), dtype=np.float32)
    where = models >= 0
    held[np.searchsorted(items, models[where]), np.nonzero(where)[0]] = 1
    found = np.searchsorted(items, codes).clip(0, max(0, len(items) - 1))
    is_there = (codes >= 0) & (items[found] == codes)
    common = np.zeros((len(codes), len(models)), dtype=np.float32)
    for place in range(codes.shape[1]):
        common += np.where(is_there[:, place, None], held[found[:, place]], 0)
    common[rows[:, None] == places] = 0
    return common
