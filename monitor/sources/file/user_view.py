"""Everybody in files of users, each once, and their segments."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from monitor.errors import SourceError
from monitor.model import ALL, AskedUsers
from monitor.model.arrays import Rows
from monitor.sources.file.database import KEY
from monitor.sources.file.file_set import FileSet
from monitor.sources.file.file_view import FileView
from monitor.sources.id_columns import one_array
from monitor.sources.lookup_tables import SegmentValues, segment_labels, split_by_values


class UserView:
    """The users of files as the view ``asked``: a column `KEY`, and in ``columns`` a value for each segment dimension.

    Of a user who stands in several rows the smallest value of each dimension counts, so that the order of rows and parts never
    does. Rows of distinct users keep the columns of ``also``. SourceError where there is not one user.
    """

    name = "asked"

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        user: str,
        dimensions: Sequence[str],
        also: Sequence[str] = (),
    ) -> None:
        self.columns = tuple(f"rankwatch_segment_{place}" for place in range(len(dimensions)))
        self.where, self.read = files.where, (files.paths, user)
        rows = FileView(database, files, tuple(dict.fromkeys((user, *dimensions, *also))), "asked_rows")
        labels = (f"{rows.label(name)} AS {column}" for column, name in zip(self.columns, dimensions, strict=True))
        keys = ", ".join([f"{rows.key(user)} AS {KEY}", *labels, "*"])
        database.execute(f"CREATE TEMP VIEW asked_keys AS SELECT {keys} FROM {rows.name}")  # noqa: S608 - quoted names
        (counted,) = database.execute(
            f"SELECT count({KEY}), count(DISTINCT hash({KEY})) FILTER ({KEY} IS NOT NULL) FROM asked_keys"  # noqa: S608 - a name of ours
        ).fetchall()
        if not counted[0]:
            msg = f"{self.where} holds no user: check the path and the name of the user column"
            raise SourceError(msg)
        self.is_distinct = counted[0] == counted[1]
        least = "".join(f", min({each}) AS {each}" for each in self.columns)
        taken, together = ("*", "") if self.is_distinct else (f"{KEY}{least}", f" GROUP BY {KEY}")
        database.execute(f"CREATE TEMP VIEW asked AS SELECT {taken} FROM asked_keys WHERE {KEY} IS NOT NULL{together}")  # noqa: S608


class SegmentColumns:
    """Which values of the dimensions of a `UserView` are segments of their own: the ``most`` most frequent of each."""

    def __init__(self, database: duckdb.DuckDBPyConnection, users: UserView, dimensions: Sequence[str], most: int) -> None:
        ((count,),) = database.execute("SELECT count(*) FROM asked").fetchall()
        named = zip(users.columns, dimensions, strict=True)
        self._values = {column: _segment_values(database, column, name, users.where, most) for column, name in named}
        names = [name for values in self._values.values() for name in values.names]
        self.asked = AskedUsers(count=count, segments=(ALL, *names))

    def of(self, record: pa.RecordBatch) -> dict[str, Rows]:
        """Positions by segment of the users of a batch."""
        return split_by_values(record.num_rows, {column: record[column] for column in self._values}, self._values)


def _segment_values(database: duckdb.DuckDBPyConnection, column: str, name: str, where: str, most: int) -> SegmentValues:
    counted = f"SELECT {column} AS value, count(*) AS n FROM asked GROUP BY value"  # noqa: S608 - a name of ours
    ranked = f"SELECT value FROM ({counted}) WHERE value IS NOT NULL ORDER BY n DESC, CAST(value AS VARCHAR) LIMIT {most + 1}"  # noqa: S608
    labels = segment_labels(one_array(database.sql(ranked).to_arrow_table().column(0)), name, where).to_pylist()
    ((has_unknown,),) = database.execute(f"SELECT count(*) > 0 FROM asked WHERE {column} IS NULL").fetchall()  # noqa: S608
    return SegmentValues(list(filter(None, labels)), most, name, where, has_unknown=has_unknown)
