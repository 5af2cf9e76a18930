"""How far a clock is believed when it says what is old: what a clock that is years ahead deletes does not come back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from monitor.model import Cutoffs, Pruned
from monitor.storage.dialects import is_sqlite
from monitor.storage.tables import daily, runs
from monitor.storage.transactions import Database

BORNE_OUT = timedelta(days=2)
"""A daemon stores runs under a wrong clock within minutes: only slots so long before what the clock says bear it out."""
REACH = timedelta(days=3)
"""How far beyond the newest of these slots it is believed: where runs are made every day, to the full."""

_WORTH_TELLING = timedelta(hours=2)


def believed(database: Database, now: datetime) -> datetime:
    """The present that ages are reckoned from: ``now``, as far as runs bear it out and a server's own clock is not behind it.

    While no run is stored for long, and for two days after, it stands still: nothing is deleted for its age.
    """
    with database.read() as connection:
        newest = _newest_before(connection, now - BORNE_OUT)
        limits = [] if newest is None else [newest + REACH]
        if not is_sqlite(connection):
            limits.append(connection.execute(select(func.clock_timestamp())).scalar_one())
    return min([now, *limits])


def _newest_before(connection: Connection, instant: datetime) -> datetime | None:
    """The newest slot of a run, or where there is none the newest day that was added up; None without any."""
    slot: datetime | None = connection.scalar(select(func.max(runs.c.scheduled_for)).where(runs.c.scheduled_for <= instant))
    return slot or connection.scalar(select(func.max(daily.c.day)).where(daily.c.day <= instant))


def moved_back(cutoffs: Cutoffs, by: timedelta) -> Cutoffs:
    """What goes by a clock that is so much behind."""
    return replace(
        cutoffs,
        scores=cutoffs.scores - by,
        lists=cutoffs.lists - by,
        evidence=cutoffs.evidence - by,
        summaries=cutoffs.summaries - by,
        runs=cutoffs.runs - by,
        daily=cutoffs.daily - by,
    )


def told(pruned: Pruned, now: datetime, present: datetime) -> Pruned:
    """The same, with what ages were reckoned from where that is no matter of an hour."""
    return replace(pruned, reckoned_from=present) if now - present > _WORTH_TELLING else pruned
