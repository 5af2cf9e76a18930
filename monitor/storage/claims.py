"""Conditions on runs that pruning looks at."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, ScalarSelect, and_, func, select

from monitor.model import RunStatus
from monitor.storage.tables import runs


def is_settled_before(before: datetime) -> ColumnElement[bool]:
    """Runs of older slots that nobody is at."""
    return and_(runs.c.scheduled_for < before, runs.c.status != RunStatus.RUNNING, runs.c.claimed_until.is_(None))


def is_newest() -> ColumnElement[bool]:
    """The newest ok run of its comparison; where there is none, the newest run."""
    later = runs.alias("later")

    def newest(*conditions: ColumnElement[bool]) -> ScalarSelect[datetime]:
        query = select(func.max(later.c.scheduled_for)).where(later.c.comparison == runs.c.comparison, *conditions)
        return query.correlate(runs).scalar_subquery()

    return runs.c.scheduled_for == func.coalesce(newest(later.c.status == RunStatus.OK), newest())
