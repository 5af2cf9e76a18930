"""What users found relevant, out of arrow columns or Python values, wide (lists a row) or long (one item a row)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from monitor.errors import SourceError
from monitor.model import RelevanceTable
from monitor.model.arrays import Floats
from monitor.sources.id_columns import flat_ids, id_array, id_column, item_ids, join_items, on_one_line, one_array, user_column
from monitor.sources.list_collector import from_json
from monitor.sources.number_columns import number_column, number_list, numbers_beside

_Rows = npt.NDArray[np.int64]


class GradedItems:
    """Takes batches of either form. An item that comes without a column of grades has grade 1.

    Of an item that a user graded twice the highest grade counts: what was clicked and bought was bought. A row without a user
    is left out, as in every table of users; a null list is an empty one. SourceError, naming the user, for an item that is no
    id, for a grade that is NaN, infinite, below 0 or no number, for more or fewer grades than items, and for a user who has
    two rows of the wide form.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._is_wide = False
        self._parts: list[tuple[pa.Array, _Rows, pa.Array, Floats]] = []
        self.nbytes = 0

    def add_rows(self, users: pa.Array, items: pa.Array, grades: pa.Array | None) -> None:
        """Take a batch of the long form."""
        keys, items, grades = self._of_users(users, items, grades)
        ids, numbers = id_column(items, f"the item column of {self._where}"), np.ones(len(keys))
        if grades is not None:
            values, is_bad = number_column(grades, f"the grade column of {self._where}")
            numbers = np.where(is_bad, np.nan, values)
        self._take(keys, np.ones(len(keys), dtype=np.int64), ids, numbers)

    def add_lists(self, users: pa.Array, lists: pa.Array, grades: pa.Array | None) -> None:
        """Take a batch of the wide form, columns of lists."""
        self._is_wide = True
        keys, lists, grades = self._of_users(users, lists, grades)
        items, lengths = flat_ids(lists, f"the list column of {self._where}")
        numbers = np.ones(len(items))
        if grades is not None:
            numbers, is_uneven = numbers_beside(lengths, grades, f"the grades column of {self._where}")
            self._refuse(keys, np.flatnonzero(is_uneven), "has another number of grades than of items")
        self._take(keys, lengths, items, numbers)

    def add_cells(self, users: Sequence[object], lists: Sequence[object], grades: Sequence[object] | None) -> None:
        """Take a batch of the wide form, Python lists or the text of JSON arrays."""
        self._is_wide = True
        keys = user_column(id_array(users), "users")
        items: list[int | str] = []
        numbers: list[float] = []
        lengths = np.zeros(len(keys), dtype=np.int64)
        for row in np.flatnonzero(keys.is_valid()).tolist():
            read = _read_cells(lists[row], None if grades is None else grades[row], is_graded=grades is not None)
            if read is None:
                self._fail(keys[row], "has no list of ids with as many numbers as grades")
            items.extend(read[0])
            numbers.extend(read[1])
            lengths[row] = len(read[0])
        kept = keys.is_valid()
        self._take(keys.filter(kept), lengths[np.asarray(kept)], id_array(items), np.array(numbers, dtype=np.float64))

    def table(self) -> RelevanceTable:
        """Everything taken, a batch at least; users in the order of their first row."""
        taken, lengths, parts, graded = zip(*self._parts, strict=True)
        keys = pd.Series(pd.array(one_array(pa.chunked_array(taken, pa.large_string())), dtype="str"))
        if self._is_wide and not keys.is_unique:
            self._fail(pa.scalar(keys[keys.duplicated()].iloc[0]), "stands in two rows: give each user one list")
        codes, users = pd.factorize(keys)
        rows = np.repeat(codes, np.concatenate(lengths))
        items, grades = join_items(parts), np.concatenate(graded)
        kept = _best_of_each(rows, pd.factorize(pd.Series(items))[0], grades)
        offsets = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows[kept], minlength=len(users)), out=offsets[1:])
        return RelevanceTable(users=pd.Index(users, dtype="str"), offsets=offsets, items=items[kept], grades=grades[kept])

    def _of_users(
        self, users: pa.Array, items: pa.Array, grades: pa.Array | None
    ) -> tuple[pa.Array, pa.Array, pa.Array | None]:
        keys = user_column(users, f"the user column of {self._where}")
        if not keys.null_count:
            return keys, items, grades
        kept = keys.is_valid()
        return keys.filter(kept), items.filter(kept), None if grades is None else grades.filter(kept)

    def _take(self, users: pa.Array, lengths: _Rows, items: pa.Array, grades: Floats) -> None:
        rows = np.repeat(np.arange(len(users)), lengths)
        self._refuse(users, rows[items.is_null().to_numpy(zero_copy_only=False)], "has an item that is no id")
        self._refuse(users, rows[~(np.isfinite(grades) & (grades >= 0))], "has a grade that is no number from 0 up")
        self._parts.append((users, lengths, items, grades))
        self.nbytes += users.nbytes + items.nbytes + grades.nbytes

    def _refuse(self, users: pa.Array, odd: _Rows | npt.NDArray[np.intp], why: str) -> None:
        if len(odd):
            self._fail(users[int(odd[0])], why)

    def _fail(self, user: pa.Scalar, why: str) -> NoReturn:
        msg = f"user {on_one_line(str(user.as_py()))!r} of {self._where} {why}"
        raise SourceError(msg)


def _read_cells(items: object, grades: object, *, is_graded: bool) -> tuple[Sequence[int | str], Sequence[float]] | None:
    """A row's items and grades, null being nothing; None where they cannot be read."""
    try:
        listed, beside = from_json(items), from_json(grades)
    except ValueError:
        return None
    ids = item_ids([] if listed is None else listed, sys.maxsize)
    if ids is None:
        return None
    numbers = number_list([] if beside is None else beside, len(ids)) if is_graded else [1.0] * len(ids)
    return None if numbers is None else (ids, numbers)


def _best_of_each(rows: npt.NDArray[np.intp], items: npt.NDArray[np.intp], grades: Floats) -> npt.NDArray[np.intp]:
    """Positions by row; of an item that a row holds twice, the one of the highest grade."""
    order = np.lexsort((-grades, items, rows))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (rows[order][1:] != rows[order][:-1]) | (items[order][1:] != items[order][:-1])
    return order[is_first]
