"""What runs on Spark's executors, over one partition at a time.

Needs numpy, pandas and pyarrow there, nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.model.rankings import Panel, Pull, UserBatch
from monitor.ports import Measurer
from monitor.sources.columns import one_array, user_index
from monitor.sources.lookup_tables import SegmentValues, split_by_values
from monitor.sources.table_lists import ListColumns, TableLists

MERGED_BYTES = 16 << 20
"""Parts are merged until they hold this much: far from what Spark sends in one message."""
PARTS = "asked long, part binary"
"""Columns of what comes back: how many users were asked, and what was found of them."""


@dataclass(frozen=True, kw_only=True)
class MeasuredPartition:
    """Measures the users of a partition, in which all rows of a user stand.

    A row with ``asked`` is a user.
    """

    measurer: Measurer
    values: Mapping[str, SegmentValues]
    columns: Mapping[str, ListColumns]  # by the name of the lists, the ``side`` of their rows
    where: Mapping[str, str]
    unread: Mapping[str, str]  # why those lists cannot be read that are not in columns
    k: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """At most one row."""
        held = [batch for batch in batches if batch.num_rows]
        asked = [batch.filter(batch["asked"]) for batch in held]
        count = sum(batch.num_rows for batch in asked)
        if count:
            users = pa.Table.from_batches([batch.select(["key", *self.values]) for batch in asked])
            yield _part(count, self.measurer.measure(self._batch(users, held)))

    def _batch(self, asked: pa.Table, held: Sequence[pa.RecordBatch]) -> UserBatch:
        users = user_index(one_array(asked["key"]))
        labels = {name: one_array(asked[name]) for name in self.values}
        return UserBatch(
            panel=Panel(users=users, segments=split_by_values(len(users), labels, self.values)),
            baseline=self._pull("baseline", users, held)
            or Pull.failed(users, note=self.unread["baseline"]),
            candidate=self._pull("candidate", users, held)
            or Pull.failed(users, note=self.unread["candidate"]),
            again=self._pull("noise_floor", users, held),
        )

    def _pull(
        self, side: str, users: "pd.Index[str]", held: Sequence[pa.RecordBatch]
    ) -> Pull | None:
        columns = self.columns.get(side)
        if columns is None:
            return None
        rows = (batch.filter(pc.equal(batch["side"], side)) for batch in held)
        given = (columns.items, columns.item, columns.rank, columns.scores, columns.model_version)
        names = [name for name in given if name is not None]
        lists = (
            {columns.user: batch["key"], **{name: batch[f"{side}_{name}"] for name in names}}
            for batch in rows
        )
        return TableLists(options=columns, users=users, k=self.k, where=self.where[side]).pull(
            lists
        )


@dataclass(frozen=True, kw_only=True)
class MergedPartition:
    """Merges what was found of many partitions."""

    measurer: Measurer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each `MERGED_BYTES` or so."""
        asked, parts = 0, list[bytes]()
        for batch in batches:
            for row in batch.to_pylist():
                asked += row["asked"]
                parts.append(row["part"])
                if sum(map(len, parts)) > MERGED_BYTES:
                    yield _part(asked, self.measurer.merge(parts))
                    asked, parts = 0, []
        if parts:
            yield _part(asked, self.measurer.merge(parts))


def _part(asked: int, part: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"asked": pa.array([asked], pa.int64()), "part": pa.array([part], pa.binary())}
    )
