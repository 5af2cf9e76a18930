"""Two that delete what is old at once, as a daemon and a command may: neither fails, and nothing is lost or added up twice."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.synchronize import Barrier

import psycopg
import pytest
from sqlalchemy import select

from factories import DAY, HOUR, SLOT
from forking import context
from monitor.errors import DatabaseError
from monitor.storage import SqlStore, open_store
from monitor.storage.tables.run_tables import daily
from servers.daemon import wait_for
from storage.worked import cutoffs, prune, run

DAYS = 8


@pytest.fixture
def store(migrated_url: str) -> Iterator[SqlStore]:
    with closing(open_store(migrated_url, create=False)) as opened:
        yield opened


def test_a_day_that_another_adds_up_at_the_same_moment_is_no_error(store: SqlStore, migrated_url: str) -> None:
    run(store, SLOT)
    told: list[object] = []

    def work() -> None:
        told.append(prune(store, now=SLOT + DAY))

    theirs = "INSERT INTO daily (comparison, day, segment, metric, runs, n, n_undefined, shares_below, built_at)"
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    address = migrated_url.replace("+psycopg", "")
    with psycopg.connect(address) as other, psycopg.connect(address, autocommit=True) as looking:
        other.execute(theirs + " VALUES ('home-feed', '2024-01-08Z', 'all', 'extended_tau', 1, 7, 0, '{}', '2024-01-08Z')")
        thread = threading.Thread(target=work)
        thread.start()
        wait_for(lambda: looking.execute(waiting).fetchone() or told, "the roll-up at the same row")
        other.commit()
        thread.join()

    assert told == [{}]
    with store.database.read() as connection:
        found = list(connection.execute(select(daily.c.segment, daily.c.n).order_by(daily.c.segment)))
    assert [(segment, n != 7) for segment, n in found] == [("activity=new", True), ("all", True)]


_gate: list[Barrier] = []


def meet_at(gate: Barrier) -> None:
    _gate.append(gate)


def pruned_beside(url: str) -> Counter[str]:
    """Begins with the other; what is in each other's way is tried again, as the daemon and people do."""
    gone: Counter[str] = Counter()
    old = cutoffs(scores=SLOT + DAYS * DAY, evidence=SLOT + 6 * DAY, summaries=SLOT + 5 * DAY, runs=SLOT + 3 * DAY)
    with closing(open_store(url, create=False)) as store:
        _gate[0].wait(60)
        for _ in range(DAYS):
            try:
                return gone + Counter(store.maintenance.prune(old, now=SLOT + DAYS * DAY).rows)
            except DatabaseError as error:
                if error.permanent:
                    raise
    return Counter(failed=1)


def test_two_processes_delete_together_what_one_would(store: SqlStore, migrated_url: str) -> None:
    for number in range(DAYS):
        for name in ("home-feed", "a"):
            run(store, SLOT + number * DAY + HOUR, comparison=name)

    with context().Pool(2, meet_at, (context().Barrier(2),)) as pool:
        one, two = pool.map(pruned_beside, [migrated_url] * 2, chunksize=1)

    with store.database.read() as connection:
        added_up = list(connection.execute(select(daily)))
    assert ({row.runs for row in added_up}, len(added_up)) == ({1}, DAYS * 2 * 2)
    assert (one + two)["failed"] == 0
    assert {run.slot for run in store.history.runs(comparison=None, limit=99)} == {
        SLOT + number * DAY + HOUR for number in range(3, DAYS)
    }
    assert prune(store, runs=SLOT + 3 * DAY, now=SLOT + DAYS * DAY) == {}
