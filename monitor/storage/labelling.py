"""Relevance that arrives after the run: what it adds to what is stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, delete, func, select, update

from monitor.model import Run, Scores, Summary
from monitor.storage import results
from monitor.storage import scores as per_user
from monitor.storage.tables import runs, statistics, summaries


def label(connection: Connection, run: Run, found: Sequence[Summary], scores: Scores | None, at: datetime) -> bool:
    """Add measures of relevance to the run; False when it has been measured anew, or is being, since it was read."""
    is_same = and_(runs.c.id == run.id, runs.c.attempt == run.attempt, runs.c.claimed_until.is_(None))
    if connection.execute(update(runs).where(is_same).values(labelled_at=at)).rowcount != 1:
        return False
    metrics = {summary.metric for summary in found}
    for table in (statistics, summaries):
        connection.execute(delete(table).where(table.c.run_id == run.id, table.c.metric.in_(metrics)))
    results.put_summaries(connection, run.id, found, first=_next_position(connection, run.id))
    if scores is not None:
        per_user.replace(connection, run.id, scores)
    return True


def _next_position(connection: Connection, run_id: int) -> int:
    last = connection.scalar(select(func.max(summaries.c.position)).where(summaries.c.run_id == run_id))
    return 0 if last is None else int(last) + 1
