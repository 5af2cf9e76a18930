"""The files of a SQLite database: who may read and lock them, and that writers of one process queue."""

import fcntl
import os
import socket
import threading

import pytest
from sqlalchemy import make_url

from monitor.model.errors import DatabaseError
from monitor.storage import open_store
from monitor.storage.sqlite_file import FileLock, describe_file_readers, holder_of, make_private
from storage.worked import store_at, store_over


@pytest.fixture
def _umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
@pytest.mark.parametrize("named", ["rankwatch.db", "link.db"])
def test_only_the_owner_can_read_a_new_database_and_its_log(tmp_path, named):
    (tmp_path / "link.db").symlink_to("rankwatch.db")
    with store_at(f"sqlite:///{tmp_path / named}", create=True):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("rankwatch.db*")}
    assert modes == dict.fromkeys(("rankwatch.db", "rankwatch.db-shm", "rankwatch.db-wal"), 0o600)
    assert describe_file_readers(make_url(f"sqlite:///{tmp_path / named}")) is None


@pytest.mark.usefixtures("_umask")
def test_an_existing_database_keeps_its_mode_and_content(tmp_path):
    file = tmp_path / "rankwatch.db"
    url = f"sqlite:///{file}"
    file.touch(0o644)
    open_store(url, create=True).close()
    before = file.read_bytes()
    make_private(file)
    assert file.stat().st_mode & 0o777 == 0o644
    assert file.read_bytes() == before
    assert str(describe_file_readers(make_url(url))) == (
        f"{file} has mode 0644, so every account of this machine may read users and lists in it: "
        f"chmod o= {file}*"
    )


ENDED_PROCESS = 2**22 + 1
"""More than any process's number."""


def mode(lock):
    return lock.path.stat().st_mode & 0o777


def test_only_the_owner_can_read_the_lock_file_also_if_it_existed(file):
    lock = FileLock(file=file, holder="host:7")
    lock.take()
    assert mode(lock) == 0o600
    lock.release()
    lock.path.chmod(0o644)
    lock.take()
    assert mode(lock) == 0o600
    lock.release()


@pytest.mark.parametrize(
    "process, named",
    [(ENDED_PROCESS, "an unknown process"), (os.getpid(), "since yesterday")],
    ids=["ended", "running"],
)
def test_an_ended_process_is_not_named_as_the_holder(file, process, named):
    lock = FileLock(file=file, holder="host:7")
    lock.path.write_text(f"{socket.gethostname()}:{process} since yesterday\n")
    with lock.path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert named in str(holder_of(file))
        with pytest.raises(DatabaseError, match=named):
            lock.take()


def test_writers_of_one_process_wait_in_the_order_of_their_arrival(file):
    order = []
    timeout = "?timeout=0.01"
    with store_over(file, timeout) as store, store_over(file, timeout) as other:
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


def write(store, number, order):
    with store.database.write():
        order.append(number)
