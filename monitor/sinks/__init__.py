"""Where all scores of a run are written beside the database. A new kind is one module, one field here, and one line below."""

from __future__ import annotations

from pydantic import Field

from monitor.options import OneOf
from monitor.ports import ScoreSink
from monitor.sinks.score_files import ScoreFileOptions, ScoreFiles


class ScoresToOptions(OneOf):
    """Where all scores of each run are written, beside what the database keeps: exactly one of these."""

    file: ScoreFileOptions | None = Field(default=None, description="A Parquet file a slot.")


def open_score_sink(options: ScoresToOptions) -> ScoreSink:
    """The place that the options name; nothing is written yet."""
    return ScoreFiles(path=options.given.path)
