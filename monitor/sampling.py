"""The panel of one run: which users it asks for, reproducible and seeded, and their segments. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.model.comparison import Comparison, Keep, SampleSize
from monitor.model.rankings import ALL, Panel, UserTable
from monitor.model.segments import name_value

UNKNOWN_VALUE = "unknown"
"""Value of a user who has none in a dimension."""
OTHER_VALUE = "other"
"""Value that takes in the rarest values when a dimension has too many."""
_LONGEST = 120
"""Characters of a value that stand in a segment's name; segments become labels and keys."""


def draw(users: UserTable, comparison: Comparison, slot: datetime) -> Panel:
    """Panel of the comparison for this slot, sorted by user; everybody without a sample size.

    Those with the smallest keyed hash are drawn; the key of the ``fixed`` users holds seed and
    family, that of the ``rotating`` ones also the slot: a draw depends on nothing else, and a user
    who joins displaces at most one. Where the sample has a minimum, each segment also holds the so
    many of its users whose hash is smallest. Within a segment and in ``all`` everybody had the same
    chance, and plain means are unbiased (equal inclusion probabilities; Cochran 1977, ch. 2).
    Whoever is added weighs 1 in that segment and 0 elsewhere: weights of their own (Horvitz and
    Thompson 1952) would lower the variance in ``all`` by little, and make quantiles and bets
    inexact."""
    size = comparison.measuring.sample
    order = (
        users.users.argsort()
        if not users.users.is_monotonic_increasing
        else np.arange(len(users), dtype=np.intp)
    )
    drawn = (
        np.arange(len(order))
        if size is None
        else _sample(users.users[order], size, comparison, slot)
    )
    is_topped_up = size is not None and size.minimum > 0
    order = order if is_topped_up else order[drawn]
    segments = {name: categories.take(order) for name, categories in users.segments.items()}
    # Judged on all users, not on those drawn: which values have a segment must not change with the
    # draw.
    kept = {
        name: frequent(categories, comparison.measuring.max_segment_values)
        for name, categories in users.segments.items()
    }
    panel = Panel(users=users.users[order], segments=split(len(order), segments, kept))
    return (
        panel
        if size is None or not is_topped_up
        else _top_up(panel, drawn, size.minimum, _fixed_salt(comparison))
    )


def _top_up(everybody: Panel, drawn: npt.NDArray[np.intp], minimum: int, salt: str) -> Panel:
    """Of all users those drawn, in each segment beside them the ``minimum`` whose hash is smallest: positions ascend."""
    hashes = _hashes(everybody.users.to_numpy(dtype=object), salt)
    is_drawn = np.zeros(len(everybody), dtype=np.bool_)
    is_drawn[drawn] = True
    found = {ALL: drawn}
    for segment, rows in everybody.segments.items():
        if segment != ALL:
            first = rows[np.argsort(hashes[rows], kind="stable")[:minimum]]
            found[segment] = np.union1d(first, rows[is_drawn[rows]])
    asked = np.unique(np.concatenate([*found.values()]))
    segments = {segment: np.searchsorted(asked, rows) for segment, rows in found.items()}
    return Panel(users=everybody.users[asked], segments=segments)


def kept_among(
    users: pd.Index[str], keep: Keep | int, comparison: Comparison
) -> npt.NDArray[np.bool_]:
    """Which of these users a run keeps scores or lists of: bool (n,).

    A number of them is drawn by the hash that draws the fixed users: the same ones in each run, and
    drawn of batches and once more the same as drawn of all. ``PANEL`` are a run's fixed users,
    nobody without a sample. Where users are left out, every fixed one is still found, and for each
    left out at most one rotating user is taken for one."""
    sample = comparison.measuring.sample
    if keep is Keep.PANEL:
        keep = Keep.NONE if sample is None else sample.fixed
    is_kept = np.full(len(users), keep is Keep.ALL)
    if not isinstance(keep, Keep):
        is_kept[_smallest(users.to_numpy(dtype=object), keep, _fixed_salt(comparison))] = True
    return is_kept


def _sample(
    users: pd.Index[str], size: SampleSize, comparison: Comparison, slot: datetime
) -> npt.NDArray[np.intp]:
    """Positions of the drawn users, ascending."""
    if size.fixed + size.rotating >= len(users):
        return np.arange(len(users), dtype=np.intp)
    names = users.to_numpy(dtype=object)
    fixed = _smallest(names, size.fixed, _fixed_salt(comparison))
    rest = np.setdiff1d(np.arange(len(users), dtype=np.intp), fixed, assume_unique=True)
    rotating = rest[
        _smallest(names[rest], size.rotating, f"{_fixed_salt(comparison)}\0{slot.isoformat()}")
    ]
    return np.sort(np.concatenate([fixed, rotating]))


def _fixed_salt(comparison: Comparison) -> str:
    return f"{comparison.measuring.seed}\0{comparison.family or comparison.name}"


def hash_users(users: pd.Index[str], comparison: Comparison) -> npt.NDArray[np.uint64]:
    """Hashes of users, the same in each run of the comparison, and independent of who is drawn."""
    return _hashes(users.to_numpy(dtype=object), f"{_fixed_salt(comparison)}\0looked at together")


def is_sampled(panel: Panel, share: float, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which users are in a seeded sample of about this share of those who stand for all: bool (n,), by `hash_users`."""
    is_drawn = np.zeros(len(panel), dtype=np.bool_)
    is_drawn[panel.segments[ALL]] = True
    return is_drawn if share >= 1 else is_drawn & (hashes < np.uint64(share * 2**64))


def _smallest(names: npt.NDArray[np.object_], count: int, salt: str) -> npt.NDArray[np.intp]:
    """Positions of the ``count`` names whose hash under this salt is smallest.

    Equal hashes go by position.
    """
    return np.argsort(_hashes(names, salt), kind="stable")[:count]


def _hashes(names: npt.NDArray[np.object_], salt: str) -> npt.NDArray[np.uint64]:
    key = hashlib.sha256(salt.encode()).hexdigest()[:16]
    return pd.util.hash_array(names, hash_key=key, categorize=False)


def split(
    n: int, dimensions: Mapping[str, pd.Categorical[Any]], kept: Mapping[str, Collection[int]]
) -> dict[str, npt.NDArray[np.intp]]:
    """Positions of n users by segment name, ``all`` first, then by dimension and value.

    No segment is empty.

    ``kept``: codes of each dimension that are segments; others are ``dimension=other``, no value
    ``dimension=unknown``."""
    segments = {ALL: np.arange(n, dtype=np.intp)}
    for dimension, categories in dimensions.items():
        codes = np.asarray(categories.codes)
        named: dict[str, list[npt.NDArray[np.intp]]] = {}
        for code in kept[dimension]:
            name = _shortened(name_value(str(categories.categories[code])))
            named.setdefault(name, []).append(np.flatnonzero(codes == code))
        named.setdefault(OTHER_VALUE, []).append(
            np.flatnonzero((codes >= 0) & ~np.isin(codes, list(kept[dimension])))
        )
        named.setdefault(UNKNOWN_VALUE, []).append(np.flatnonzero(codes < 0))
        for value in sorted(named):
            positions = np.sort(np.concatenate(named[value]))
            if len(positions):
                segments[f"{dimension}={value}"] = positions
    return segments


def frequent(categories: pd.Categorical[Any], most: int) -> tuple[int, ...]:
    """Codes of the ``most`` most frequent values; equal counts go by the value's text."""
    codes = np.asarray(categories.codes)
    values = [str(value) for value in categories.categories]
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    return tuple(sorted(range(len(values)), key=lambda code: (-counts[code], values[code]))[:most])


def _shortened(value: str) -> str:
    """The value, or the begin of a long one with a hash that distinguishes it from others."""
    if len(value) <= _LONGEST:
        return value
    return f"{value[: _LONGEST - 9]}~{hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()[:8]}"
