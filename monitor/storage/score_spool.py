"""Scores that wait to be stored, in a table outside of memory that is read back by user."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import duckdb
import pandas as pd
import pyarrow as pa

from monitor.errors import OutputError
from monitor.foreign_errors import file_cause
from monitor.model.runs import Scores
from monitor.scratch import room_trouble, scratch_database

MEMORY = "100MB"
THREADS = 2
"""More of them would not share so little memory."""
BATCH = 100_000


class DuckSpool:
    """A temporary table in DuckDB. Port: ScoreSpool."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._columns: dict[str, str] = {}
        with _one_sentence():
            self._database = self._open.enter_context(scratch_database(MEMORY, threads=THREADS))
        self._database.execute("CREATE TEMP TABLE spool (name VARCHAR)")

    def add(self, scores: Scores) -> None:
        """See the port."""
        with _one_sentence():
            for metric in scores.by_metric:
                if metric not in self._columns:
                    # Names of our own: DuckDB takes those that differ in case only for the same.
                    self._columns[metric] = f"metric_{len(self._columns)}"
                    self._database.execute(
                        f"ALTER TABLE spool ADD COLUMN {self._columns[metric]} DOUBLE"
                    )
            values = {self._columns[metric]: values for metric, values in scores.by_metric.items()}
            self._database.register(
                "batch", pa.table({"name": pa.array(scores.users.array), **values})
            )
            self._database.execute("INSERT INTO spool BY NAME SELECT * FROM batch")
            self._database.unregister("batch")

    def batches(self) -> Iterator[Scores]:
        """See the port. Text is ordered by its bytes, as in the tables of SQLite."""
        with _one_sentence():
            for record in self._database.sql("SELECT * FROM spool ORDER BY name").to_arrow_reader(
                BATCH
            ):
                users: pd.Index[str] = pd.Index(
                    pd.array(record["name"].cast(pa.large_string()), dtype="str")
                )
                values = {
                    metric: record[column].to_numpy(zero_copy_only=False)
                    for metric, column in self._columns.items()
                }
                yield Scores(users=users, by_metric=values)

    def close(self) -> None:
        """See the port."""
        self._open.close()


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    # What a stream of batches runs into comes as an error of Arrow's or the system's.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        trouble = room_trouble(str(error)) or file_cause(error)
        msg = (
            f"the scores of the run were not written to temporary files: {trouble}, or set "
            "keep_scores to a number of users"
        )
        raise OutputError(msg, permanent=False) from None
