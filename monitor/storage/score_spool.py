"""Keeps scores on disk until they are stored, and returns them in the order of users."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import duckdb
import pyarrow as pa

from monitor.boundary.foreign_errors import file_cause
from monitor.boundary.temporary_database import explain_shortage, scratch_database
from monitor.measures.reading.ids import user_index
from monitor.model.errors import OutputError
from monitor.model.runs import Scores

SPOOL_MEMORY = "100MB"
SPOOL_THREADS = 2
"""More threads would need more memory than `SPOOL_MEMORY`."""
BLOCK_USERS = 100_000


class DuckSpool:
    """Implements the port ScoreSpool with a temporary table in DuckDB."""

    def __init__(self) -> None:
        self._resources = ExitStack()
        self._column_of: dict[str, str] = {}  # the name of each metric's column
        with _errors_translated():
            self._database = self._resources.enter_context(
                scratch_database(SPOOL_MEMORY, threads=SPOOL_THREADS)
            )
        self._database.execute("CREATE TEMP TABLE spool (user_id VARCHAR)")

    def add(self, scores: Scores) -> None:
        """Append the scores. Metrics that ``scores`` lacks become NULL.

        Raises OutputError if the disk cannot store them.
        """
        with _errors_translated():
            columns = {"user_id": pa.array(scores.users.array)}
            for metric, values in scores.by_metric.items():
                if metric not in self._column_of:
                    # Columns get numbered names, because DuckDB ignores the case of names.
                    column = f"metric_{len(self._column_of)}"
                    self._column_of[metric] = column
                    self._database.execute(f"ALTER TABLE spool ADD COLUMN {column} DOUBLE")
                columns[self._column_of[metric]] = values
            self._database.register("block", pa.table(columns))
            self._database.execute("INSERT INTO spool BY NAME SELECT * FROM block")
            self._database.unregister("block")

    def blocks(self) -> Iterator[Scores]:
        """Yield all scores, ordered by the bytes of the user ids, as in SQLite's tables.

        Raises OutputError if the scores cannot be read.
        """
        with _errors_translated():
            ordered = self._database.sql("SELECT * FROM spool ORDER BY user_id")
            for block in ordered.to_arrow_reader(BLOCK_USERS):
                values = {
                    metric: block[column].to_numpy(zero_copy_only=False)
                    for metric, column in self._column_of.items()
                }
                yield Scores(users=user_index(block["user_id"]), by_metric=values)

    def close(self) -> None:
        """Delete the scores."""
        self._resources.close()


@contextmanager
def _errors_translated() -> Iterator[None]:
    """Turn errors of the temporary files into OutputError.

    The OutputError is never permanent, because the next run makes new files.
    """
    try:
        yield
    # Reading sorts the scores, so it also writes temporary files. Arrow's reader may raise errors
    # of Arrow or of the operating system.
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        cause = explain_shortage(str(error)) or file_cause(error)
        raise OutputError(
            f"the scores of the run were not written to temporary files: {cause}, or set "
            "keep_scores to a number of users",
            permanent=False,
        ) from None
