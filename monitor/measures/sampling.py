"""Draws the users of one run's panel, and splits them into segments.

The draw is seeded and reproducible. This module does no I/O.
"""

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
from monitor.model.unpaired import ARM_COLUMN

UNKNOWN_VALUE = "unknown"
"""A user without a value in a dimension gets this value."""
OTHER_VALUE = "other"
"""If a dimension has too many values, this value replaces the rarest ones."""
_LONGEST_VALUE_CHARS = 120
"""A longer value is shortened in the name of its segment to this number of characters.

The names become labels of metrics and keys in storage.
"""
_HASHED_AT_ONCE = 8192
"""For so many users, the memory of the texts in Python is used again for the next users."""


def draw_users(users: UserTable, comparison: Comparison, slot: datetime) -> Panel:
    """Draw the panel of the comparison for this slot, sorted by user.

    Without a sample size, the panel has all users.

    The users with the smallest keyed hashes are drawn. The key of the ``fixed`` users contains the
    seed and the family. The key of the ``rotating`` users also contains the slot. A draw depends on
    nothing else. A new user of the source replaces at most one drawn user.

    If the sample has a ``minimum``, each segment also gets the ``minimum`` of its users that have
    the smallest hashes. An added user belongs to that segment only, and not to ``all``. So within a
    segment, and within ``all``, every user is drawn with the same probability. Plain means are
    unbiased, because these probabilities are equal (Cochran 1977, ch. 2). The alternative is to add
    these users to ``all`` and to weight them (Horvitz and Thompson 1952). This would hardly reduce
    the variance in ``all``. It would make quantiles and sequential tests inexact.
    """
    size = comparison.measuring.sample
    order = np.arange(len(users), dtype=np.intp)
    ids = users.users
    if not ids.is_monotonic_increasing:
        order = ids.argsort()
    drawn = np.arange(len(order))
    minimum = None
    if size is not None:
        drawn = _draw_sample(ids[order], size, comparison, slot)
        minimum = size.minimum
    if not minimum:
        order = order[drawn]
    # The values of all users decide which values become segments, so that this does not depend on
    # the draw.
    most = comparison.measuring.max_segment_values
    frequent = {}
    for name, values in users.segments.items():
        count = len(values.categories) if name == ARM_COLUMN else most
        frequent[name] = frequent_codes(values, count)
    segments = {name: values.take(order) for name, values in users.segments.items()}
    panel = Panel(users=ids[order], segments=split_into_segments(len(order), segments, frequent))
    if not minimum:
        return panel
    return _top_up(panel, drawn, minimum, _fixed_salt(comparison))


def _top_up(everybody: Panel, drawn: Rows, minimum: int, salt: str) -> Panel:
    """Add to each segment the ``minimum`` users with the smallest hashes.

    In each segment, positions are in ascending order.
    """
    hashes = _hashes(everybody.users.to_numpy(dtype=object), salt)
    is_drawn = np.zeros(len(everybody), dtype=bool)
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
    """Select the users whose scores or lists a run stores. Returns bool (n,).

    If ``keep`` is a number, that many users are drawn, with the hash that also draws the fixed
    users. So each run selects the same users. Users may be drawn from each batch first. A second
    draw from the users selected so far gives the same result as one draw from all users.

    ``PANEL`` selects the run's fixed users, or no users if the comparison has no sample. If some
    fixed users are missing from ``users``, the other fixed users are still selected. In place of
    each missing user, at most one rotating user is selected.
    """
    sample = comparison.measuring.sample
    if keep is Keep.PANEL:
        keep = Keep.NONE if sample is None else sample.fixed
    is_kept = np.full(len(users), keep is Keep.ALL)
    if not isinstance(keep, Keep):
        is_kept[_smallest(users.to_numpy(dtype=object), keep, _fixed_salt(comparison))] = True
    return is_kept


def _draw_sample(
    users: pd.Index[str],
    size: SampleSize,
    comparison: Comparison,
    slot: datetime,
) -> Rows:
    """Draw the fixed and the rotating users. Returns their positions, ascending."""
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
    """Hashes of users, which are the same in each run of the comparison.

    They are independent of the hashes that draw the panel.
    """
    salt = f"{_fixed_salt(comparison)}\0looked at together"
    hashes = np.empty(len(users), dtype=np.uint64)
    for start in range(0, len(users), _HASHED_AT_ONCE):
        rows = slice(start, start + _HASHED_AT_ONCE)
        hashes[rows] = _hashes(users[rows].to_numpy(dtype=object), salt)
    return hashes


def draw_subset(panel: Panel, share: float, hashes: Hashes) -> Flags:
    """Draw a seeded subset of the panel. Returns a flag for each user, bool (n,).

    The subset contains about this ``share`` of the users of segment ``all``, and no other users.
    ``hashes`` are the result of `hash_users`.
    """
    is_drawn = np.zeros(len(panel), dtype=bool)
    is_drawn[panel.segments[ALL]] = True
    if share >= 1:
        return is_drawn
    return is_drawn & (hashes < np.uint64(share * 2**64))


def _smallest(names: npt.NDArray[np.object_], count: int, salt: str) -> Rows:
    """The positions of the ``count`` names that have the smallest hashes with this salt.

    Names with equal hashes are ordered by position.
    """
    return np.argsort(_hashes(names, salt), kind="stable")[:count]


def _hashes(names: npt.NDArray[np.object_], salt: str) -> Hashes:
    key = hashlib.sha256(salt.encode()).hexdigest()[:16]
    return pd.util.hash_array(names, hash_key=key, categorize=False)


def split_into_segments(
    n: int,
    dimensions: Mapping[str, pd.Categorical[Any]],
    segment_codes: Mapping[str, Collection[int]],
) -> dict[str, Rows]:
    """Split n users into segments. Returns the positions of each segment's users.

    ``all`` is the first segment. The other segments are ordered by dimension and value. No segment
    is empty. Each dimension has a code for each value. ``segment_codes`` lists the codes that
    become segments. Users with other codes are in ``dimension=other``. Users without a value are in
    ``dimension=unknown``.
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


def frequent_codes(categories: pd.Categorical[Any], most: int) -> tuple[int, ...]:
    """The codes of the most frequent values. There are at most ``most`` codes.

    Values with equal counts are ordered by their text.
    """
    codes = np.asarray(categories.codes)
    values = [str(value) for value in categories.categories]
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    by_value = sorted(range(len(values)), key=values.__getitem__)
    order = sorted(by_value, key=counts.tolist().__getitem__, reverse=True)
    return tuple(order[:most])


def _shortened(value: str) -> str:
    """Shorten a long value. A hash at the end keeps shortened values distinct."""
    if len(value) <= _LONGEST_VALUE_CHARS:
        return value
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()
    return f"{value[: _LONGEST_VALUE_CHARS - 9]}~{digest[:8]}"
