"""The lease: one holder at a time, epochs that only grow, and nothing written under one that is over."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from factories import HOUR, MINUTE, SECOND, SLOT
from monitor.model.errors import DatabaseError, LeaseLostError
from monitor.model.runs import Lease, RunStatus
from monitor.storage import SqlStore, parse_url
from monitor.storage.leases import open_leases
from servers.daemon import wait_for
from storage.conftest import emptied
from storage.worked import (
    LATER,
    attempt,
    claimed,
    execute_sql,
    finish,
    fired,
    lease,
    prune,
    run,
    runs_of,
    select_rows,
    store_over,
)

LASTS = 5 * SECOND
ROUNDS = 20


@pytest.fixture
def opened():
    """Opens the lease of the store's database for a daemon of that name."""
    with ExitStack() as stack:

        def open_for(store, holder, lasts=LASTS):
            return stack.enter_context(
                closing(open_leases(store.database.url, holder=holder, lasts=lasts))
            )

        yield open_for


@pytest.fixture
def two(opened):
    """Opens the lease for two daemons."""
    return lambda store: [opened(store, name) for name in ("a:1", "b:2")]


@pytest.fixture
def postgres(postgres_store):
    return emptied(postgres_store)


def won(leases):
    taken = leases.acquire()
    assert isinstance(taken, Lease)
    return taken


def run_out(store):
    """Let the database's clock pass the end of the lease."""
    execute_sql(
        store, "UPDATE leases SET expires_at = clock_timestamp() - interval '1 millisecond'"
    )


OWN = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OWN:
        if (own := OWN.pop()).database.is_sqlite:
            own.close()


def copied(store):
    """The store as a daemon has it."""
    OWN.append(SqlStore(copy.copy(store.database)))
    return OWN[-1]


def under(store, taken, *, patience=LASTS):
    """The store as the daemon has it that holds this lease."""
    own = copied(store)
    own.maintenance.lead(taken, patience=patience, now=SLOT)
    return own


def taken_over(store, before, after):
    """The lease of whoever comes after, by whichever way this database has."""
    if store.database.is_sqlite:
        before.close()
    else:
        run_out(store)
    return won(after)


def test_each_acquisition_of_a_lease_is_a_new_epoch_that_names_the_previous_holder(
    store, two, opened
):
    first, second = two(store)
    old = won(first)
    assert old == Lease(holder="a:1", epoch=1, last_holder=None)
    assert first.renew(old)
    assert first.renew(old)

    new = taken_over(store, first, second)

    assert new == Lease(holder="b:2", epoch=old.epoch + 1, last_holder="a:1")
    assert second.renew(new)
    second.release(new)
    assert won(opened(store, "c:3")).epoch == 3


def test_an_expired_lease_can_be_renewed_until_another_daemon_takes_it(postgres, two):
    first, second = two(postgres)
    old = won(first)
    run_out(postgres)
    assert first.renew(old)
    assert claimed(under(postgres, old)).attempt == 1

    new = taken_over(postgres, first, second)
    assert not first.renew(old)
    first.release(old)
    assert second.renew(new)
    standing = first.acquire()
    assert standing.holder == "b:2"
    assert standing.epoch == 2
    assert 0 < standing.free_in_s <= LASTS.total_seconds()
    second.release(new)
    # The server's clock may be set back.
    assert select_rows(postgres, "SELECT expires_at FROM leases WHERE epoch = 2") == [(None,)]


def test_the_same_name_in_a_new_epoch_is_another_holder(store, opened):
    """As in containers, where every process is number 1 of the same host."""
    first = opened(store, "host:1")
    second = opened(store, "host:1")
    held = under(store, won(first))
    taken_over(store, first, second)

    with pytest.raises(
        LeaseLostError,
        match=r"the lease of epoch 1 is over, host:1 \(host:process\) leads under epoch 2",
    ):
        claimed(held)


def test_if_two_daemons_acquire_at_the_same_time_one_wins(postgres, two):
    both = two(postgres)
    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            gate = threading.Barrier(2)

            def ask(leases, gate=gate):
                gate.wait(60)
                return leases.acquire()

            answers = list(pool.map(ask, both))

            (winner,) = [answer for answer in answers if isinstance(answer, Lease)]
            assert winner.epoch == number + 1
            run_out(postgres)


def test_nothing_is_written_under_an_epoch_that_is_over(store, two):
    first, second = two(store)
    held = under(store, won(first))
    claim = claimed(held)
    taken_over(store, first, second)
    before = rows(store)

    late = SLOT + 99 * HOUR
    writes: Any = [
        partial(attempt, held, LATER),
        partial(finish, held, claim),
        partial(lease, held, LATER),
        partial(prune, held, scores=late, evidence=late, runs=late),
    ]
    for write in writes:
        with pytest.raises(LeaseLostError) as told:
            write()
        assert told.value.permanent
    assert rows(store) == before


def rows(store):
    tables = ("runs", "deliveries", "leases")
    return [select_rows(store, f"SELECT * FROM {table}") for table in tables]


def test_a_daemon_that_loses_its_lease_during_a_transaction_writes_nothing(postgres, two):
    first, second = two(postgres)
    held = under(postgres, won(first))
    claim = claimed(held)

    with pytest.raises(LeaseLostError), held.database.write() as connection:  # noqa: PT012
        connection.execute(text("UPDATE runs SET reason = 'half written'"))
        taken_over(postgres, first, second)

    (left,) = runs_of(postgres)
    assert left.id == claim.run_id
    assert left.reason is None


def test_the_lease_cannot_be_taken_between_the_last_check_and_the_commit(postgres, opened):
    """The lease ran out, but whoever wants it waits until the commit is through.

    Then its epoch ends.
    """
    first = opened(postgres, "a:1")
    second = opened(postgres, "b:2", MINUTE)
    with ThreadPoolExecutor(1) as pool:
        database = under(postgres, won(first)).database
        with database._transaction(is_writing=True) as connection:
            lease_check = database.lease_check
            connection.execute(text("SELECT 1"))
            run_out(postgres)
            lease_check.check_before_commit(connection)
            asked = pool.submit(second.acquire)
            wait_for(
                lambda: count_sessions(postgres, "wait_event_type = 'Lock'"),
                "a statement that waits for a lock",
            )
            assert not asked.done()

        assert isinstance(asked.result(10), Lease)


def test_the_server_ends_an_idle_transaction(postgres, opened):
    leases = opened(postgres, "a:1")
    impatient = under(postgres, won(leases), patience=0.3 * SECOND)
    with (  # noqa: PT012 - in mid-transaction
        pytest.raises(
            DatabaseError, match="ended a transaction that was idle for too long: try again"
        ) as told,
        impatient.database.write() as connection,
    ):
        wait_for(
            lambda: not count_sessions(postgres, "state = 'idle in transaction'"),
            "the end of the transaction",
        )
        connection.execute(text("SELECT 1"))

    assert not told.value.permanent


def count_sessions(store, condition):
    query = (
        f"SELECT count(*) FROM pg_stat_activity WHERE {condition} AND datname = current_database()"
    )
    ((count,),) = select_rows(store, query)
    return count


def test_a_takeover_abandons_only_the_runs_and_deliveries_of_older_epochs(store, two):
    first, second = two(store)
    old_store = under(store, won(first))
    run(store, SLOT - HOUR, fired(SLOT - HOUR), receivers=("hook", "chat"))
    (of_old,) = lease(old_store, SLOT)
    (_of_command,) = lease(store, SLOT, owner="c:3", receiver="chat")
    claimed(old_store)
    claimed(old_store, SLOT - HOUR, rerun=True)
    claimed(store, comparison="of-a-command")
    new = taken_over(store, first, second)

    own = copied(store)
    counts = own.maintenance.lead(new, patience=LASTS, now=LATER)

    assert counts == {"home-feed": 1}
    assert [each.id for each in lease(own, SLOT, owner="b:2")] == [of_old.id]
    assert not lease(own, SLOT, owner="b:2", receiver="chat")
    found = {(each.comparison, each.slot): each for each in runs_of(store)}
    given_up = found["home-feed", SLOT]
    assert given_up.status is RunStatus.ABANDONED
    assert (
        given_up.reason == "the daemon that ran it was stopped, frozen or cut off: "
        "another daemon took over under epoch 2"
    )
    assert found["home-feed", SLOT - HOUR].status is RunStatus.OK
    assert found["of-a-command", SLOT].status is RunStatus.RUNNING
    assert store.runs.held_claim("home-feed", SLOT - HOUR) is None
    assert (
        claimed(own, now=SLOT).attempt == 3
    )  # one more than the abandoned one may still come with


def test_a_run_of_an_older_epoch_is_rejected_even_if_its_daemon_leads_again(store, two):
    """Same process, same store: what one of its threads still holds in hand is of an epoch that is over."""
    first, second = two(store)
    own = under(store, won(first))
    stale = claimed(own)
    new = taken_over(store, first, second)
    under(store, new)
    third = taken_over(store, second, first)
    own.maintenance.lead(third, patience=LASTS, now=SLOT)

    assert not finish(own, stale)
    own.runs.release(stale)

    (left,) = runs_of(store)
    assert left.status is RunStatus.ABANDONED


def test_a_standby_writes_nothing(store):
    own = copied(store)
    own.maintenance.stand_by()

    with pytest.raises(LeaseLostError, match="this daemon is a standby: nothing was written"):
        claimed(own)
    own.maintenance.probe_write()
    assert not runs_of(store)


def leases_of(file, holder):
    return open_leases(parse_url(f"sqlite:///{file}"), holder=holder, lasts=LASTS)


def test_a_second_daemon_on_the_same_sqlite_file_is_rejected_with_the_name_of_the_first(file):
    link = file.with_name("link.db")
    link.symlink_to(file)
    with (
        closing(leases_of(file, "host:41")) as first,
        closing(leases_of(link, "host:42")) as second,
    ):
        won(first)
        with pytest.raises(
            DatabaseError,
            match=r"in use by another daemon: host:41 since 20\S+ has locked .* use PostgreSQL",
        ) as told:
            second.acquire()
        assert told.value.permanent
        assert told.value.exit_code == 4
        first.close()
        assert won(second).epoch == 2


def test_a_second_daemon_after_the_lock_was_deleted_fences_the_first(file):
    with (
        store_over(file) as store,
        closing(leases_of(file, "host:41")) as first,
        closing(leases_of(file, "host:42")) as second,
    ):
        old = won(first)
        held = under(store, old)
        file.with_name("rankwatch.db.lock").unlink()
        won(second)

        with pytest.raises(DatabaseError, match="host:42"):
            first.renew(old)
        with pytest.raises(LeaseLostError):
            claimed(held)
        second.close()
        assert not first.renew(old)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_replaced_sqlite_file_is_not_used_until_the_original_is_back(file, is_replaced):
    replaced = "deleted or replaced by another file while in use"
    with store_over(file) as store, closing(leases_of(file, "host:41")) as leases:
        taken = won(leases)
        held = under(store, taken)
        away = file.rename(file.with_name("away.db"))
        if is_replaced:
            file.touch()

        with pytest.raises(DatabaseError, match=replaced):
            leases.renew(taken)
        with pytest.raises(DatabaseError, match=replaced):
            claimed(held)
        away.replace(file)
        assert leases.renew(taken)
        assert claimed(held)


def test_a_renewal_gives_up_after_a_third_of_the_lease():
    leases: Any = open_leases(parse_url("postgresql://u@h/d"), holder="a", lasts=30 * SECOND)
    assert leases.database._lock_wait_s == 10
