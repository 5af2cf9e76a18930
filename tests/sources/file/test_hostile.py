"""Files that are small on disk and huge when they are read: refused or read in bounded memory, and nothing runs on."""

import gzip
import re
import threading
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from memory import with_peak_mb
from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.model.errors import SourceError
from monitor.sources.file import FileUsersOptions
from monitor.sources.file.diagnosis import MEMORY_MB
from monitor.sources.file.source import FileUsers
from servers.lists import SLOT, pull_of
from sources.file.test_joined import second_ring

pytestmark = pytest.mark.usefixtures("own_databases")
LONG_TEXTS = pa.DictionaryArray.from_arrays(
    pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 2**20])
)


def long_lines(path):
    line = b'{"user": "u", "items": [' + b"1, " * 200_000 + b"1]}\n"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.writelines(line for _ in range(700))


def long_users(path):
    pq.write_table(pa.table({"user": LONG_TEXTS, "items": [[1]] * len(LONG_TEXTS)}), path)


def long_list(path):
    lists = pa.LargeListArray.from_arrays(pa.array([0, 10**7]), pa.array(np.zeros(10**7, np.int8)))
    pq.write_table(pa.table({"user": ["1"], "items": lists}), path)


def many_columns(path):
    path.write_text(",".join(f"c{number}" for number in range(450_000)) + "\n")


def many_users(path):
    rows = gzip.compress(b"".join(b"%d,1\n" % number for number in range(500_000)), 1)
    path.write_bytes(gzip.compress(b"user,items\n") + rows * 2)


def said_of(read):
    try:
        return type(read()).__name__
    except SourceError as error:
        return str(error)


@pytest.mark.parametrize(
    "name, write, lists, users",
    [
        second_ring("lines.jsonl.gz", long_lines, r"in \d+MB of memory", r"in \d+MB of memory"),
        (
            "users.parquet",
            long_users,
            "'user' of .* has a text of 1048576 bytes",
            "has a text of 1048576 bytes",
        ),
        second_ring("list.parquet", long_list, "has lists of 10000000 items", "UserTable"),
        (
            "columns.csv",
            many_columns,
            "does not begin with a header of 1 to 4000 columns",
            "does not begin with a header",
        ),
        second_ring(
            "rows.csv.gz", many_users, "2 of 2 rows cannot be read", "has more than 16777216 bytes"
        ),
    ],
)
def test_memory_is_bounded(name, write, lists, users, tmp_path):
    write(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 2**24

    given: Any = {"path": str(tmp_path / name), "user": "user", "max_bytes": 2**24}
    everybody = FileUsers(FileUsersOptions(**given))
    for expected, read in (
        (lists, lambda: pull_of("1", "u", file=given | {"items": "items"})),
        (users, lambda: everybody.users(SLOT, ())),
    ):
        said, peak_mb = with_peak_mb(partial(said_of, read))
        assert peak_mb < MEMORY_MB + 200
        assert re.search(expected, said), said
        assert "\n" not in said


@pytest.mark.integration
def test_a_read_whose_caller_has_given_up_ends(tmp_path):
    path = tmp_path / "lists.csv.gz"
    path.write_bytes(gzip.compress(b"user,items\n") + gzip.compress(b"\n" * 30_000_000) * 100)
    users = FileUsers(FileUsersOptions(path=str(path), user="user"))

    call = BackgroundCall(lambda: users.users(SLOT, ()), name="users of a file")
    (reading,) = (each for each in threading.enumerate() if each.name == "users of a file")
    with pytest.raises(OverdueError):
        call.wait(Deadline.after(0.3))

    reading.join(60)
    assert not reading.is_alive()
