"""Labels: what is known of items or of a user's items, brought to the places of lists.

Knows codes and rows only, no ids.
"""

import numpy as np
import numpy.typing as npt

from monitor.kernels.ragged import find_cells
from monitor.model.arrays import Codes, Floats, Integers, Rows
from monitor.model.rankings import ByArm, Labels

_BLOCK_CELLS = 1 << 18
# Distance between the keys of two rows: wider than the codes, negative ones included.
_ROOM = 1 << 32


def place_grades(
    baseline: Codes,
    candidate: Codes,
    rows: npt.NDArray[np.intp],
    offsets: npt.NDArray[np.int64],
    items: Codes,
    grades: Floats,
) -> Labels:
    """Grades at the places of n pairs of lists, and each user's ideal, from a table of graded items.

    ``baseline``, ``candidate``: codes (n, k), padded with -1, as compared. ``rows`` (n,): the table's row of each pair's user,
    -1 for none. Row r graded ``items[offsets[r]:offsets[r + 1]]``, codes as in the lists or negative for an item that no list
    holds, which still counts for the ideal and among the relevant. Grades are at least 0, no item >= 0 twice (`best_of_each`).
    O(g log g) for g grades of the users asked for, O(k log g) a pair, memory for the result and one block.
    """
    n, k = baseline.shape
    found = ByArm(baseline=np.zeros((n, k)), candidate=np.zeros((n, k)))
    ideal, relevant = np.zeros((n, k)), np.zeros(n, dtype=np.int32)
    # One sorted join of (pair, item) a block.
    step = max(1, _BLOCK_CELLS // k)
    for low in range(0, n, step):
        part = slice(low, min(low + step, n))
        pairs, keys, known = _join_side(rows[part], offsets, items, grades)
        _fill_grades(found.baseline[part], baseline[part], keys, known)
        _fill_grades(found.candidate[part], candidate[part], keys, known)
        _fill_ideal(ideal[part], pairs, known)
        relevant[part] = np.bincount(pairs[known > 0], minlength=len(relevant[part]))
    return Labels(grades=found, ideal=ideal, relevant=relevant)


def best_of_each(rows: Integers, items: Integers, grades: Floats) -> Rows:
    """Places by row and item.

    Of an item that a row grades several times the place of the highest grade.
    """
    order = np.lexsort((-grades, items, rows))
    row, item = rows[order], items[order]
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (row[1:] != row[:-1]) | (item[1:] != item[:-1])
    return order[is_first]


def place_weights(codes: Codes, items: Codes, weights: Floats, otherwise: float) -> Floats:
    """Weights at the places of lists: float64 in the shape of ``codes``, NaN at padding (-1).

    ``items``: unique codes as in the lists, or negative; ``otherwise``: weight of others. O(1) a
    place by a table, or O(log m)."""
    is_listed = items >= 0
    items, weights = items[is_listed], weights[is_listed]
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


def _join_side(
    rows: npt.NDArray[np.intp], offsets: npt.NDArray[np.int64], items: Codes, grades: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]:
    """Pair, key and grade of everything that the pairs' users graded, by ascending key."""
    # A row of -1 takes the list behind the last, which is empty.
    cells, bounds = find_cells(np.append(offsets, offsets[-1]), rows)
    pairs = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(bounds))
    keys = pairs * _ROOM + items[cells]
    order = np.argsort(keys, kind="stable")
    return pairs[order], keys[order], grades[cells][order]


def _fill_grades(places: Floats, codes: Codes, keys: npt.NDArray[np.int64], known: Floats) -> None:
    wanted = np.arange(len(codes), dtype=np.int64)[:, None] * _ROOM + codes
    places[:] = _look_up(wanted, keys, known, 0.0)
    places[codes < 0] = 0.0


def _fill_ideal(ideal: Floats, pairs: npt.NDArray[np.int64], known: Floats) -> None:
    """Each pair's highest grades from the left; ``pairs`` ascends."""
    order = np.lexsort((-known, pairs))
    first = np.searchsorted(pairs, np.arange(len(ideal)))
    place = np.arange(len(pairs)) - first[pairs]
    fits = place < ideal.shape[1]
    ideal[pairs[fits], place[fits]] = known[order][fits]


def _look_up(
    wanted: npt.NDArray[np.int64] | Codes,
    keys: npt.NDArray[np.int64] | Codes,
    values: Floats,
    otherwise: float,
) -> Floats:
    """The value of each wanted key among ascending keys, ``otherwise`` where absent."""
    if not len(keys):
        return np.full(wanted.shape, otherwise)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], otherwise)
