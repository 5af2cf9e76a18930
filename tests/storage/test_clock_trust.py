"""A clock that neither runs nor the server's clock confirm deletes nothing."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from factories import SLOT
from monitor.model.retention import Pruned
from monitor.settings.configuration import RetentionOptions
from monitor.storage import SqlStore, open_store
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.run_tables import runs
from storage.worked import HOUR, run

DAY = timedelta(days=1)


def housekept(store: SqlStore, now: datetime) -> Pruned:
    """Deleted as the daemon and the command do it."""
    return store.maintenance.prune(RetentionOptions().cutoffs(now), now=now)


def test_a_clock_that_is_years_ahead_deletes_nothing_before_or_after_runs_are_made_under_it(store: SqlStore) -> None:
    for number in range(4):
        run(store, SLOT + number * DAY)
    ahead = SLOT + 3650 * DAY if store.database.is_sqlite else SLOT + 700 * DAY

    alone = housekept(store, ahead)
    for hours in range(0, 30, 5):
        run(store, ahead + hours * HOUR)
    beside_its_runs = housekept(store, ahead + 30 * HOUR)

    assert (alone.rows, beside_its_runs.rows) == ({}, {})
    assert alone.refused
    assert beside_its_runs.refused
    assert "no run is newer than 2024-01-11T00:00:00Z: correct the clock; if it is right" in beside_its_runs.refused
    assert len(store.history.runs(comparison=None, limit=99)) == 4 + 6


def test_what_is_old_is_deleted_again_once_two_days_of_runs_confirm_the_clock(store: SqlStore) -> None:
    run(store, SLOT)
    back = SLOT + 60 * DAY
    found = []
    for days in range(4):
        run(store, back + days * DAY)
        found.append(housekept(store, back + days * DAY + HOUR))

    assert [each.rows.get("scores", 0) for each in found] == [0, 0, 3, 0]
    assert [bool(each.refused) for each in found] == [True, True, False, False]


@pytest.mark.parametrize("every", [HOUR, 7 * DAY, 31 * DAY])
def test_runs_of_every_schedule_confirm_the_clock(store: SqlStore, every: timedelta) -> None:
    for number in range(6):
        run(store, SLOT + number * every)

    assert housekept(store, SLOT + 6 * every - HOUR).refused is None


def test_the_first_runs_of_a_rare_schedule_confirm_no_clock_yet(store: SqlStore) -> None:
    run(store, SLOT)
    assert housekept(store, SLOT + 10 * DAY).refused is None
    assert housekept(store, SLOT + 10 * DAY + HOUR).refused


def test_a_young_or_empty_database_confirms_every_clock(store: SqlStore) -> None:
    assert housekept(store, SLOT).refused is None
    run(store, SLOT)
    assert housekept(store, SLOT + DAY).refused is None


def test_days_confirm_the_clock_where_no_run_is_left(store: SqlStore) -> None:
    run(store, SLOT)
    housekept(store, SLOT + DAY)
    with store.database.write() as connection:
        for table in (*RUN_TABLES, runs):
            connection.execute(table.delete())

    assert housekept(store, SLOT + 600 * DAY).refused
    assert housekept(store, SLOT + 6 * DAY).refused is None


def test_a_clock_ahead_of_the_servers_is_not_trusted_though_runs_confirm_it(migrated_url: str) -> None:
    with closing(open_store(migrated_url, create=False)) as store:
        now = datetime.now(UTC) + 40 * DAY
        for days in range(0, 40, 5):
            run(store, now - days * DAY)

        found = housekept(store, now)
        in_time = housekept(store, datetime.now(UTC))

    assert found.rows == {}
    assert found.refused
    assert ", the database's " in found.refused
    assert in_time.refused is None
