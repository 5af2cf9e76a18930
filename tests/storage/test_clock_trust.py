"""A clock that is wrong deletes nothing: ages are reckoned from what runs, and the server's clock, bear out."""

from contextlib import closing
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from factories import SLOT
from monitor.model import Pruned
from monitor.settings import RetentionOptions
from monitor.settings.value_types import ByteCount
from monitor.storage import SqlStore, clock_trust, open_store
from monitor.storage.clock_trust import REACH
from storage.worked import HOUR, run

DAY = timedelta(days=1)


def housekept(store: SqlStore, now: datetime, **changes: object) -> Pruned:
    """Deleted as the daemon and the command do it."""
    return store.maintenance.prune(RetentionOptions.model_validate(changes).cutoffs(now), now=now)


def test_a_clock_that_is_years_ahead_deletes_nothing_before_or_after_runs_are_made_under_it(store: SqlStore) -> None:
    for number in range(4):
        run(store, SLOT + number * DAY)
    ahead = SLOT + 3650 * DAY if store.database.is_sqlite else SLOT + 700 * DAY

    alone = housekept(store, ahead)
    for hours in range(30):
        run(store, ahead + hours * HOUR)
    beside_its_runs = housekept(store, ahead + 30 * HOUR)

    assert (alone.rows, beside_its_runs.rows) == ({}, {})
    assert alone.reckoned_from == beside_its_runs.reckoned_from == SLOT + 3 * DAY + REACH
    assert store.maintenance.prunable(RetentionOptions().cutoffs(ahead), now=ahead) == Pruned(
        used_bytes=store.maintenance.prunable(RetentionOptions().cutoffs(SLOT), now=SLOT).used_bytes,
        reckoned_from=SLOT + 3 * DAY + REACH,
    )


def test_only_the_age_is_reckoned_so_and_a_size_holds_whatever_the_clock(store: SqlStore) -> None:
    for number in range(4):
        run(store, SLOT + number * DAY)

    found = housekept(store, SLOT + 700 * DAY, max_size=ByteCount(1000))

    assert (dict(found.aged), sum(found.early.values()) > 0) == ({}, True)
    assert len(store.history.runs(comparison=None, limit=9)) == 4


def test_what_is_old_goes_again_once_two_days_of_runs_bear_the_clock_out(store: SqlStore) -> None:
    run(store, SLOT)
    back = SLOT + 60 * DAY
    told = []
    for days in range(4):
        run(store, back + days * DAY)
        told.append(housekept(store, back + days * DAY + HOUR).rows.get("scores", 0))

    assert told == [0, 0, 6, 0]


def test_with_daily_runs_the_clock_is_believed_to_the_full(store: SqlStore) -> None:
    for number in range(6):
        run(store, SLOT + number * DAY)
        end = SLOT + (number + 1) * DAY - timedelta(seconds=1)
        assert clock_trust.believed(store.database, end) == end

    assert housekept(store, end).reckoned_from is None


def test_a_young_or_empty_database_believes_the_clock(store: SqlStore) -> None:
    assert clock_trust.believed(store.database, SLOT) == SLOT
    run(store, SLOT)
    assert clock_trust.believed(store.database, SLOT + DAY) == SLOT + DAY


def test_days_bear_out_what_no_run_is_left_for(store: SqlStore) -> None:
    run(store, SLOT)
    housekept(store, SLOT + DAY)
    with store.database.write() as connection:
        for table in ("coverage_reasons", "coverage", "statistics", "summaries", "stages", "evidence", "scores", "runs"):
            connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608 - names of ours

    assert clock_trust.believed(store.database, SLOT + 600 * DAY) == SLOT + REACH


def test_a_clock_ahead_of_the_servers_is_not_believed_though_runs_bear_it_out(postgres_url: str) -> None:
    with closing(open_store(postgres_url, create=True)) as store:
        now = datetime.now(UTC) + 40 * DAY
        for days in range(40):
            run(store, now - days * DAY)

        found = housekept(store, now)

    assert found.rows == {}
    assert found.reckoned_from is not None
    assert found.reckoned_from < now - 39 * DAY


@given(st.integers(-10_000, 10_000))
def test_cutoffs_move_together(days: int) -> None:
    cutoffs = RetentionOptions().cutoffs(SLOT)
    assert clock_trust.moved_back(cutoffs, days * DAY) == RetentionOptions().cutoffs(SLOT - days * DAY)
