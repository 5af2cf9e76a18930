"""The panel of one run: its users, reproducible and seeded, and their segments. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.model.arrays import Flags, Hashes, Rows
from monitor.model.rankings import ALL, Panel, UserTable
from monitor.model.rules import Comparison, Keep, SampleSize
from monitor.model.segments import name_value

UNKNOWN_VALUE = "unknown"
"""Value of a user without a value in a dimension."""
OTHER_VALUE = "other"
"""Value that replaces the rarest values if a dimension has too many."""
_LONGEST = 120
"""Most characters of a value in a segment's name. Segments become labels and keys."""


def draw(users: UserTable, comparison: Comparison, slot: datetime) -> Panel:
    """Panel of the comparison for this slot, sorted by user. All users without a sample size.

    The users with the smallest keyed hashes are drawn. The key of the ``fixed`` users contains
    seed and family. The key of the ``rotating`` users also contains the slot. A draw depends on
    nothing else, and a new user replaces at most one user.

    If the sample has a minimum, each segment also contains that number of its users with the
    smallest hashes. Within a segment and in ``all`` every user had the same probability, and plain
    means are unbiased (equal inclusion probabilities; Cochran 1977, ch. 2). An added user weighs 1
    in that segment and 0 elsewhere. Separate weights (Horvitz and Thompson 1952) would reduce the
    variance in ``all`` by little, and make quantiles and bets inexact.
    """
    size = comparison.measuring.sample
    order = np.arange(len(users), dtype=np.intp)
    ids = users.users
    if not ids.is_monotonic_increasing:
        order = ids.argsort()
    drawn = np.arange(len(order))
    if size is not None:
        drawn = _sample(ids[order], size, comparison, slot)
    minimum = size.minimum if size is not None else 0
    if not minimum:
        order = order[drawn]
    # The segments are chosen by all users, so they do not change with the draw.
    most = comparison.measuring.max_segment_values
    frequent_codes = {name: frequent(values, most) for name, values in users.segments.items()}
    segments = {name: values.take(order) for name, values in users.segments.items()}
    panel = Panel(users=ids[order], segments=split(len(order), segments, frequent_codes))
    if not minimum:
        return panel
    return _top_up(panel, drawn, minimum, _fixed_salt(comparison))


def _top_up(everybody: Panel, drawn: Rows, minimum: int, salt: str) -> Panel:
    """The drawn users, and in each segment the ``minimum`` users with the smallest hashes.

    Positions ascend.
    """
    hashes = _hashes(everybody.users.to_numpy(dtype=object), salt)
    is_drawn = np.zeros(len(everybody), dtype=np.bool_)
    is_drawn[drawn] = True
    chosen = {ALL: drawn}
    for segment, rows in everybody.segments.items():
        if segment != ALL:
            first = rows[np.argsort(hashes[rows], kind="stable")[:minimum]]
            chosen[segment] = np.union1d(first, rows[is_drawn[rows]])
    panel_rows = np.unique(np.concatenate([*chosen.values()]))
    segments = {segment: np.searchsorted(panel_rows, rows) for segment, rows in chosen.items()}
    return Panel(users=everybody.users[panel_rows], segments=segments)


def select_kept(
    users: pd.Index[str], keep: Keep | int, comparison: Comparison
) -> npt.NDArray[np.bool_]:
    """Of which of these users a run keeps scores or lists: bool (n,).

    A number of users is drawn by the hash of the fixed users. So they are the same in each run. A
    second draw from the draws of batches gives the same users as a draw from all.
    ``PANEL`` means the run's fixed users, and no users without a sample. If users are missing from
    ``users``, all remaining fixed users are still chosen. Each missing fixed user is replaced by
    at most one rotating user.
    """
    sample = comparison.measuring.sample
    if keep is Keep.PANEL:
        keep = Keep.NONE if sample is None else sample.fixed
    is_kept = np.full(len(users), keep is Keep.ALL)
    if not isinstance(keep, Keep):
        is_kept[_smallest(users.to_numpy(dtype=object), keep, _fixed_salt(comparison))] = True
    return is_kept


def _sample(
    users: pd.Index[str],
    size: SampleSize,
    comparison: Comparison,
    slot: datetime,
) -> Rows:
    """Positions of the drawn users, ascending."""
    positions = np.arange(len(users), dtype=np.intp)
    if size.fixed + size.rotating >= len(users):
        return positions
    names = users.to_numpy(dtype=object)
    salt = _fixed_salt(comparison)
    fixed = _smallest(names, size.fixed, salt)
    rest = np.setdiff1d(positions, fixed, assume_unique=True)
    rotating = rest[_smallest(names[rest], size.rotating, f"{salt}\0{slot.isoformat()}")]
    return np.sort(np.concatenate([fixed, rotating]))


def _fixed_salt(comparison: Comparison) -> str:
    return f"{comparison.measuring.seed}\0{comparison.family or comparison.name}"


def hash_users(users: pd.Index[str], comparison: Comparison) -> Hashes:
    """Hashes of users, the same in each run of the comparison, and independent of the draw."""
    return _hashes(users.to_numpy(dtype=object), f"{_fixed_salt(comparison)}\0looked at together")


def is_sampled(panel: Panel, share: float, hashes: Hashes) -> Flags:
    """Which users are in a seeded sample of about this share of segment ``all``: bool (n,).

    ``hashes`` are those of `hash_users`.
    """
    is_drawn = np.zeros(len(panel), dtype=np.bool_)
    is_drawn[panel.segments[ALL]] = True
    if share >= 1:
        return is_drawn
    return is_drawn & (hashes < np.uint64(share * 2**64))


def _smallest(names: npt.NDArray[np.object_], count: int, salt: str) -> Rows:
    """Positions of the ``count`` names with the smallest hashes under this salt.

    Equal hashes are ordered by position.
    """
    return np.argsort(_hashes(names, salt), kind="stable")[:count]


def _hashes(names: npt.NDArray[np.object_], salt: str) -> Hashes:
    key = hashlib.sha256(salt.encode()).hexdigest()[:16]
    return pd.util.hash_array(names, hash_key=key, categorize=False)


def split(
    n: int,
    dimensions: Mapping[str, pd.Categorical[Any]],
    segment_codes: Mapping[str, Collection[int]],
) -> dict[str, Rows]:
    """Positions of n users by segment name, ``all`` first, then by dimension and value.

    No segment is empty. ``segment_codes``: codes of each dimension that are segments. Users with
    other codes are in ``dimension=other``, users without a value in ``dimension=unknown``.
    """
    segments = {ALL: np.arange(n, dtype=np.intp)}
    for dimension, categories in dimensions.items():
        codes = np.asarray(categories.codes)
        named: dict[str, list[Rows]] = {}
        for code in segment_codes[dimension]:
            name = _shortened(name_value(str(categories.categories[code])))
            named.setdefault(name, []).append(np.flatnonzero(codes == code))
        is_other = (codes >= 0) & ~np.isin(codes, list(segment_codes[dimension]))
        named.setdefault(OTHER_VALUE, []).append(np.flatnonzero(is_other))
        named.setdefault(UNKNOWN_VALUE, []).append(np.flatnonzero(codes < 0))
        for value in sorted(named):
            positions = np.sort(np.concatenate(named[value]))
            if len(positions):
                segments[f"{dimension}={value}"] = positions
    return segments


def frequent(categories: pd.Categorical[Any], most: int) -> tuple[int, ...]:
    """Codes of the ``most`` most frequent values. Equal counts are ordered by the value's text."""
    codes = np.asarray(categories.codes)
    values = [str(value) for value in categories.categories]
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    by_value = sorted(range(len(values)), key=values.__getitem__)
    order = sorted(by_value, key=counts.tolist().__getitem__, reverse=True)
    return tuple(order[:most])


def _shortened(value: str) -> str:
    """The value, or the beginning of a long one with a hash that makes it unique."""
    if len(value) <= _LONGEST:
        return value
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return f"{value[: _LONGEST - 9]}~{digest[:8]}"
