"""How long what runs found is kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import Field

from monitor.model import Cutoffs
from monitor.options import Duration, Options
from monitor.settings.fields import Size


class RetentionOptions(Options):
    """How long what runs found is kept. Alert states are kept as long as they stand."""

    scores: Duration = Field(
        default=timedelta(days=30), description="Scores of each user. On PostgreSQL they may stay up to two days longer."
    )
    lists: Duration | None = Field(
        default=None,
        description="Lists of all compared users, at most: they go once nothing needs them (default: as `scores`).",
    )
    evidence: Duration = Field(default=timedelta(days=90), description="Lists of example users, and explanations.")
    summaries: Duration | None = Field(
        default=None,
        description="Summaries, coverage and expectations of segments other than `all`; what rules learned from them stays "
        "(default: as `runs`).",
    )
    runs: Duration = Field(default=timedelta(days=400), description="Runs, and with them all that belongs to them.")
    daily: Duration = Field(default=timedelta(days=5 * 365), description="What each UTC day came to, by segment and metric.")
    max_size: Size | None = Field(
        default=None,
        description="Bytes that the database may take. Nearing it the oldest scores of users go early, then lists and "
        "evidence, then summaries of segments; runs and alerts never.",
        examples=["20GB"],
    )

    def cutoffs(self, now: datetime) -> Cutoffs:
        """What goes at this time."""
        return Cutoffs(
            scores=now - self.scores,
            lists=now - (self.lists or self.scores),
            evidence=now - self.evidence,
            summaries=now - (self.summaries or self.runs),
            runs=now - self.runs,
            daily=now - self.daily,
            max_bytes=self.max_size,
        )
