"""Writes all scores of a run to a Parquet file with a column of doubles for each metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from monitor.boundary.files import replacing
from monitor.boundary.foreign_errors import file_cause
from monitor.boundary.options import ConfigPath, Options
from monitor.boundary.options.one_of import OneOf
from monitor.boundary.slot_templates import check_placeholders, fill_slot
from monitor.model.errors import OutputError
from monitor.model.immutable import immutable
from monitor.model.runs import Scores

if TYPE_CHECKING:
    import pyarrow.parquet as pq

USER_COLUMN = "user"
ROW_GROUP_USERS = 200_000
"""The largest number of users in a row group of the Parquet file."""


class ScoreFileOptions(Options):
    """A Parquet file for each slot, with a column `user` and one column for each metric.

    Undefined scores are null.
    """

    path: Annotated[ConfigPath, AfterValidator(check_placeholders)] = Field(min_length=1)
    """Path of the file. rankwatch replaces `{slot:%Y-%m-%d}` with the run's scheduled time (UTC).
    You can use any strftime format. Without this placeholder, each run replaces the file of the
    previous run. Only the account that runs rankwatch can read the file. A relative path is
    relative to the directory of the configuration file."""


class ScoresToOptions(OneOf):
    """Where to write all scores of a run, in addition to the database. Set exactly one key."""

    file: ScoreFileOptions | None = None
    """A Parquet file for each slot."""


@immutable
class ScoreFiles:
    """Implements the port ScoreSink with Parquet files.

    The slot replaces the placeholders in ``path``. The order of users is the caller's order.
    """

    path: str

    @contextmanager
    def open(
        self,
        slot: datetime,
        metrics: Sequence[str],
        about: Mapping[str, str],
    ) -> Iterator[Callable[[Scores], object]]:
        """Yield a function that appends scores to a new Parquet file for the slot.

        ``about`` becomes the file's metadata. The file appears when the ``with`` block ends without
        an error.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(fill_slot(self.path, slot))
        columns = [pa.field(USER_COLUMN, pa.string(), nullable=False)]
        columns += [pa.field(name, pa.float64()) for name in metrics]
        schema = pa.schema(columns, dict(about))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                replacing(path, mode=0o600, is_lasting=True) as file,
                pq.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                yield partial(_write, writer)
        except (OSError, ValueError, pa.ArrowException) as error:
            # A name or a path that UTF-8 cannot encode, or that contains NUL, raises ValueError.
            cause = getattr(error, "strerror", None) or file_cause(error)
            raise OutputError(f"scores_to: {path} was not written: {cause}") from None


def _write(writer: pq.ParquetWriter, scores: Scores) -> None:
    """Append the scores to the file. Its first column has the users, the others the metrics."""
    import pyarrow as pa

    columns = [pa.array(scores.users.to_list(), pa.string())]
    for name in writer.schema.names[1:]:
        columns.append(pa.array(scores.by_metric[name], pa.float64(), from_pandas=True))
    writer.write_table(pa.table(columns, schema=writer.schema), row_group_size=ROW_GROUP_USERS)
