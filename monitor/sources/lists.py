"""Lists out of arrow columns, wide (one list a row) or long (one item a row), for the users asked and nobody else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.model import CoverageReason, Pull, RankingTable
from monitor.sources.columns import combined, id_column, join_items, rank_column, user_column

Rows = npt.NDArray[np.int64]

_NOTES = {
    CoverageReason.MISSING: "the user's list is null",
    CoverageReason.DUPLICATE_USER: "a user has more than one list",
}


class WantedUsers:
    """The users asked for, and where each row of a column finds its user among them."""

    def __init__(self, users: pd.Index[str]) -> None:
        self.index = users
        self._keys = pa.array(users, type=pa.large_string())

    def __len__(self) -> int:
        return len(self._keys)

    def rows(self, users: pa.Array) -> Rows:
        """Position of each user, -1 for one that is not wanted or is null."""
        found = pc.index_in(users, value_set=self._keys).fill_null(-1)
        rows: Rows = found.to_numpy().astype(np.int64)
        return rows

    def take(self, rows: Rows) -> pd.Index[str]:
        """Return the users at these positions."""
        if len(rows) == len(self) and bool((rows == np.arange(len(rows))).all()):
            return self.index
        users: pd.Index[str] = pd.Index(pd.array(self._keys.take(pa.array(rows)), dtype="str"))
        return users

    def failures(self, reasons: Mapping[CoverageReason, Rows]) -> dict[str, CoverageReason]:
        """Reasons by user; a later reason does not replace an earlier one."""
        failed: dict[str, CoverageReason] = {}
        for reason, rows in reasons.items():
            for user in self.take(np.unique(rows)):
                failed.setdefault(user, reason)
        return failed


class WideLists:
    """Takes batches of a user column and a list column."""

    def __init__(self, wanted: WantedUsers, where: str) -> None:
        self._wanted = wanted
        self._where = where
        self._rows: list[Rows] = []
        self._lengths: list[Rows] = []
        self._null: list[npt.NDArray[np.bool_]] = []
        self._bad: list[npt.NDArray[np.bool_]] = []
        self._items: list[pa.Array] = []
        self.nbytes = 0

    def add(self, users: pa.Array, lists: pa.Array) -> None:
        """Take a batch; rows of users that are not wanted are dropped at once."""
        rows = self._wanted.rows(user_column(users, f"the user column of {self._where}"))
        kept = rows >= 0
        if not kept.all():
            lists, rows = lists.filter(pa.array(kept)), rows[kept]
        if pa.types.is_fixed_size_list(lists.type):
            lists = lists.cast(pa.list_(lists.type.value_type))
        items = id_column(lists.flatten(), f"the list column of {self._where}")
        lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        bad = np.zeros(len(rows), dtype=bool)
        if items.null_count:
            of_row = np.repeat(np.arange(len(rows)), lengths)
            bad[of_row[items.is_null().to_numpy(zero_copy_only=False)]] = True
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
        items = self._items
        if not kept.all():
            keep_item = np.repeat(kept, lengths)
            edges = np.cumsum([0, *map(len, items)])
            items = [part.filter(pa.array(keep_item[a:b])) for part, a, b in zip(items, edges, edges[1:], strict=False)]
            rows, lengths = rows[kept], lengths[kept]
        if bool((rows[1:] < rows[:-1]).any()):
            rows, lengths, items = _lists_in_order(rows, lengths, items)
        return _pull(self._wanted, rows, lengths, items, reasons)


class LongLists:
    """Takes batches of a user, an item and a rank column. The lowest rank is the best; ranks need not be consecutive.

    Two items of one user at one rank have no order: that user is ``malformed``, as is one with a null item or rank.
    """

    def __init__(self, wanted: WantedUsers, where: str) -> None:
        self._wanted = wanted
        self._where = where
        self._rows: list[Rows] = []
        self._ranks: list[npt.NDArray[np.float64]] = []
        self._items: list[pa.Array] = []
        self.nbytes = 0

    def add(self, users: pa.Array, items: pa.Array, ranks: pa.Array) -> None:
        """Take a batch; rows of users that are not wanted are dropped at once."""
        rows = self._wanted.rows(user_column(users, f"the user column of {self._where}"))
        kept = rows >= 0
        if not kept.all():
            mask = pa.array(kept)
            rows, items, ranks = rows[kept], items.filter(mask), ranks.filter(mask)
        self._rows.append(rows)
        self._items.append(id_column(items, f"the item column of {self._where}"))
        self._ranks.append(rank_column(ranks, f"the rank column of {self._where}"))
        self.nbytes += self._items[-1].nbytes + 2 * rows.nbytes

    def pull(self) -> Pull:
        """Lists of every batch taken."""
        rows, ranks = _joined(self._rows), np.concatenate([np.zeros(0), *self._ranks])
        items = _one_type(self._items)
        rows, ranks, items = _in_order(rows, ranks, items)
        odd = np.isnan(ranks) | items.is_null().to_numpy(zero_copy_only=False)
        tied = (rows[1:] == rows[:-1]) & (ranks[1:] == ranks[:-1])
        bad_users = np.zeros(len(self._wanted), dtype=bool)
        bad_users[rows[odd]] = True
        bad_users[rows[1:][tied]] = True
        kept = ~bad_users[rows]
        if not kept.all():
            rows, items = rows[kept], items.filter(pa.array(kept))
        lengths = np.bincount(rows, minlength=len(self._wanted)).astype(np.int64)
        present = np.flatnonzero(lengths)
        reasons = {CoverageReason.MALFORMED: np.flatnonzero(bad_users)}
        return _pull(self._wanted, present, lengths[present], [items], reasons)


def _lists_in_order(rows: Rows, lengths: Rows, items: list[pa.Array]) -> tuple[Rows, Rows, list[pa.Array]]:
    """Return the lists in the order of the users asked: whoever pairs them then has nothing to look up."""
    order = np.argsort(rows, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    lists = pa.LargeListArray.from_arrays(pa.array(offsets, type=pa.int64()), _one_type(items))
    return rows[order], lengths[order], [lists.take(pa.array(order)).flatten()]


def _in_order(rows: Rows, ranks: npt.NDArray[np.float64], items: pa.Array) -> tuple[Rows, npt.NDArray[np.float64], pa.Array]:
    """Return everything by user and rank; untouched where it is so already."""
    ahead = rows[1:] > rows[:-1]
    if bool((ahead | ((rows[1:] == rows[:-1]) & (ranks[1:] > ranks[:-1]))).all()):
        return rows, ranks, items
    order = np.lexsort((ranks, rows))
    return rows[order], ranks[order], items.take(pa.array(order))


def _joined(parts: list[Rows]) -> Rows:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _one_type(parts: list[pa.Array]) -> pa.Array:
    """Return parts of an id column as one array; text as soon as one part is text."""
    kind = pa.int64() if all(pa.types.is_int64(part.type) for part in parts) else pa.large_string()
    return combined(pa.chunked_array([part.cast(kind) for part in parts], type=kind))


def _pull(
    wanted: WantedUsers, rows: Rows, lengths: Rows, items: list[pa.Array], reasons: Mapping[CoverageReason, Rows]
) -> Pull:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    table = RankingTable(users=wanted.take(rows), offsets=offsets, items=join_items(items))
    notes = _NOTES | {CoverageReason.MALFORMED: "null or no id among the items, or two items at one rank"}
    return Pull(
        rankings=table,
        failures=wanted.failures(reasons),
        notes={reason: notes[reason] for reason, failed in reasons.items() if len(failed)},
    )
