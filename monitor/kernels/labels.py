"""Grades and weights of items, moved to the places of lists.

This module works on codes and rows only, without ids.
"""

import numpy as np

from monitor.kernels.ragged import find_cells
from monitor.model.arrays import Codes, Floats, Integers, Offsets, Rows
from monitor.model.rankings import ByArm, Labels

_BLOCK_CELLS = 1 << 18
# Distance between the keys of two rows: larger than the range of codes, including negative ones.
_ROOM = 1 << 32


def place_grades(
    baseline: Codes,
    candidate: Codes,
    rows: Rows,
    offsets: Offsets,
    items: Codes,
    grades: Floats,
) -> Labels:
    """Grades at the places of n pairs of lists, and each user's ideal, from a table of grades.

    ``baseline``, ``candidate``: codes (n, k), padded with -1, as compared. ``rows`` (n,): the
    table's row of each pair's user, -1 for none. Row r graded ``items[offsets[r]:offsets[r + 1]]``.
    The codes of these items are those of the lists, or negative for an item in no list. Such an
    item still counts for the ideal and as relevant. Grades are at least 0. A row contains no
    item >= 0 twice (`best_of_each`). Time is O(g log g) for g grades of the given users and
    O(k log g) a pair. Memory is the result and one block.
    """
    n, k = baseline.shape
    placed = ByArm(baseline=np.zeros((n, k)), candidate=np.zeros((n, k)))
    ideal = np.zeros((n, k))
    relevant = np.zeros(n, dtype=np.int32)
    # One sorted join of (pair, item) for each block.
    step = max(1, _BLOCK_CELLS // k)
    for low in range(0, n, step):
        part = slice(low, min(low + step, n))
        pairs, keys, graded = _join_grades(rows[part], offsets, items, grades)
        _fill_grades(placed.baseline[part], baseline[part], keys, graded)
        _fill_grades(placed.candidate[part], candidate[part], keys, graded)
        _fill_ideal(ideal[part], pairs, graded)
        relevant[part] = np.bincount(pairs[graded > 0], minlength=len(relevant[part]))
    return Labels(grades=placed, ideal=ideal, relevant=relevant)


def best_of_each(rows: Integers, items: Integers, grades: Floats) -> Rows:
    """Places in the input of each (row, item), sorted by row and item.

    If a row grades an item several times, the place of the highest grade is returned.
    """
    order = np.lexsort((-grades, items, rows))
    row = rows[order]
    item = items[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (row[1:] != row[:-1]) | (item[1:] != item[:-1])
    return order[is_first]


def place_weights(
    codes: Codes,
    items: Codes,
    weights: Floats,
    otherwise: float,
) -> Floats:
    """Weights at the places of lists: float64 in the shape of ``codes``, NaN at padding (-1).

    ``items``: unique codes as in the lists, or negative. ``otherwise``: weight of other items.
    Cost: O(1) a place by a table, else O(log m).
    """
    is_listed = items >= 0
    items = items[is_listed]
    weights = weights[is_listed]
    top = int(codes.max(initial=-1))
    if top < 4 * (codes.size + len(items)):
        # The padding's code, -1, takes the last entry.
        table = np.full(top + 2, otherwise)
        table[items[items <= top]] = weights[items <= top]
        table[-1] = np.nan
        return table.take(codes)
    order = np.argsort(items)
    weighed = _look_up(codes, items[order], weights[order], otherwise)
    weighed[codes < 0] = np.nan
    return weighed


def _join_grades(
    rows: Rows,
    offsets: Offsets,
    items: Codes,
    grades: Floats,
) -> tuple[Integers, Integers, Floats]:
    """Pair, key and grade of everything that the pairs' users graded, by ascending key."""
    # A row of -1 takes the list after the last, which is empty.
    cells, bounds = find_cells(np.append(offsets, offsets[-1]), rows)
    pairs = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(bounds))
    keys = pairs * _ROOM + items[cells]
    order = np.argsort(keys, kind="stable")
    return pairs[order], keys[order], grades[cells][order]


def _fill_grades(places: Floats, codes: Codes, keys: Integers, graded: Floats) -> None:
    wanted = np.arange(len(codes), dtype=np.int64)[:, None] * _ROOM + codes
    places[:] = _look_up(wanted, keys, graded, 0.0)
    places[codes < 0] = 0.0


def _fill_ideal(ideal: Floats, pairs: Integers, graded: Floats) -> None:
    """Write each pair's highest grades from the left. ``pairs`` ascends."""
    order = np.lexsort((-graded, pairs))
    first = np.searchsorted(pairs, np.arange(len(ideal)))
    place = np.arange(len(pairs)) - first[pairs]
    fits = place < ideal.shape[1]
    ideal[pairs[fits], place[fits]] = graded[order][fits]


def _look_up(
    wanted: Integers | Codes,
    keys: Integers | Codes,
    values: Floats,
    otherwise: float,
) -> Floats:
    """The value of each wanted key among ascending keys, ``otherwise`` for absent keys."""
    if not len(keys):
        return np.full(wanted.shape, otherwise)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], otherwise)
