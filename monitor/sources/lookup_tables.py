"""Makes users, item weights, item titles and relevance from the columns of tables.

Errors name the user or the item.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pandas.api.extensions import ExtensionArray
from pyarrow import types as arrow_types

from monitor.measures.kernels.labels import best_of_each
from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.ids import (
    are_ascending,
    decode_categories,
    describe_type,
    id_column,
    is_text,
    join_columns,
    one_array,
    to_ids,
    user_index,
)
from monitor.measures.reading.lists import Cells, read_lists
from monitor.measures.reading.numbers import is_numeric, number_column, value_array
from monitor.measures.reading.unreadable_values import Tally
from monitor.measures.sampling import split_into_segments
from monitor.model.arrays import Floats, Integers, Rows
from monitor.model.errors import SourceError, UserDataError
from monitor.model.rankings import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    ItemWeights,
    RelevanceTable,
    UserSums,
    UserTable,
)
from monitor.model.unreadable import ColumnKind
from monitor.sources.columns import on_one_line
from monitor.sources.table_lists import TableBatch

ROW_COUNT = "rankwatch_rows"
"""The column with the number of equal rows, in batches of outcomes."""
_MOST_OUTCOME = 1e15  # a larger number is an error, and its square could become infinite
MAX_TITLE_LENGTH = 200  # the number of characters; longer titles are cut
TitleColumn: TypeAlias = pa.Array | Sequence[object]


def build_user_table(
    batches: Sequence[tuple[pa.Array, Mapping[str, pa.Array]]], tally: Tally
) -> UserTable:
    """The table of users, from batches with user ids and segment columns.

    An id is a text or null. If a user has several rows, the first row is used. Raises SourceError
    if there is no user.
    """
    column = one_array(pa.chunked_array([ids for ids, _ in batches], pa.large_string()))
    users = user_index(column)
    is_first = np.ones(len(users), dtype=bool)
    if not are_ascending(column):
        is_first = users.notna() & ~users.duplicated()
    if not is_first.any():
        raise SourceError(
            f"{tally.where} has no user: check the path or table, and check the name of the user "
            "column"
        )
    # Unlike an array of flags, a slice does not copy the rows.
    rows = slice(None) if is_first.all() else is_first
    segments = {}
    for name in batches[0][1]:
        labels = _str_array([_read_labels(columns[name], name, tally) for _, columns in batches])
        segments[name] = pd.Categorical(labels[rows])
    return UserTable(users=users[rows], segments=segments, unreadable=tally.unreadable)


def _read_labels(values: pa.Array, name: str, tally: Tally) -> pa.Array:
    """The segment values as text.

    Counts values that cannot be segments. Empty values are allowed.
    """
    labels = segment_labels(values, name, tally.where)
    is_unreadable = np.zeros(len(values), dtype=np.bool_)
    if labels.null_count > values.null_count:
        is_given = pc.not_equal(values.cast(pa.large_string()).fill_null(""), "")
        is_unreadable = pc.and_(labels.is_null(), is_given).to_numpy(zero_copy_only=False)
    tally.count_marked(name, ColumnKind.LABELS, is_unreadable, values)
    return labels


def _str_array(parts: Sequence[pa.Array]) -> ExtensionArray:
    column = one_array(pa.chunked_array(parts, pa.large_string()))
    texts: ExtensionArray = pd.array(column, dtype="str")
    return texts


def segment_labels(values: pa.Array, name: str, where: str) -> pa.Array:
    """The segment values as text. An empty text becomes null.

    Raises SourceError if values of the column's type cannot be segment values.
    """
    kind = values.type
    if arrow_types.is_dictionary(kind):
        return segment_labels(decode_categories(values), name, where)
    if not is_text(kind) and not any(test(kind) for test in _LABELS):
        raise SourceError(
            f"segment column {name!r} of {where} has {describe_type(kind)}: {ColumnKind.LABELS}"
        )
    if arrow_types.is_floating(kind) and pc.all(pc.equal(values, pc.floor(values))).as_py():
        return id_column(values, name, where).cast(pa.large_string())
    return id_column(values.cast(pa.large_string()), name, where)


def add_outcomes(
    users: pa.Array,
    batch: TableBatch,
    outcomes: Sequence[str],
    tally: Tally,
    need: ColumnKind = ColumnKind.NUMBERS,
) -> pd.DataFrame:
    """Add up the outcomes of each user in a batch. Values that cannot be read are counted.

    A negative number cannot be read if the outcomes need to be `COUNTS`.
    """
    least = 0 if need is ColumnKind.COUNTS else -_MOST_OUTCOME
    counts = np.asarray(batch[ROW_COUNT], dtype=np.int64)
    sums = {}
    for name in outcomes:
        values = _with_truth_as_numbers(value_array(batch[name]))
        numbers, is_bad = number_column(values, name, tally.where)
        is_bad = is_bad | (numbers < least) | (numbers > _MOST_OUTCOME)
        example = values[int(np.argmax(is_bad))] if is_bad.any() else None
        tally.count(name, need, int(counts[is_bad].sum()), int(counts.sum()), example)
        sums[name] = np.where(is_bad | np.isnan(numbers), 0.0, numbers) * counts
    return pd.DataFrame(sums, index=user_index(users)).groupby(level=0).sum()


def _with_truth_as_numbers(values: pa.Array) -> pa.Array:
    """Replace true by 1 and false by 0. They may be text, as in CSV, in upper or lower case."""
    kind = values.type
    if arrow_types.is_boolean(kind):
        return values.cast(pa.int8())
    if arrow_types.is_dictionary(kind):
        return _with_truth_as_numbers(decode_categories(values))
    if not is_text(kind):
        return values
    values = values.cast(pa.large_string())
    lower = pc.utf8_lower(values)
    for text, number in (("true", "1"), ("false", "0")):
        values = pc.if_else(pc.equal(lower, text), number, values)
    return values


def user_sums(parts: Sequence[pd.DataFrame], outcomes: Sequence[str], tally: Tally) -> UserSums:
    """Add up the batches. The result has no user if there is no batch."""
    nobody = pd.DataFrame(columns=pd.Index(outcomes), index=pd.Index([], dtype="str"), dtype=float)
    sums = pd.concat([*parts, nobody]).groupby(level=0).sum()
    return UserSums(sums=sums, unreadable=tally.unreadable)


def _is_extension(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType)


# Tests of the types that segment values can have, except text.
_LABELS = (
    is_numeric,
    arrow_types.is_boolean,
    arrow_types.is_date,
    arrow_types.is_timestamp,
    _is_extension,
)


class SegmentValues:
    """The values of one dimension that have a segment of their own.

    ``ranked`` has all values of the dimension, the most frequent value first. The first ``most`` of
    them are segments. ``names`` has the names of all segments. All other values together have one
    segment, and all unknown values have one.
    """

    def __init__(
        self,
        ranked: Sequence[str],
        most: int,
        name: str,
        where: str,
        *,
        has_unknown: bool,
    ) -> None:
        self.values = tuple(ranked[:most])
        self.dimension = name
        self._where = where
        codes = list(range(min(len(ranked), most + 1)))
        if has_unknown:
            codes.append(-1)
        labels = {name: self._categorical(np.array(codes))}
        segments = split_into_segments(len(codes), labels, {name: range(len(self.values))})
        self.names = list(segments)[1:]  # all except `all`

    def code(self, values: pa.Array) -> "pd.Categorical[str]":
        """The values of n users as a categorical. An unknown value is null."""
        labels = segment_labels(values, self.dimension, self._where)
        codes = pc.index_in(labels, value_set=pa.array(self.values, pa.large_string()))
        other = len(self.values)
        codes = pc.if_else(labels.is_null(), -1, codes.fill_null(other))
        return self._categorical(codes.to_numpy(zero_copy_only=False))

    def _categorical(self, codes: Integers) -> "pd.Categorical[str]":
        # The last category has all values that have no segment of their own.
        return pd.Categorical.from_codes(codes, categories=pd.Index([*self.values, "\0"]))


def split_by_values(
    n: int,
    labels: Mapping[str, pa.Array],
    values: Mapping[str, SegmentValues],
) -> dict[str, Rows]:
    """The positions of n users in each segment.

    For each column, ``labels`` has the users' values, and ``values`` has the segments.
    """
    coded = {}
    ranges = {}
    for column, segment_values in values.items():
        coded[segment_values.dimension] = segment_values.code(labels[column])
        ranges[segment_values.dimension] = range(len(segment_values.values))
    return split_into_segments(n, coded, ranges)


def item_weights(items: Sequence[pa.Array], weights: Sequence[Floats], where: str) -> ItemWeights:
    """The weights of items, from the ids and numbers of several batches.

    Raises SourceError if there is no item, if an id or a weight is not valid, or if an item has two
    weights.
    """
    ids = join_columns(items)
    if not len(ids):
        raise SourceError(
            f"{where} has no item: check the path or table, and check that the job which writes "
            "it has run",
            permanent=False,
        )
    numbers = np.concatenate(weights)
    if ids.null_count:
        row = pc.index(ids.is_null(), True).as_py() + 1
        raise SourceError(f"row {row} of {where} has no item id: ids must be integers or text")
    is_valid = (numbers >= LEAST_WEIGHT) & (numbers <= MOST_WEIGHT)
    if not is_valid.all():
        raise SourceError(
            f"item {_quoted(ids, np.argmin(is_valid))} of {where} has no weight from "
            f"{LEAST_WEIGHT:g} to {MOST_WEIGHT:g}: give it such a weight, or leave the item out"
        )
    counts = pd.Series(to_ids(ids)).duplicated()
    if counts.any():
        raise SourceError(
            f"item {_quoted(ids, np.argmax(counts))} of {where} has more than one weight: give "
            "each item once"
        )
    return ItemWeights(items=to_ids(ids), weights=numbers)


def _quoted(ids: pa.Array, row: np.intp) -> str:
    return repr(on_one_line(str(ids[int(row)].as_py())))


def item_titles(
    batches: Iterable[tuple[pa.Array, TitleColumn]],
    items: Collection[str],
    tally: Tally,
) -> dict[str, str]:
    """The first title of each of these items.

    Raises SourceError if a title is neither text nor a number.
    """
    wanted = pa.array(sorted(items), pa.large_string())
    titles = dict[str, str]()
    for column, cells in batches:
        ids = column.cast(pa.large_string())
        for row in pc.indices_nonzero(pc.is_in(ids, value_set=wanted)).to_pylist():
            title = _read_title(cells[row], tally.where)
            if title is not None:
                titles.setdefault(ids[row].as_py(), title)
    return titles


def _read_title(cell: object, where: str) -> str | None:
    value = cell.as_py() if isinstance(cell, pa.Scalar) else cell
    if value is None or value == "":
        return None
    if not isinstance(value, str | int | float):
        raise SourceError(
            f"the title column of {where} has a value of type {type(value).__name__}: write "
            "titles as text"
        )
    return str(value)[:MAX_TITLE_LENGTH]


class GradedItems:
    """Collects batches of users, items and grades, in the long or the wide form.

    If there is no column of grades, each item has grade 1. If a user has an item twice, the highest
    grade is used. Rows without a user are skipped.

    Raises UserDataError in four cases. The error names the user.

    - An item is no id.
    - A grade is not a finite number of at least 0.
    - A list has more or fewer grades than items.
    - A user has two rows in the wide form.
    """

    def __init__(self, tally: Tally, item: str, grade: str) -> None:
        self._tally = tally
        self._where = tally.where
        self._item = item  # the name of the column
        self._grade = grade  # the name of the column
        self._is_wide = False
        self._parts: list[tuple[pa.Array, Rows, pa.Array, Floats]] = []
        self.nbytes = 0

    def add_rows(self, users: pa.Array, items: Any, grades: Any) -> None:  # noqa: ANN401
        """Add a batch of the long form. Columns are Arrow arrays or Python's values."""
        ids = id_column(items, self._item, self._where)
        numbers = np.ones(len(users))
        if grades is not None:
            values, is_bad = number_column(grades, self._grade, self._where)
            numbers = np.where(is_bad, np.nan, values)
        has_user = users.is_valid()
        self._append(
            users.filter(has_user),
            np.ones(has_user.true_count, dtype=np.int64),
            ids.filter(has_user),
            numbers[has_user.to_numpy(zero_copy_only=False)],
        )

    def add_lists(self, users: pa.Array, lists: Cells, grades: Cells) -> None:
        """Add a batch of the wide form. The columns have lists."""
        self._is_wide = True
        has_user = users.is_valid().to_numpy(zero_copy_only=False)
        rows = read_lists(
            lists, self._item, self._where, scores=grades, scores_column=self._grade
        ).only(has_user)
        users = users.drop_null()
        self._refuse_rows(
            users,
            np.flatnonzero(rows.is_malformed),
            "needs a list of ids, and one numeric grade for each id",
        )
        numbers = np.ones(len(rows.items)) if rows.scores is None else rows.scores
        self._append(users, rows.lengths, rows.items, numbers)

    def table(self) -> RelevanceTable:
        """The table of all batches.

        There must be at least one batch. Users have the order of their rows.
        """
        users, lengths, item_parts, grade_parts = zip(*self._parts, strict=True)
        keys = pd.Series(_str_array(users))
        if self._is_wide and not keys.is_unique:
            user = pa.scalar(keys[keys.duplicated()].iloc[0])
            self._fail(user, "is in two rows: give each user one list")
        codes, distinct_users = pd.factorize(keys)
        rows = np.repeat(codes, np.concatenate(lengths))
        items = to_ids(join_columns(item_parts))
        grades = np.concatenate(grade_parts)
        best = best_of_each(rows, pd.factorize(pd.Series(items))[0], grades)
        return RelevanceTable(
            users=pd.Index(distinct_users, dtype="str"),
            offsets=offsets_of(np.bincount(rows[best], minlength=len(distinct_users))),
            items=items[best],
            grades=grades[best],
            unreadable=self._tally.unreadable,
        )

    def _append(
        self,
        users: pa.Array,
        lengths: Rows,
        items: pa.Array,
        grades: Floats,
    ) -> None:
        rows = np.repeat(np.arange(len(users)), lengths)
        is_null = items.is_null().to_numpy(zero_copy_only=False)
        self._refuse_rows(users, rows[is_null], "has an item that is no id")
        is_valid = np.isfinite(grades) & (grades >= 0)
        self._refuse_rows(users, rows[~is_valid], "has a grade that is not a number of at least 0")
        self._parts.append((users, lengths, items, grades))
        self.nbytes += users.nbytes + items.nbytes + grades.nbytes

    def _refuse_rows(self, users: pa.Array, rows: Integers, why: str) -> None:
        """Raise an error about the user in the first of these rows, if there are rows."""
        if len(rows):
            self._fail(users[int(rows[0])], why)

    def _fail(self, user: pa.Scalar, why: str) -> NoReturn:
        raise UserDataError(str(user.as_py()), f"of {self._where} {why}")
