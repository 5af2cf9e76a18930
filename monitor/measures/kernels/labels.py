"""Writes the grades and weights of items to the places of lists.

This module uses codes and rows, not ids.
"""

import numpy as np

from monitor.measures.kernels.ragged import BLOCK_CELLS, find_cells
from monitor.model.arrays import Codes, Floats, Integers, Offsets, Rows
from monitor.model.rankings import ByArm, Labels

# A key is the row times this factor, plus the code. All codes are smaller, negative ones too.
_ROW_FACTOR = 1 << 32


def place_grades(
    baseline: Codes,
    candidate: Codes,
    rows: Rows,
    offsets: Offsets,
    items: Codes,
    grades: Floats,
) -> Labels:
    """The grade of each listed item, and the ideal list of each user, for n pairs of lists.

    ``baseline`` and ``candidate`` are the codes of the compared lists: (n, k), padded with -1.
    ``offsets``, ``items`` and ``grades`` are a table with one row for each user who graded items.
    ``rows`` (n,) is the row of each pair's user in this table, or -1 for a user without grades. The
    user of row r graded the items ``items[offsets[r]:offsets[r + 1]]``. An item that is in no list
    has a negative code. It is used for the ideal list, and it is counted as a relevant item. Grades
    are at least 0. A row must not contain the same code >= 0 twice (see `best_of_each`). The time
    is O(g log g) for the g grades of these users, and O(k log g) for each pair. The function needs
    memory for the result and one block.
    """
    n, k = baseline.shape
    placed = ByArm(baseline=np.zeros((n, k)), candidate=np.zeros((n, k)))
    ideal = np.zeros((n, k))
    relevant = np.zeros(n, dtype=np.int32)
    # The grades of each block are sorted once, by pair and item.
    step = max(1, BLOCK_CELLS // k)
    for low in range(0, n, step):
        part = slice(low, min(low + step, n))
        pairs, keys, pair_grades = _join_grades(rows[part], offsets, items, grades)
        _fill_grades(placed.baseline[part], baseline[part], keys, pair_grades)
        _fill_grades(placed.candidate[part], candidate[part], keys, pair_grades)
        _fill_ideal(ideal[part], pairs, pair_grades)
        relevant[part] = np.bincount(pairs[pair_grades > 0], minlength=len(relevant[part]))
    return Labels(grades=placed, ideal=ideal, relevant=relevant)


def best_of_each(rows: Integers, items: Integers, grades: Floats) -> Rows:
    """For each item of each row, the index of its highest grade in the input.

    The result is sorted by row and item. If a row contains an item only once, this is the index of
    its only grade.
    """
    order = np.lexsort((-grades, items, rows))
    row = rows[order]
    item = items[order]
    # Equal items of a row are neighbours here, and the first one has the highest grade.
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (row[1:] != row[:-1]) | (item[1:] != item[:-1])
    return order[is_first]


def place_weights(
    codes: Codes,
    items: Codes,
    weights: Floats,
    otherwise: float,
) -> Floats:
    """The weight of each listed item: float64 in the shape of ``codes``, NaN at padding (-1).

    ``items`` has the code of the item of each weight. Codes >= 0 are unique. An item that is in no
    list has a negative code. A listed item that is not in ``items`` gets the weight ``otherwise``.
    Cost: O(1) for each place with a table. Without a table it is O(log m) for m items.
    """
    is_listed = items >= 0
    items = items[is_listed]
    weights = weights[is_listed]
    top = int(codes.max(initial=-1))
    if top < 4 * (codes.size + len(items)):
        # The code of padding, -1, selects the last entry.
        table = np.full(top + 2, otherwise)
        table[items[items <= top]] = weights[items <= top]
        table[-1] = np.nan
        return table.take(codes)
    order = np.argsort(items)
    listed = _look_up(codes, items[order], weights[order], otherwise)
    listed[codes < 0] = np.nan
    return listed


def _join_grades(
    rows: Rows,
    offsets: Offsets,
    items: Codes,
    grades: Floats,
) -> tuple[Integers, Integers, Floats]:
    """The pair, key and grade of every item that the user of a pair graded, by ascending key.

    A key is composed of the pair and the code of the item.
    """
    # Row -1 selects an appended list, which is empty.
    cells, bounds = find_cells(np.append(offsets, offsets[-1]), rows)
    pairs = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(bounds))
    keys = pairs * _ROW_FACTOR + items[cells]
    order = np.argsort(keys, kind="stable")
    return pairs[order], keys[order], grades[cells][order]


def _fill_grades(listed: Floats, codes: Codes, keys: Integers, pair_grades: Floats) -> None:
    """Write the grade of each listed item. An item without a grade gets 0."""
    wanted = np.arange(len(codes), dtype=np.int64)[:, None] * _ROW_FACTOR + codes
    listed[:] = _look_up(wanted, keys, pair_grades, 0.0)
    listed[codes < 0] = 0.0


def _fill_ideal(ideal: Floats, pairs: Integers, pair_grades: Floats) -> None:
    """Write the highest grades of each pair, best first. ``pairs`` must be in ascending order."""
    order = np.lexsort((-pair_grades, pairs))
    first_index = np.searchsorted(pairs, np.arange(len(ideal)))
    place = np.arange(len(pairs)) - first_index[pairs]
    fits = place < ideal.shape[1]
    ideal[pairs[fits], place[fits]] = pair_grades[order][fits]


def _look_up(
    wanted: Integers | Codes,
    keys: Integers | Codes,
    values: Floats,
    otherwise: float,
) -> Floats:
    """The value of each wanted key. It is ``otherwise`` for absent keys. ``keys`` must ascend."""
    if not len(keys):
        return np.full(wanted.shape, otherwise)
    indexes = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[indexes] == wanted, values[indexes], otherwise)
