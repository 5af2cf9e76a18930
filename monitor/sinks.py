"""Where all scores of a run are written beside the database: one Parquet file a slot (zstd), a column of doubles a metric."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from monitor.errors import OutputError
from monitor.files import replacing
from monitor.foreign_errors import file_cause
from monitor.model.runs import Scores
from monitor.options import ConfigPath, OneOf, Options
from monitor.slot_templates import check_placeholders, fill_slot

if TYPE_CHECKING:
    import pyarrow.parquet as pq

USER = "user"
CHUNK = 200_000
"""Users that are in memory once more while they are written; so many make a row group."""


class ScoreFileOptions(Options):
    """One Parquet file a slot: a column `user`, and a column of numbers for each metric, null where undefined."""

    path: Annotated[ConfigPath, AfterValidator(check_placeholders)] = Field(
        min_length=1,
        description="Path of the file; `{slot:%Y-%m-%d}` becomes the run's scheduled time (UTC), "
        "in any strftime format; without it each run replaces the file of the last "
        "one. Only rankwatch's own account may read it. A relative path starts at the "
        "configuration file's directory.",
    )


class ScoresToOptions(OneOf):
    """Where all scores of each run are written, beside what the database keeps: exactly one of these."""

    file: ScoreFileOptions | None = Field(default=None, description="A Parquet file a slot.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreFiles:
    """Port ScoreSink over files.

    ``path`` is a template. Users stand in the order in which they came.
    """

    path: str

    @contextmanager
    def open(
        self, slot: datetime, metrics: Sequence[str], about: Mapping[str, str]
    ) -> Iterator[Callable[[Scores], object]]:
        """See the port; ``about`` becomes the metadata of the file."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = Path(fill_slot(self.path, slot))
        columns = [
            pa.field(USER, pa.string(), nullable=False),
            *(pa.field(name, pa.float64()) for name in metrics),
        ]
        schema = pa.schema(columns, dict(about))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                replacing(path, mode=0o600, is_lasting=True) as file,
                pq.ParquetWriter(file, schema, compression="zstd") as writer,
            ):
                yield lambda scores: _write(writer, scores)
        except (
            OSError,
            ValueError,
            pa.ArrowException,
        ) as error:  # ValueError: text that is none, in names and in the path
            raise OutputError(
                (
                    f"scores_to: {path} was not written: "
                    f"{getattr(error, 'strerror', None) or file_cause(error)}"
                )
            ) from None


def _write(writer: pq.ParquetWriter, scores: Scores) -> None:
    import pyarrow as pa

    metrics = writer.schema.names[1:]
    for start in range(0, len(scores.users), CHUNK):
        chunk = slice(start, start + CHUNK)
        values = (
            pa.array(scores.by_metric[name][chunk], pa.float64(), from_pandas=True)
            for name in metrics
        )
        users = pa.array(scores.users[chunk].to_list(), pa.string())
        writer.write_table(pa.table([users, *values], schema=writer.schema))
