"""Lists from Arrow columns, wide (one list a row) or long (one item a row), for the users asked and nobody else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.model import CoverageReason, Pull, RankingTable
from monitor.model.arrays import Flags, Floats
from monitor.sources.id_columns import flat_ids, id_column, join_items, one_array, user_column
from monitor.sources.number_columns import number_column, numbers_beside

_MERGED_BYTES = 1 << 29  # far from 2 GiB, where offsets of arrow's plain text end

ArrowBatch = Mapping[str, pa.Array]


def merge_batches(batches: Iterable[ArrowBatch], rows: int) -> Iterator[ArrowBatch]:
    """Batches of at least so many rows, joined from smaller ones."""
    # Looking up the users of a batch costs as much as the panel is long, however small the batch is.
    waiting: list[ArrowBatch] = []
    is_first = True
    for batch in batches:
        waiting.append(batch)
        if _row_count(waiting) >= rows or _nbytes(waiting) > _MERGED_BYTES:
            yield _join_batches(waiting)
            waiting, is_first = [], False
    if waiting and (is_first or _row_count(waiting)):
        yield _join_batches(waiting)


def _row_count(parts: Sequence[ArrowBatch]) -> int:
    return sum(len(next(iter(part.values()))) for part in parts)


def _nbytes(parts: Sequence[ArrowBatch]) -> int:
    return sum(column.nbytes for part in parts for column in part.values())


def _join_batches(parts: list[ArrowBatch]) -> ArrowBatch:
    parts = [part for part in parts if _row_count([part])] or parts[:1]
    return {name: _join_columns([part[name] for part in parts]) for name in parts[0]}


def _join_columns(columns: list[pa.Array]) -> pa.Array:
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.large_string()) for column in columns]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


_Rows = npt.NDArray[np.int64]

_NOTES = {
    CoverageReason.MISSING: "the user's list is null",
    CoverageReason.DUPLICATE_USER: "a user has more than one list",
}
_MALFORMED = "null or no id among the items, or two items at one rank"
_MALFORMED_SCORES = _MALFORMED + ", or scores that are no numbers or not as many as the items"


class WantedUsers:
    """The users asked for, and where each row of a column finds its user among them."""

    def __init__(self, users: pd.Index[str]) -> None:
        self.index = users
        self._keys = pa.array(users, type=pa.large_string())

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, users: pa.Array) -> _Rows:
        """Position of each user, -1 for one that is not wanted or is null."""
        if users.equals(self._keys):
            return np.arange(len(users))
        found = pc.index_in(users, value_set=self._keys).fill_null(-1)
        rows: _Rows = found.to_numpy().astype(np.int64)
        return rows

    def take(self, rows: _Rows) -> pd.Index[str]:
        """Return the users at these positions."""
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self.index
        users: pd.Index[str] = pd.Index(pd.array(self._keys.take(pa.array(rows)), dtype="str"))
        return users

    def failures(self, reasons: Mapping[CoverageReason, _Rows]) -> dict[str, CoverageReason]:
        """Reasons by user; a later reason does not replace an earlier one."""
        failed: dict[str, CoverageReason] = {}
        for reason, rows in reasons.items():
            for user in self.take(np.unique(rows)) if len(rows) else ():
                failed.setdefault(user, reason)
        return failed


class WideLists:
    """Takes batches of a user column, a list column and, where there is one, a column of lists of scores.

    A user whose scores are not as many as the items is ``malformed``.
    """

    def __init__(self, wanted: WantedUsers, where: str) -> None:
        self._wanted = wanted
        self._where = where
        self._rows: list[_Rows] = []
        self._lengths: list[_Rows] = []
        self._null: list[Flags] = []
        self._bad: list[Flags] = []
        self._items: list[pa.Array] = []
        self._scores: list[Floats] = []
        self.nbytes = 0

    def add(self, users: pa.Array, lists: pa.Array, scores: pa.Array | None = None) -> None:
        """Take a batch; rows of users that are not wanted are dropped at once."""
        rows = self._wanted.rows(user_column(users, f"the user column of {self._where}"))
        kept = rows >= 0
        if not kept.all():
            lists, rows = lists.filter(pa.array(kept)), rows[kept]
            scores = None if scores is None else scores.filter(pa.array(kept))
        items, lengths = flat_ids(lists, f"the list column of {self._where}")
        bad = np.zeros(len(rows), dtype=bool)
        if items.null_count:
            of_row = np.repeat(np.arange(len(rows)), lengths)
            bad[of_row[items.is_null().to_numpy(zero_copy_only=False)]] = True
        if scores is not None:
            numbers, is_uneven = numbers_beside(lengths, scores, f"the scores column of {self._where}")
            self._scores.append(numbers)
            self.nbytes += numbers.nbytes
            bad |= is_uneven
        self._rows.append(rows)
        self._lengths.append(lengths)
        self._null.append(lists.is_null().to_numpy(zero_copy_only=False))
        self._bad.append(bad)
        self._items.append(items)
        self.nbytes += items.nbytes + rows.nbytes + lengths.nbytes

    def pull(self) -> Pull:
        """Lists of every batch taken."""
        rows, lengths = _joined(self._rows), _joined(self._lengths)
        null, bad = np.concatenate([*self._null, []]).astype(bool), np.concatenate([*self._bad, []]).astype(bool)
        twice = np.bincount(rows, minlength=len(self._wanted))[rows] > 1
        reasons = {
            CoverageReason.DUPLICATE_USER: rows[twice],
            CoverageReason.MISSING: rows[null],
            CoverageReason.MALFORMED: rows[bad],
        }
        kept = ~(twice | null | bad)
        items, scores = self._items, np.concatenate(self._scores) if self._scores else None
        if not kept.all():
            keep_item = np.repeat(kept, lengths)
            edges = np.cumsum([0, *map(len, items)])
            items = [part.filter(pa.array(keep_item[a:b])) for part, a, b in zip(items, edges, edges[1:], strict=False)]
            rows, lengths, scores = rows[kept], lengths[kept], None if scores is None else scores[keep_item]
        if bool((rows[1:] < rows[:-1]).any()):
            rows, lengths, items, scores = _lists_in_order(rows, lengths, items, scores)
        return _pull(self._wanted, rows, lengths, items, reasons, scores)


class LongLists:
    """Takes batches of a user and an item column with one of ranks, of scores, or both.

    The lowest rank is the best; ranks need not be consecutive. Without ranks the highest score is, and of equal ones the id
    that is first as text. Two items of one user at one rank have no order: that user is ``malformed``, as is one with a null
    item or rank, without ranks a null score, or a score that is no number.
    """

    def __init__(self, wanted: WantedUsers, where: str) -> None:
        self._wanted = wanted
        self._where = where
        self._rows: list[_Rows] = []
        self._ranks: list[Floats] = []
        self._scores: list[Floats] = []
        self._bad: list[Flags] = []
        self._items: list[pa.Array] = []
        self.nbytes = 0

    def add(self, users: pa.Array, items: pa.Array, ranks: pa.Array | None = None, scores: pa.Array | None = None) -> None:
        """Take a batch; rows of users that are not wanted are dropped at once."""
        rows = self._wanted.rows(user_column(users, f"the user column of {self._where}"))
        columns = {"items": items, "ranks": ranks, "scores": scores}
        kept = rows >= 0
        if not kept.all():
            mask, rows = pa.array(kept), rows[kept]
            columns = {name: column if column is None else column.filter(mask) for name, column in columns.items()}
        self._rows.append(rows)
        self._items.append(id_column(columns["items"], f"the item column of {self._where}"))
        if columns["ranks"] is not None:
            self._ranks.append(number_column(columns["ranks"], f"the rank column of {self._where}")[0])
        if columns["scores"] is not None:
            numbers, is_bad = number_column(columns["scores"], f"the scores column of {self._where}")
            self._scores.append(numbers)
            self._bad.append(is_bad)
        self.nbytes += self._items[-1].nbytes + rows.nbytes * sum(column is not None for column in columns.values())

    def pull(self) -> Pull:
        """Lists of every batch taken."""
        rows, items = _joined(self._rows), _one_type(self._items)
        scores = np.concatenate(self._scores) if self._scores else None
        is_ranked = scores is None or bool(self._ranks)
        places = np.concatenate([np.zeros(0), *self._ranks]) if scores is None or self._ranks else -scores
        odd = np.isnan(places) | items.is_null().to_numpy(zero_copy_only=False)
        odd |= np.concatenate(self._bad) if self._bad else False
        order = _order(rows, places, None if is_ranked else items)
        if order is not None:
            rows, places, odd, items = rows[order], places[order], odd[order], items.take(pa.array(order))
            scores = None if scores is None else scores[order]
        bad_users = np.zeros(len(self._wanted), dtype=bool)
        bad_users[rows[odd]] = True
        if is_ranked:
            bad_users[rows[1:][(rows[1:] == rows[:-1]) & (places[1:] == places[:-1])]] = True
        kept = ~bad_users[rows]
        if not kept.all():
            rows, items, scores = rows[kept], items.filter(pa.array(kept)), None if scores is None else scores[kept]
        lengths = np.bincount(rows, minlength=len(self._wanted)).astype(np.int64)
        present = np.flatnonzero(lengths)
        reasons = {CoverageReason.MALFORMED: np.flatnonzero(bad_users)}
        return _pull(self._wanted, present, lengths[present], [items], reasons, scores)


def _lists_in_order(
    rows: _Rows, lengths: _Rows, items: list[pa.Array], scores: Floats | None
) -> tuple[_Rows, _Rows, list[pa.Array], Floats | None]:
    """Return the lists in the order of the users asked: whoever pairs them then has nothing to look up."""
    order = np.argsort(rows, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(lengths)])

    def ordered(flat: pa.Array) -> pa.Array:
        lists = pa.LargeListArray.from_arrays(pa.array(offsets, type=pa.int64()), flat)
        return lists.take(pa.array(order)).flatten()

    moved = None if scores is None else ordered(pa.array(scores)).to_numpy()
    return rows[order], lengths[order], [ordered(_one_type(items))], moved


def _order(rows: _Rows, places: Floats, items: pa.Array | None) -> npt.NDArray[np.intp] | None:
    """Order by user and place, and by the items' text where they share one and items are given; None where it is so already."""
    ahead = (rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (places[1:] > places[:-1]))
    if bool(ahead.all()):
        return None
    order = np.lexsort((places, rows))
    tied = (rows[order][1:] == rows[order][:-1]) & (places[order][1:] == places[order][:-1])
    if items is None or not tied.any():
        return order
    texts = np.empty(len(rows), dtype=np.int64)
    texts[pc.sort_indices(items.cast(pa.large_string())).to_numpy()] = np.arange(len(rows))
    return np.lexsort((texts, places, rows))


def _joined(parts: list[_Rows]) -> _Rows:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _one_type(parts: list[pa.Array]) -> pa.Array:
    """Return parts of an id column as one array; text as soon as one part is text."""
    kind = pa.int64() if all(pa.types.is_integer(part.type) for part in parts) else pa.large_string()
    return one_array(pa.chunked_array([part.cast(kind) for part in parts], type=kind))


def _pull(
    wanted: WantedUsers,
    rows: _Rows,
    lengths: _Rows,
    items: list[pa.Array],
    reasons: Mapping[CoverageReason, _Rows],
    scores: Floats | None,
) -> Pull:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    table = RankingTable(users=wanted.take(rows), offsets=offsets, items=join_items(items), scores=scores)
    notes = _NOTES | {CoverageReason.MALFORMED: _MALFORMED if scores is None else _MALFORMED_SCORES}
    return Pull(
        rankings=table,
        failures=wanted.failures(reasons),
        notes={reason: notes[reason] for reason, failed in reasons.items() if len(failed)},
    )
