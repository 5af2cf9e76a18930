"""The functions that Spark's executors run, each for one partition.

The functions need only numpy, pandas and pyarrow.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from monitor.measures.reading.ids import id_column, one_array, user_index
from monitor.model.ports import Measurer
from monitor.model.rankings import Panel, Pull, UserBatch
from monitor.model.unreadable import ColumnKind, Unreadable, add_up
from monitor.sources.lookup_tables import SegmentValues, split_by_values
from monitor.sources.table_lists import ListColumns, TableLists

MERGED_BYTES = 16 << 20
"""Parts are merged up to about this size. Spark's limit for one message is much higher."""
PARTITION_COLUMNS = "asked long, part binary, unreadable string"
"""The columns of a result. They are the number of users, the measured part, and the unreadable
rows."""


class UnreadableLists(dict[str, tuple[Unreadable, ...]]):
    """The counts of unreadable values in each arm's lists. The keys are the names of the lists."""

    def add(self, name: str, parts: Sequence[Unreadable]) -> None:
        """Add these counts."""
        self[name] = add_up([*self.get(name, ()), *parts])

    def pack(self) -> str:
        """Return all counts as JSON."""
        return json.dumps({name: list(map(asdict, parts)) for name, parts in self.items()})

    def add_packed(self, packed: str) -> None:
        """Add counts that `pack` wrote on another executor."""
        for name, parts in json.loads(packed).items():
            for part in parts:
                part["need"] = ColumnKind(part["need"])
                self.add(name, [Unreadable(**part)])


def user_keys(column: str, where: str) -> Callable[[pa.Array], pa.Array]:
    """A function that returns the users of a column as text.

    A value that is no user becomes null.
    """

    def keys(values: pa.Array) -> pa.Array:
        return id_column(values, column, where).cast(pa.string())

    return keys


@dataclass(frozen=True, kw_only=True)
class MeasuredPartition:
    """Measures the users of a partition. The partition has all rows of these users.

    If ``asked`` is true in a row, the row is a user of the panel. Any other row is a row of lists,
    and its ``side`` is the name of these lists.
    """

    measurer: Measurer
    values: Mapping[str, SegmentValues]
    columns: Mapping[str, ListColumns]  # by the name of the lists
    where: Mapping[str, str]
    unread: Mapping[str, str]  # why lists cannot be read, by the name of the lists
    k: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the result as one row. Yield nothing if the partition has no user."""
        rows = []
        users = []
        count = 0
        for batch in batches:
            rows.append(batch)
            user_rows = batch.filter(batch["asked"])
            users.append(user_rows.select(["key", *self.values]))
            count += user_rows.num_rows
        if not count:
            return
        table = pa.Table.from_batches(users)
        users_batch = self._batch(table, rows)
        pulls = {
            "baseline": users_batch.baseline,
            "candidate": users_batch.candidate,
            "noise_floor": users_batch.second_baseline,
        }
        unreadable = UnreadableLists()
        for name, list_columns in self.columns.items():
            pull = pulls[name]
            if pull is not None:
                # Rows without a user were counted earlier. They are not in this partition.
                user = list_columns.user
                unreadable.add(name, [part for part in pull.unreadable if part.column != user])
        yield _part(count, self.measurer.measure(users_batch), unreadable)

    def _batch(self, table: pa.Table, rows: Sequence[pa.RecordBatch]) -> UserBatch:
        users = user_index(one_array(table["key"]))
        labels = {name: one_array(table[name]) for name in self.values}
        pulls = {}
        for name in self.columns:
            pulls[name] = self._pull(name, users, rows)
        for name, why in self.unread.items():
            pulls[name] = Pull.failed(users, note=why)
        return UserBatch(
            panel=Panel(users=users, segments=split_by_values(len(users), labels, self.values)),
            baseline=pulls["baseline"],
            candidate=pulls["candidate"],
            second_baseline=pulls.get("noise_floor"),
        )

    def _pull(self, side: str, users: "pd.Index[str]", rows: Sequence[pa.RecordBatch]) -> Pull:
        columns = self.columns[side]
        optional = (
            columns.items,
            columns.item,
            columns.rank,
            columns.scores,
            columns.model_version,
        )
        names = [name for name in optional if name is not None]

        def batches() -> Iterator[dict[str, pa.Array]]:
            for batch in rows:
                of_side = batch.filter(pc.equal(batch["side"], side))
                arrays = {columns.user: of_side["key"]}
                for name in names:
                    arrays[name] = of_side[f"{side}_{name}"]
                yield arrays

        lists = TableLists(options=columns, users=users, k=self.k, where=self.where[side])
        return lists.pull(batches())


@dataclass(frozen=True, kw_only=True)
class MergedPartition:
    """Merges the results of many partitions."""

    measurer: Measurer

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the merged rows. Each has about `MERGED_BYTES`."""
        count = 0
        parts: list[bytes] = []
        unreadable = UnreadableLists()
        for batch in batches:
            for row in batch.to_pylist():
                count += row["asked"]
                parts.append(row["part"])
                unreadable.add_packed(row["unreadable"])
                if sum(map(len, parts)) > MERGED_BYTES:
                    yield _part(count, self.measurer.merge(parts), unreadable)
                    count = 0
                    parts = []
                    unreadable = UnreadableLists()
        if parts:
            yield _part(count, self.measurer.merge(parts), unreadable)


def _part(count: int, part: bytes, unreadable: UnreadableLists) -> pa.RecordBatch:
    columns = {
        "asked": pa.array([count], pa.int64()),
        "part": pa.array([part], pa.binary()),
        "unreadable": pa.array([unreadable.pack()], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)
