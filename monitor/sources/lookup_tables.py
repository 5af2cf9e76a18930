"""Tables of users, item weights, item titles and relevance from columns.

Errors name the user or the item.
"""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError, UserDataError
from monitor.kernels.labels import best_of_each
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Integers, Rows
from monitor.model.rankings import LEAST_WEIGHT, MOST_WEIGHT, ItemWeights, RelevanceTable, UserTable
from monitor.model.unreadable import Need
from monitor.reading.ids import describe_type, id_array, id_column, is_text, item_ids
from monitor.reading.tally import Tally
from monitor.sampling import split
from monitor.sources import columns
from monitor.sources.list_collector import from_json

MAX_TITLE_LENGTH = 200  # characters of a title that are kept
TitleColumn: TypeAlias = pa.Array | Sequence[object]


def user_table(
    batches: Sequence[tuple[pa.Array, Mapping[str, pa.Array]]], tally: Tally
) -> UserTable:
    """The table of batches of users, text or null, and segments.

    A user's first row counts. SourceError for nobody.
    """
    users = pd.Index(_str_array([users for users, _ in batches]))
    kept = users.notna() & ~users.duplicated()
    if not kept.any():
        raise SourceError(
            f"{tally.where} holds no user: check the path or table and the name of the user column"
        )
    rows = slice(None) if kept.all() else kept  # a slice does not copy
    segments = {}
    for name in batches[0][1]:
        labels = _str_array([_count_labels(found[name], name, tally) for _, found in batches])
        segments[name] = pd.Categorical(labels[rows])
    return UserTable(users=users[rows], segments=segments, unreadable=tally.unreadable)


def _count_labels(values: pa.Array, name: str, tally: Tally) -> pa.Array:
    labels = segment_labels(values, name, tally.where)
    is_left_out = np.zeros(len(values), dtype=np.bool_)
    if labels.null_count > values.null_count:
        is_given = pc.not_equal(values.cast(pa.large_string()).fill_null(""), "")
        is_left_out = pc.and_(labels.is_null(), is_given).to_numpy(zero_copy_only=False)
    tally.flags(name, Need.LABELS, is_left_out, values)
    return labels


def _str_array(parts: Sequence[pa.Array]) -> ExtensionArray:
    texts: ExtensionArray = pd.array(
        columns.one_array(pa.chunked_array(parts, pa.large_string())), dtype="str"
    )
    return texts


def segment_labels(values: pa.Array, name: str, where: str) -> pa.Array:
    """Segment values as text.

    Null and empty text are no value. SourceError for a type that makes no segments.
    """
    kind = values.type
    if pa.types.is_dictionary(kind):
        return segment_labels(values.dictionary_decode(), name, where)
    if not is_text(kind) and not any(test(kind) for test in _LABELS):
        raise SourceError(
            f"segment column {name!r} of {where} holds {describe_type(kind)}: {Need.LABELS}"
        )
    if pa.types.is_floating(kind) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        return id_column(values, name, where).cast(pa.large_string())
    return id_column(values.cast(pa.large_string()), name, where)


_LABELS = (
    columns.is_numeric,
    pa.types.is_boolean,
    pa.types.is_date,
    pa.types.is_timestamp,
    lambda kind: isinstance(kind, pa.BaseExtensionType),
)
"""Types of segment values beside text."""


class SegmentValues:
    """The ``most`` most frequent values of a segment dimension, which are segments of their own, of those ``ranked``."""

    def __init__(
        self, ranked: Sequence[str], most: int, name: str, where: str, *, has_unknown: bool
    ) -> None:
        self.kept = tuple(ranked[:most])
        self.dimension, self._where = name, where
        codes = [*range(min(len(ranked), most + 1)), *([-1] if has_unknown else [])]
        named = split(
            len(codes), {name: self._categorical(np.array(codes))}, {name: range(len(self.kept))}
        )
        self.names = tuple(named)[1:]

    def code(self, values: pa.Array) -> "pd.Categorical[str]":
        """The values of some users."""
        labels = segment_labels(values, self.dimension, self._where)
        places = pc.index_in(labels, value_set=pa.array(self.kept, pa.large_string())).fill_null(
            len(self.kept)
        )
        codes = np.where(
            labels.is_null().to_numpy(zero_copy_only=False),
            -1,
            places.to_numpy(zero_copy_only=False),
        )
        return self._categorical(codes)

    def _categorical(self, codes: Integers) -> "pd.Categorical[str]":
        # The last category stands for every value that is no segment of its own.
        return pd.Categorical.from_codes(codes, categories=pd.Index([*self.kept, "\0"]))


def split_by_values(
    n: int, given: Mapping[str, pa.Array], values: Mapping[str, SegmentValues]
) -> dict[str, Rows]:
    """Positions by segment of n users, from columns of segment values and what these may be."""
    coded = {each.dimension: each.code(given[column]) for column, each in values.items()}
    return split(n, coded, {each.dimension: range(len(each.kept)) for each in values.values()})


def item_weights(
    batches: Iterable[tuple[pa.Array, pa.Array]], names: tuple[str, str], where: str
) -> ItemWeights:
    """The table of batches of items and weights.

    SourceError for none, an odd item or weight, or an item that stands twice.
    """
    items, weights, read = [], [], 0
    for column, numbers in batches:
        ids = id_column(column, names[0], where)
        values, _ = columns.number_column(numbers, names[1], where)
        _check_rows(ids, values, read, where)
        read += len(ids)
        items.append(ids)
        weights.append(values)
    if not read:
        msg = (
            f"{where} holds no item: check the path or table, and that the job which writes it "
            "has run"
        )
        raise SourceError(msg, permanent=False)
    _check_once(items, where)
    return ItemWeights(items=columns.join_items(items), weights=np.concatenate(weights))


def _check_rows(ids: pa.Array, weights: np.ndarray, read: int, where: str) -> None:
    if ids.null_count:
        row = read + pc.index(ids.is_null(), True).as_py() + 1
        raise SourceError(f"row {row} of {where} has no item id: ids must be integers or text")
    odd = np.flatnonzero(~((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT)))
    if len(odd):
        problem = (
            f"item {_named(ids, odd[0])} of {where} has no weight from {LEAST_WEIGHT:g} to "
            f"{MOST_WEIGHT:g}"
        )
        raise SourceError(f"{problem}: give it one, or leave the item out")


def _check_once(items: list[pa.Array], where: str) -> None:
    texts = (
        pa.chunked_array([ids.cast(pa.large_string()) for ids in items])
        .combine_chunks()
        .dictionary_encode()
    )
    if len(texts.dictionary) == len(texts):
        return
    again = int(np.flatnonzero(np.bincount(texts.indices.to_numpy()) > 1)[0])
    raise SourceError(
        (
            f"item {_named(texts.dictionary, again)} of {where} has more than one weight: give "
            "each item once"
        )
    )


def _named(ids: pa.Array, row: int) -> str:
    return repr(columns.on_one_line(str(ids[int(row)].as_py())))


def item_titles(
    batches: Iterable[tuple[pa.Array, TitleColumn]], items: Collection[str], tally: Tally
) -> dict[str, str]:
    """Titles of these items, the first of each.

    SourceError when a title is neither text nor a number.
    """
    wanted, found = pa.array(sorted(items), pa.large_string()), dict[str, str]()
    for column, titles in batches:
        ids = column.cast(pa.large_string())
        for place in pc.indices_nonzero(pc.is_in(ids, value_set=wanted)).to_pylist():
            title = _text(titles[place], tally.where)
            if title is not None:
                found.setdefault(ids[place].as_py(), title)
    return found


def _text(given: object, where: str) -> str | None:
    value = given.as_py() if isinstance(given, pa.Scalar) else given
    if value is None or value == "":
        return None
    if not isinstance(value, str | int | float):
        raise SourceError(
            f"the title column of {where} holds {type(value).__name__}: titles must be text"
        )
    return str(value)[:MAX_TITLE_LENGTH]


class GradedItems:
    """Takes batches of either form.

    An item without a column of grades has grade 1; of several of a user the highest counts.

    A row without a user is left out. SourceError, naming the user, for what is no id or no finite
    grade of 0 or more, for more or fewer grades than items, and for two rows of the wide form."""

    def __init__(self, tally: Tally, item: str, grade: str) -> None:
        self._where, self._tally = tally.where, tally
        self._item, self._grade = item, grade  # names of columns
        self._is_wide = False
        self._parts: list[tuple[pa.Array, Rows, pa.Array, Floats]] = []
        self.nbytes = 0

    def add_rows(self, users: pa.Array, items: pa.Array, grades: pa.Array | None) -> None:
        """Take a batch of the long form."""
        keys, items, grades = _of_users(users, items, grades)
        ids, numbers = id_column(items, self._item, self._where), np.ones(len(keys))
        if grades is not None:
            values, is_bad = columns.number_column(grades, self._grade, self._where)
            numbers = np.where(is_bad, np.nan, values)
        self._take(keys, np.ones(len(keys), dtype=np.int64), ids, numbers)

    def add_lists(self, users: pa.Array, lists: pa.Array, grades: pa.Array | None) -> None:
        """Take a batch of the wide form, columns of lists."""
        self._is_wide = True
        keys, lists, grades = _of_users(users, lists, grades)
        values, lengths = columns.flat_lists(lists)
        items = id_column(values, self._item, self._where)
        numbers = np.ones(len(items))
        if grades is not None:
            numbers, is_uneven = columns.numbers_beside(lengths, grades, self._grade, self._where)
            self._refuse(
                keys, np.flatnonzero(is_uneven), "has another number of grades than of items"
            )
        self._take(keys, lengths, items, numbers)

    def add_cells(
        self, keys: pa.Array, lists: Sequence[object], grades: Sequence[object] | None
    ) -> None:
        """Take a batch of the wide form, Python lists or the text of JSON arrays."""
        self._is_wide = True
        items: list[int | str] = []
        numbers: list[float] = []
        lengths = np.zeros(len(keys), dtype=np.int64)
        for row in np.flatnonzero(keys.is_valid()).tolist():
            read = _read_cells(
                lists[row], None if grades is None else grades[row], is_graded=grades is not None
            )
            if read is None:
                self._fail(keys[row], "has no list of ids with as many numbers as grades")
            items.extend(read[0])
            numbers.extend(read[1])
            lengths[row] = len(read[0])
        kept = keys.is_valid()
        self._take(
            keys.filter(kept),
            lengths[np.asarray(kept)],
            id_array(items),
            np.array(numbers, dtype=np.float64),
        )

    def table(self) -> RelevanceTable:
        """Everything taken, a batch at least; users in the order of their first row."""
        taken, lengths, parts, graded = zip(*self._parts, strict=True)
        keys = pd.Series(
            pd.array(columns.one_array(pa.chunked_array(taken, pa.large_string())), dtype="str")
        )
        if self._is_wide and not keys.is_unique:
            self._fail(
                pa.scalar(keys[keys.duplicated()].iloc[0]),
                "stands in two rows: give each user one list",
            )
        codes, users = pd.factorize(keys)
        rows = np.repeat(codes, np.concatenate(lengths))
        items, grades = columns.join_items(parts), np.concatenate(graded)
        kept = best_of_each(rows, pd.factorize(pd.Series(items))[0], grades)
        offsets = offsets_of(np.bincount(rows[kept], minlength=len(users)))
        return RelevanceTable(
            users=pd.Index(users, dtype="str"),
            offsets=offsets,
            items=items[kept],
            grades=grades[kept],
            unreadable=self._tally.unreadable,
        )

    def _take(self, users: pa.Array, lengths: Rows, items: pa.Array, grades: Floats) -> None:
        rows = np.repeat(np.arange(len(users)), lengths)
        self._refuse(
            users, rows[items.is_null().to_numpy(zero_copy_only=False)], "has an item that is no id"
        )
        self._refuse(
            users,
            rows[~(np.isfinite(grades) & (grades >= 0))],
            "has a grade that is no number from 0 up",
        )
        self._parts.append((users, lengths, items, grades))
        self.nbytes += users.nbytes + items.nbytes + grades.nbytes

    def _refuse(self, users: pa.Array, odd: Rows | npt.NDArray[np.intp], why: str) -> None:
        if len(odd):
            self._fail(users[int(odd[0])], why)

    def _fail(self, user: pa.Scalar, why: str) -> NoReturn:
        raise UserDataError(str(user.as_py()), f"of {self._where} {why}")


def _of_users(
    keys: pa.Array, items: pa.Array, grades: pa.Array | None
) -> tuple[pa.Array, pa.Array, pa.Array | None]:
    if not keys.null_count:
        return keys, items, grades
    kept = keys.is_valid()
    return keys.filter(kept), items.filter(kept), None if grades is None else grades.filter(kept)


def _read_cells(
    items: object, grades: object, *, is_graded: bool
) -> tuple[Sequence[int | str], Sequence[float]] | None:
    try:
        listed, beside = from_json(items), from_json(grades)
    except ValueError:
        return None
    ids = item_ids([] if listed is None else listed, sys.maxsize)
    if ids is None:
        return None
    numbers = (
        columns.number_list([] if beside is None else beside, len(ids))
        if is_graded
        else [1.0] * len(ids)
    )
    return None if numbers is None else (ids, numbers)
