"""Scores on PostgreSQL: partitions come before they are needed, go once all in them is old, and hold nobody up."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import text

from factories import SLOT
from monitor.model import Claim
from monitor.storage import SqlStore, leaving, open_store, partitions, room, schema_version
from monitor.storage.partitions import Leaver, Partition
from servers.pgbouncer import pooled
from storage.worked import HOUR, claimed, prune, result, run

__all__ = ["pooled"]

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
        yield connection


def found(store: SqlStore) -> list[Partition]:
    with store.database.read() as connection:
        return partitions.read(connection)


def bounds(store: SqlStore) -> list[tuple[int, int]]:
    return [(each.low, each.high) for each in found(store)]


def scored(store: SqlStore, run_id: int) -> int:
    return len(store.history.run_scores(run_id, ["extended_tau"]).users)


def test_partitions_grow_to_a_day_of_runs_while_runs_are_stored(store: SqlStore) -> None:
    for hours in range(30):
        run(store, SLOT + hours * HOUR)

    spans = [high - low for low, high in bounds(store)]
    assert all(before[1] == after[0] for before, after in zip(bounds(store), bounds(store)[1:], strict=False))
    assert spans[0] <= 2
    assert max(spans) <= 24
    assert len(spans) <= 7


def test_a_partition_goes_once_all_its_runs_are_old_and_never_the_one_in_use(store: SqlStore) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(6)]

    gone = prune(store, scores=SLOT + 4 * DAY, now=SLOT + 6 * DAY)

    assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 0, 3, 3]
    assert gone["scores"] == 4 * 6
    assert prune(store, scores=SLOT + 99 * DAY, now=SLOT + 6 * DAY)["scores"] > 0
    assert bounds(store)[-1][1] > ids[-1]
    assert scored(store, run(store, SLOT + 7 * DAY)) == 3


def test_a_partition_that_somebody_is_at_stays_whole(store: SqlStore) -> None:
    ids = [run(store, SLOT + days * DAY) for days in range(4)]
    claimed(store, SLOT, rerun=True)

    prune(store, scores=SLOT + DAY + HOUR, now=SLOT + 4 * DAY)

    assert scored(store, ids[0]) == 3


def test_room_is_made_ahead_so_that_the_next_run_need_not(store: SqlStore) -> None:
    for hours in range(8):
        run(store, SLOT + hours * HOUR)
    prune(store, now=SLOT + 8 * HOUR)
    before = bounds(store)

    for hours in range(8, 12):
        run(store, SLOT + hours * HOUR)

    assert bounds(store) == before


def test_an_old_slot_run_again_after_its_partition_is_gone_finds_room(store: SqlStore) -> None:
    first, *_ = [run(store, SLOT + days * DAY) for days in range(6)]
    prune(store, scores=SLOT + 5 * DAY, now=SLOT + 6 * DAY)

    again = run(store, SLOT)

    assert again == first
    assert scored(store, again) == 3
    assert prune(store, scores=SLOT + 5 * DAY, now=SLOT + 6 * DAY)["scores"] == 6
    assert scored(store, again) == 0


def test_scores_in_a_partition_that_lives_longer_are_deleted_by_row_after_two_more_days(store: SqlStore) -> None:
    for hours in range(24):  # from here on a partition holds a day of such runs
        run(store, SLOT + hours * HOUR)
    with store.database.write() as connection:
        connection.execute(text("SELECT setval('runs_id_seq', 1000)"))
    late, old = run(store, SLOT + 30 * DAY), run(store, SLOT + 2 * DAY)  # the second is of an old slot, stored late

    assert "scores" not in {k: v for k, v in prune(store, scores=SLOT + 3 * DAY, now=SLOT + 5 * DAY).items() if v == 6}
    assert scored(store, old) == 3
    prune(store, scores=SLOT + 4 * DAY + HOUR, now=SLOT + 5 * DAY)
    assert (scored(store, old), scored(store, late)) == (0, 3)


def test_pruning_beside_an_open_copy_waits_for_nobody_for_long_and_nobody_waits_for_it(
    store: SqlStore, other: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen in the server's list of locks: the writer and a second writer hold theirs, and nothing waits."""
    monkeypatch.setattr(leaving, "PATIENCE_S", 0.3)
    monkeypatch.setattr(leaving, "SHORT_S", 0.1)
    ids = [run(store, SLOT + days * DAY) for days in range(6)]
    open_run = claimed(store, SLOT + 6 * DAY)
    room.make_room(store.database, open_run.run_id, SLOT + 6 * DAY)
    with other.cursor() as cursor, other.transaction():
        with cursor.copy("COPY scores FROM STDIN") as copy:
            copy.write_row((open_run.run_id, "u1", 1, 0.5))
            gone = prune(store, scores=SLOT + 3 * DAY, now=SLOT + 6 * DAY)
            beside = run(store, SLOT + 7 * DAY)
            assert _waiting(store) == []
        assert scored(store, beside) == 3
        copied = cursor.execute("SELECT count(*) FROM scores WHERE run_id = %s", [open_run.run_id]).fetchone()
    prune(store, scores=SLOT + 3 * DAY, now=SLOT + 6 * DAY)

    assert copied == (1,)
    assert gone.get("scores", 0) < 3 * 6
    assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 3, 3, 3]
    assert [each for each in found(store) if each.is_leaving] == []


def _waiting(store: SqlStore) -> list[tuple[str, str]]:
    with store.database.read() as connection:
        query = "SELECT CAST(relation AS regclass), mode FROM pg_locks WHERE NOT granted"
        return [(str(row[0]), str(row[1])) for row in connection.execute(text(query))]


def test_what_was_begun_to_detach_or_not_dropped_is_finished_the_next_time(store: SqlStore, other: psycopg.Connection) -> None:
    for days in range(6):
        run(store, SLOT + days * DAY)
    first, second, *_ = found(store)
    for each in (first, second):
        mark = Leaver(partition=each, before=SLOT + 2 * DAY, is_early=False).mark
        other.execute(f"COMMENT ON TABLE {each.name} IS '{mark}'")
    other.execute(f"ALTER TABLE scores DETACH PARTITION {first.name} CONCURRENTLY")
    with other.transaction():
        other.execute("SELECT count(*) FROM scores")
        assert store.database.alone(f"ALTER TABLE scores DETACH PARTITION {second.name} CONCURRENTLY", patience_s=0.2) is False
    assert [each.name for each in found(store) if each.is_leaving] == [second.name]
    assert schema_version.check(store.database.url.render_as_string(hide_password=False)) == []

    prune(store, now=SLOT)

    left = other.execute("SELECT relname FROM pg_class WHERE relname = ANY(%s)", [[first.name, second.name]]).fetchall()
    assert left == []


def test_several_that_need_the_same_partition_make_it_once(store: SqlStore) -> None:
    claims = [claimed(store, SLOT + hours * HOUR) for hours in range(6)]
    failed: list[BaseException] = []

    def finish(claim: Claim) -> None:
        try:
            assert store.runs.finish(result(claim), receivers=())
        except BaseException as error:  # noqa: BLE001 - told to the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=finish, args=(claim,)) for claim in claims]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert [scored(store, claim.run_id) for claim in claims] == [3] * 6


def test_all_of_it_works_through_a_pooler_of_transactions(url: str, pooled: Callable[[str], str]) -> None:
    with closing(open_store(pooled(url), create=True)) as store:
        ids = [run(store, SLOT + days * DAY) for days in range(6)]
        assert prune(store, scores=SLOT + 4 * DAY, now=SLOT + 6 * DAY)["scores"] == 4 * 6
        assert [scored(store, run_id) for run_id in ids] == [0, 0, 0, 0, 3, 3]


def test_a_database_of_before_is_divided_without_being_copied_and_joined_again(url: str, other: psycopg.Connection) -> None:
    schema_version.upgrade(url, "0007")
    other.execute("INSERT INTO metrics (name) VALUES ('extended_tau')")
    other.execute(
        "INSERT INTO runs (comparison, scheduled_for, status, config_hash, owner, attempt, started_at) SELECT 'home-feed',"
        " slot, 'ok', 'h', 'a:1', 1, slot FROM generate_series(0, 9) AS n,"
        " LATERAL (SELECT timestamptz '2024-01-08Z' + n * interval '1 hour' AS slot) AS s"
    )
    other.execute(
        "INSERT INTO scores SELECT r, 'u' || u, 1, 0.5 FROM generate_series(1, 10) AS r, generate_series(1, 100) AS u"
    )
    file = other.execute("SELECT pg_relation_filenode('scores')").fetchone()

    schema_version.upgrade(url)

    assert other.execute("SELECT pg_relation_filenode('scores_from_0')").fetchone() == file
    assert schema_version.check(url) == []
    with closing(open_store(url, create=False)) as store:
        assert bounds(store) == [(0, 11)]
        assert scored(store, 10) == 100
        new = run(store, SLOT + 2 * DAY)
        assert scored(store, new) == 3
        assert other.execute("SELECT count(*) FROM user_scores").fetchone() == (1006,)
        assert prune(store, scores=SLOT + DAY, now=SLOT + 2 * DAY)["scores"] == 1000

    other.execute("INSERT INTO scores SELECT 11, 'u' || u, 1, 0.5 FROM generate_series(50, 60) AS u")
    schema_version.downgrade(url, "0007")
    assert other.execute("SELECT count(*) FROM scores").fetchone() == (6 + 11,)
    assert other.execute("SELECT relname FROM pg_class WHERE relname LIKE 'scores\\_%'").fetchall() == []
    schema_version.upgrade(url)
    assert schema_version.check(url) == []
