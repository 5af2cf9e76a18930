"""Scores on PostgreSQL by day of slots: partitions, a default one, and two that delete what is old at once, without a loss."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest
from sqlalchemy import select

from factories import DAY, HOUR, SLOT
from monitor.model.errors import DatabaseError
from monitor.storage import partitions, schema_version
from monitor.storage.tables.run_tables import daily
from monitor.storage.transactions import Database
from storage.worked import (
    LATER,
    claimed,
    cutoffs,
    finish,
    prune,
    run,
    runs_of,
    scored,
    select_rows,
    store_at,
    user_scores,
)

pytestmark = [pytest.mark.early, pytest.mark.integration]


@pytest.fixture
def url(request):
    """Of a database without tables, unless there is to be a store."""
    return request.getfixturevalue(
        "migrated_url" if "store" in request.fixturenames else "postgres_url"
    )


@pytest.fixture
def store(url):
    with store_at(url) as opened:
        yield opened


@pytest.fixture
def other(url):
    """Somebody else's session."""
    with psycopg.connect(
        url.replace("+psycopg", ""), autocommit=True, connect_timeout=5
    ) as connection:
        connection.execute("SET application_name = 'somebody'")
        yield connection


@pytest.fixture
def short(monkeypatch):
    """Nobody waits for long for the others."""
    monkeypatch.setattr(partitions, "PARTITION_LOCK_WAIT_S", 0.1)


def name(days):
    return f"scores_{SLOT + days * DAY:%Y_%m_%d}"


def names(store):
    with store.database.read() as connection:
        return [each.name for each in partitions.read_partitions(connection)]


def pruned(store, before):
    """Rows of scores that were deleted as older than that day."""
    midnight = SLOT.replace(hour=0, minute=0, second=0, microsecond=0)
    return prune(store, scores=midnight + before * DAY, now=SLOT + 6 * DAY).get("scores", 0)


def test_partitions_are_created_in_advance(store):
    prune(store)
    before = names(store)

    for days in range(3):
        run(store, SLOT + days * DAY)

    assert names(store) == before == [name(0), name(1), name(2)]


def after(monkeypatch, owner, attribute, then):
    """Have something happen right after the first call."""
    real = getattr(owner, attribute)
    left = [then]

    def called(*arguments, **named):
        found = real(*arguments, **named)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(owner, attribute, called)


def test_a_run_that_is_claimed_during_pruning_keeps_its_scores(store, monkeypatch):
    """Nor does one go with a run that was claimed before."""
    ids = [run(store, SLOT + days * DAY) for days in range(5)]
    claimed(store, SLOT + DAY, rerun=True)
    after(monkeypatch, partitions, "read_partitions", lambda: None)
    after(monkeypatch, partitions, "_is_past", lambda: claimed(store, rerun=True))

    assert pruned(store, before=3) == 3

    assert [scored(store, run_id) for run_id in ids] == [3, 3, 0, 3, 3]


@pytest.mark.usefixtures("short")
def test_during_a_read_scores_go_to_the_default_partition_which_is_pruned_by_run(store, other):
    with other.transaction():
        other.execute("SELECT count(*) FROM scores")
        ids = [run(store, SLOT), run(store, SLOT + 3 * DAY)]
    ids.append(run(store, LATER))

    assert not names(store)
    in_default = other.execute("SELECT count(*) FROM scores_default").fetchone()
    assert in_default == (3 * 3,)
    assert len(user_scores(store, "u1")) == 3 * 2
    claimed(store, LATER, rerun=True)
    assert pruned(store, before=2) == 3
    assert [scored(store, run_id) for run_id in ids] == [0, 3, 3]


@pytest.mark.usefixtures("short")
def test_a_partition_in_use_is_dropped_later_and_is_no_outage(store, other):
    ids = [run(store, SLOT + days * DAY) for days in range(5)]
    errors = []
    store.database.on_error = errors.append
    with other.transaction():
        other.execute("SELECT count(*) FROM scores")
        found = store.maintenance.prune(cutoffs(scores=SLOT + 3 * DAY), now=SLOT + 5 * DAY)
        beside = run(store, SLOT + 4 * DAY + HOUR)

    (reason,) = found.put_off
    assert reason.startswith(f"{name(0)} was not dropped: PostgreSQL database ")
    assert reason.endswith(" is locked by another transaction: try again")
    assert not errors
    assert [scored(store, run_id) for run_id in (*ids, beside)] == [3] * 6
    assert not store.maintenance.prune(cutoffs(scores=SLOT + 3 * DAY), now=SLOT + 5 * DAY).put_off
    assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 3, 3]


def test_several_runs_create_the_same_partition_once(store):
    claims = [claimed(store, SLOT + hours * HOUR) for hours in range(6)]

    with ThreadPoolExecutor(len(claims)) as pool:
        assert all(pool.map(lambda claim: finish(store, claim), claims))

    assert [scored(store, claim.run_id) for claim in claims] == [3] * 6


def test_rows_of_a_run_that_is_claimed_during_pruning_stay(store, monkeypatch):
    first = run(store, SLOT)
    run(store, SLOT + DAY)
    after(monkeypatch, Database, "rows", lambda: claimed(store, rerun=True))

    prune(store, evidence=LATER, now=SLOT + DAY)

    assert len(store.history.evidence(first)) == 2


def test_a_server_that_is_too_old_is_an_error(store, monkeypatch):
    monkeypatch.setattr(schema_version, "_OLDEST_POSTGRES", (99,))

    with pytest.raises(
        DatabaseError, match=r"runs PostgreSQL \d+\.\d+: rankwatch needs 99 or newer"
    ):
        store.maintenance.ping()


def test_partitions_are_dropped_by_day_also_through_a_transaction_pooler(url, pooled):
    """They are made anew for a slot that is run again."""
    with store_at(pooled(url), create=True) as store:
        ids = [run(store, SLOT + days * DAY) for days in range(6)]
        assert prune(store, scores=SLOT + 2 * DAY + HOUR, now=SLOT + 6 * DAY)["scores"] == 2 * 3
        assert [scored(store, run_id) for run_id in ids[:4]] == [0, 0, 3, 3]

        assert pruned(store, before=4) == 2 * 3
        assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 0, 3, 3]
        assert names(store)[:2] == [name(4), name(5)]
        assert not schema_version.find_differences(url)

        again = run(store, SLOT)
        assert again == ids[0]
        assert scored(store, again) == 3
        assert pruned(store, before=4) == 3
        assert scored(store, again) == 0


DAYS = 7


def pruned_beside(store):
    """What is in another's way is tried again, as the daemon and people do."""
    old = cutoffs(
        scores=SLOT + DAYS * DAY,
        evidence=SLOT + 6 * DAY,
        summaries=SLOT + 5 * DAY,
        runs=SLOT + 3 * DAY,
    )
    for _ in range(DAYS):
        with suppress(DatabaseError):
            return Counter(store.maintenance.prune(old, now=SLOT + DAYS * DAY).deleted_rows)
    return Counter(failed=1)


def test_two_processes_that_prune_at_once_delete_the_same_as_one(store, migrated_url):
    slots = [SLOT + number * DAY + HOUR for number in range(DAYS)]
    for slot in slots:
        for name in ("home-feed", "a"):
            run(store, slot, comparison=name)

    with store_at(migrated_url) as other, ThreadPoolExecutor(2) as pool:
        assert not any(gone["failed"] for gone in pool.map(pruned_beside, [store, other]))

    added_up = select_rows(store, select(daily))
    assert {row.runs for row in added_up} == {1}
    assert len(added_up) == DAYS * 2 * 2
    assert {run.slot for run in runs_of(store)} == {*slots[3:]}
    assert not prune(store, runs=SLOT + 3 * DAY, now=SLOT + DAYS * DAY)
