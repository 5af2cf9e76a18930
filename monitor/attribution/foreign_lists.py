"""Lists that are not their users' own: shared by many, those of other users, or nobody's."""

import numpy as np
import numpy.typing as npt

from monitor.attribution.changes import OwnLists
from monitor.kernels.whole_lists import number_repeated
from monitor.model.arrays import Codes, Flags, Integers, Rows
from monitor.model.explanation import FaultKind

# Users from which on a list is nobody's own, and share of all of them.
_MANY = 5
_LEAST_SHARE = 0.001

# Former lists that lists are compared with, and of how many users.
_MODELS = 500
_LOOKED_AT = 300

# From where on, between what two strangers' lists share and what a user's own usually do, lists are the user's own still.
_OWN = 0.25

# Share of what former lists have in common with one another that lists of other users still have, with the likest and with all.
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
    rows, models = rows[:: max(1, len(rows) // _LOOKED_AT)], models[:: max(1, len(models) // _MODELS)]
    former, present = (
        _count_common(codes[rows], lists.former[models], rows, models) for codes in (lists.former, lists.present)
    )
    own = float(np.nanmean(lists.kept[rows]))
    k = max(1.0, float(lists.former_lengths[rows].mean()))
    ordinary = lists.kept[~hit & ~np.isnan(lists.kept)]
    strangers, usual = former.mean() / k, float(ordinary.mean()) if len(ordinary) else 1.0
    # Lists of other users are as far from one's own former list as any two users' lists are.
    if own > strangers + _OWN * (usual - strangers):
        return FaultKind.REPLACED
    is_somebodys = present.max(axis=1).mean() >= _LIKEST * former.max(axis=1).mean() and present.mean() >= _LIKE * former.mean()
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
