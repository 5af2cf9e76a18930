"""Who may lock a SQLite file, who is named as its holder, and that writers of one process queue."""

import fcntl
import os
import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from monitor.errors import DatabaseError, DatabaseTrouble
from monitor.storage import SqlStore, open_store
from monitor.storage.sqlite_file import FileLock, holder_of
from storage.worked import attempt

ENDED_PROCESS = 2**22 + 1
"""More than any process's number."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    open_store(f"sqlite:///{tmp_path / 'x.db'}", create=True).close()
    return tmp_path / "x.db"


def mode(lock: FileLock) -> int:
    return lock.path.stat().st_mode & 0o777


def test_the_lock_file_is_for_its_owner_alone_also_if_it_was_there_before(file):
    lock = FileLock(file=file, holder="host:7")
    lock.take()
    assert mode(lock) == 0o600
    lock.release()
    lock.path.chmod(0o644)
    lock.take()
    assert mode(lock) == 0o600
    lock.release()


@pytest.mark.parametrize(
    ("process", "named"),
    [(ENDED_PROCESS, "an unknown process"), (os.getpid(), "since yesterday")],
    ids=["ended", "running"],
)
def test_a_process_that_has_ended_is_not_named_as_the_holder(file, process, named):
    lock = FileLock(file=file, holder="host:7")
    lock.path.write_text(f"{socket.gethostname()}:{process} since yesterday\n")
    with lock.path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert named in str(holder_of(file))
        with pytest.raises(DatabaseError, match=named):
            lock.take()


def test_writers_of_one_process_wait_for_each_other_in_the_order_in_which_they_came(file):
    url = f"sqlite:///{file}?timeout=0.01"
    order: list[int] = []
    with (
        closing(open_store(url, create=False)) as store,
        closing(open_store(url, create=False)) as other,
    ):
        threads = []
        with store.database.write():
            for number in range(4):
                waits = threading.Thread(target=write, args=(other, number, order))
                threads.append(waits)
                waits.start()
                waits.join(0.05)
                assert waits.is_alive()
        for thread in threads:
            thread.join()
    assert order == [0, 1, 2, 3]


def write(store: SqlStore, number: int, order: list[int]) -> None:
    with store.database.write():
        order.append(number)


def test_a_file_that_was_read_only_for_a_while_can_be_written_at_once(file):
    with closing(open_store(f"sqlite:///{file}", create=False)) as store:
        with store.database.read() as connection:
            connection.exec_driver_sql("PRAGMA query_only = ON")
        with pytest.raises(DatabaseError) as caught:
            attempt(store)
        assert caught.value.trouble is DatabaseTrouble.READ_ONLY
        assert attempt(store) is not None
