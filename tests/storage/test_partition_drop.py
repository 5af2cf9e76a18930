"""Partitions of scores on their way out: what came to them meanwhile stays, what is others' is left alone, all is told."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, text

from factories import SLOT
from monitor.errors import DatabaseError, SchemaError
from monitor.model import DataKind, RunStatus
from monitor.storage import SqlStore, leaving, open_store, partitions, room, schema_version
from monitor.storage import prune as pruning
from monitor.storage.transactions import Database
from storage.worked import HOUR, attempt, claimed, cutoffs, prune, result, run, scores

DAY = timedelta(days=1)


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with closing(open_store(url, create=True)) as opened:
        yield opened


@pytest.fixture
def other(url: str) -> Iterator[psycopg.Connection]:
    """Somebody else's session."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True, connect_timeout=5) as connection:
        connection.execute("SET application_name = 'somebody'")
        yield connection


def scored(store: SqlStore, run_id: int) -> int:
    return len(store.history.run_scores(run_id, ["extended_tau"]).users)


def names(store: SqlStore) -> list[str]:
    with store.database.read() as connection:
        return [each.name for each in partitions.read(connection)]


def after(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, then: Callable[[], object]) -> None:
    """Have something happen right after the first call."""
    real, left = getattr(owner, name), [then]

    def called(*arguments: Any, **named: Any) -> Any:
        found = real(*arguments, **named)
        if left:
            left.pop()()
        return found

    monkeypatch.setattr(owner, name, called)


def test_a_run_again_that_begins_after_its_partition_was_judged_keeps_what_it_has(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(6)]
    after(monkeypatch, leaving, "past", lambda: claimed(store, SLOT, rerun=True))

    gone = prune(store, scores=SLOT + 3 * DAY, now=SLOT + 6 * DAY)

    assert [scored(store, run_id) for run_id in ids] == [3, 0, 0, 3, 3, 3]
    assert gone["scores"] == 2 * 6


def test_a_partition_in_which_a_run_began_again_while_it_was_detached_is_put_back(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(6)]
    before = names(store)
    after(monkeypatch, Database, "alone", lambda: claimed(store, SLOT, rerun=True))

    gone = prune(store, scores=SLOT + 2 * DAY, now=SLOT + 6 * DAY)

    assert [scored(store, run_id) for run_id in ids] == [3, 0, 3, 3, 3, 3]
    assert names(store)[:5] == [name for name in before if name != "scores_from_2"]
    assert gone["scores"] == 6


def test_a_result_that_comes_between_detaching_and_dropping_is_stored_in_the_partition_put_back(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(6)]
    before = names(store)
    few = scores({"extended_tau": {"u1": 0.5}})

    def rerun() -> None:
        claim = claimed(store, SLOT, rerun=True)
        assert store.runs.finish(result(claim, scores=few), receivers=())
        claimed(store, SLOT, rerun=True)

    after(monkeypatch, Database, "alone", rerun)
    prune(store, scores=SLOT + DAY, now=SLOT + 6 * DAY)

    assert (scored(store, ids[0]), names(store)[:6]) == (1, before)
    assert schema_version.check(store.database.url.render_as_string(hide_password=False)) == []


def test_without_its_partition_a_result_is_refused_for_now_and_taken_once_there_is_room(
    store: SqlStore, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = [run(store, SLOT + days * DAY) for days in range(4)]
    claim = claimed(store, SLOT, rerun=True)
    after(monkeypatch, room, "make_room", lambda: other.execute("ALTER TABLE scores DETACH PARTITION scores_from_0"))

    with pytest.raises(DatabaseError, match="takes a partition of scores away at this moment: try again") as caught:
        store.runs.finish(result(claim), receivers=())
    assert store.runs.finish(result(claim), receivers=())

    assert not caught.value.permanent
    assert (scored(store, first), names(store)[0]) == (3, "scores_from_0_2")


def test_a_result_whose_partition_is_half_detached_waits_for_who_uses_it(
    store: SqlStore, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "PATIENCE_S", 0.3)
    monkeypatch.setattr(leaving, "SHORT_S", 0.1)
    first, *_ = [run(store, SLOT + days * DAY) for days in range(4)]
    with other.transaction():
        other.execute("SELECT count(*) FROM scores")
        prune(store, scores=SLOT + DAY, now=SLOT + 4 * DAY)
        claim = claimed(store, SLOT, rerun=True)
        with pytest.raises(DatabaseError, match="waits for who reads them: try again") as caught:
            store.runs.finish(result(claim), receivers=())
    assert store.runs.finish(result(claim), receivers=())

    assert not caught.value.permanent
    assert (scored(store, first), names(store)[0]) == (3, "scores_from_0")
    assert prune(store, scores=SLOT + DAY, now=SLOT + 4 * DAY)["scores"] == 6


def test_a_drop_that_is_made_up_for_is_counted(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for days in range(4):
        run(store, SLOT + days * DAY)

    def cut_off() -> None:
        raise KeyboardInterrupt

    after(monkeypatch, Database, "alone", cut_off)
    with pytest.raises(KeyboardInterrupt):
        prune(store, scores=SLOT + DAY, now=SLOT + 4 * DAY)

    assert prune(store, scores=SLOT + DAY, now=SLOT + 4 * DAY)["scores"] == 6


def test_a_table_made_under_the_same_name_at_the_same_moment_is_no_end(store: SqlStore, other: psycopg.Connection) -> None:
    other.execute("CREATE TABLE taken ()")
    with pytest.raises(DatabaseError, match="try again") as caught, store.database.write() as connection:
        connection.execute(text("CREATE TABLE taken ()"))
    assert not caught.value.permanent


def test_a_partition_that_another_process_has_just_dropped_needs_no_upgrade(store: SqlStore, other: psycopg.Connection) -> None:
    run(store, SLOT)
    with store.database.read() as connection:
        (found,) = partitions.read(connection)
    other.execute("DROP TABLE scores_from_0")

    with pytest.raises(DatabaseError, match="try again") as caught, store.database.read() as connection:
        connection.execute(select(found.rows))
    assert not isinstance(caught.value, SchemaError)
    assert not caught.value.permanent


def test_tables_of_others_that_are_named_alike_stay(store: SqlStore, other: psycopg.Connection) -> None:
    for days in range(4):
        run(store, SLOT + days * DAY)
    other.execute("CREATE TABLE scores_from_77 AS SELECT * FROM scores")
    other.execute("ALTER TABLE scores DETACH PARTITION scores_from_0")

    prune(store, scores=SLOT + 2 * DAY, now=SLOT + 4 * DAY)

    assert other.execute("SELECT count(*) FROM scores_from_77").fetchone() == (4 * 6,)
    assert other.execute("SELECT count(*) FROM scores_from_0").fetchone() == (6,)
    assert "scores_from_2" not in names(store)


def test_a_view_of_a_partition_stops_only_that_one_and_is_told(store: SqlStore, other: psycopg.Connection) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(5)]
    other.execute("CREATE VIEW mine AS SELECT * FROM scores_from_0")

    pruned = store.maintenance.prune(cutoffs(scores=SLOT + 3 * DAY), now=SLOT + 5 * DAY)
    again = store.maintenance.prune(cutoffs(scores=SLOT + 3 * DAY), now=SLOT + 5 * DAY)

    assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 3, 3]
    assert pruned.rows["scores"] == 2 * 6
    expected = ("scores_from_0 was not dropped: a view or another object is made of it: drop that first",)
    assert pruned.put_off == again.put_off == expected
    other.execute("DROP VIEW mine")
    assert store.maintenance.prune(cutoffs(scores=SLOT + 3 * DAY), now=SLOT + 5 * DAY).put_off == ()
    assert other.execute("SELECT to_regclass('scores_from_0')").fetchone() == (None,)


def test_what_holds_a_partition_is_named_and_is_no_outage_and_nothing_else_goes_instead(
    store: SqlStore, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "PATIENCE_S", 0.3)
    monkeypatch.setattr(leaving, "SHORT_S", 0.1)
    ids = [run(store, SLOT + days * DAY) for days in range(5)]
    errors: list[DatabaseError] = []
    store.database.on_error = errors.append
    with other.transaction():
        other.execute("SELECT count(*) FROM scores")
        aged = store.maintenance.prune(cutoffs(scores=SLOT + DAY), now=SLOT + 5 * DAY)
        early = store.maintenance.prune(cutoffs(max_bytes=1), now=SLOT + 5 * DAY)

    pid = other.info.backend_pid
    for pruned in (aged, early):
        (told,) = pruned.put_off
        assert told.startswith(f"scores_from_0 was not dropped: process {pid} (somebody, idle in transaction for ")
    assert (early.early, early.excess_bytes > 0) == ({}, True)
    assert errors == []
    assert [len(store.history.evidence(run_id)) for run_id in ids] == [2] * 5
    assert store.maintenance.prune(cutoffs(max_bytes=1), now=SLOT + 5 * DAY).put_off == ()
    assert len(store.history.evidence(ids[0])) == 0


def test_rows_of_a_run_that_began_again_since_it_was_found_stay(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(store, SLOT)
    run(store, SLOT + DAY)
    after(monkeypatch, pruning, "read_ids", lambda: claimed(store, SLOT, rerun=True))

    prune(store, evidence=SLOT + HOUR, now=SLOT + DAY)

    assert len(store.history.evidence(first)) == 2


def test_a_server_that_is_too_old_is_named_also_where_the_tables_are_there(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_version, "_OLDEST_POSTGRES", (99,))

    with pytest.raises(DatabaseError, match=r"runs PostgreSQL \d+\.\d+: rankwatch needs 99 or newer"):
        store.maintenance.ping()


def test_a_partition_of_any_name_is_measured(store: SqlStore, other: psycopg.Connection) -> None:
    run(store, SLOT)
    other.execute('CREATE TABLE "Old; scores" PARTITION OF scores FOR VALUES FROM (1000) TO (2000)')
    other.execute("INSERT INTO scores VALUES (1000, 'u1', 1, 0.5)")

    assert next(each.rows for each in store.maintenance.measure().kinds if each.kind is DataKind.SCORES) == 7


@pytest.mark.parametrize("going", ["up", "down"])
def test_rows_stored_while_a_migration_begins_are_in_it(url: str, other: psycopg.Connection, going: str) -> None:
    """A run is being stored when the migration begins, which sees it only once it is there."""
    schema_version.upgrade(url, "0007" if going == "up" else "head")
    if going == "down":
        other.execute("CREATE TABLE scores_from_1 PARTITION OF scores FOR VALUES FROM (1) TO (9)")
    migrate = schema_version.upgrade if going == "up" else schema_version.downgrade
    thread = threading.Thread(target=migrate, args=(url, "head" if going == "up" else "0007"))
    with other.transaction():
        other.execute("INSERT INTO scores VALUES (7, 'u1', 1, 0.5)")
        thread.start()
        _await_one_that_waits(other)
    thread.join()

    assert other.execute("SELECT count(*) FROM scores").fetchone() == (1,)


def _await_one_that_waits(other: psycopg.Connection) -> None:
    deadline = time.monotonic() + 20
    while other.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_newer_run_that_failed_is_not_the_one_that_keeps_its_partition(store: SqlStore) -> None:
    good = run(store, SLOT)
    for days in range(1, 6):
        claim = claimed(store, SLOT + days * DAY, comparison="other")
        assert store.runs.finish(result(claim), receivers=())
    failed = claimed(store, SLOT + 6 * DAY)
    assert store.runs.finish(result(failed, status=RunStatus.FAILED, scores=None), receivers=())
    assert attempt(store, SLOT + 7 * DAY) is not None

    pruned = store.maintenance.prune(cutoffs(max_bytes=1), now=SLOT + 8 * DAY)

    assert scored(store, good) == 3
    assert len(store.history.evidence(good)) == 2
    assert pruned.early[DataKind.SCORES] > 0
    assert 0 < pruned.lasting_bytes < pruned.excess_bytes
