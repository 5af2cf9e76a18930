"""Small files are read whole, and nothing that is none holds anybody up."""

import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from monitor.boundary.files import read_bounded, replace_file, replacing, require_replaceable


@contextmanager
def written_to(fifo, *pieces):
    """Somebody who opens the pipe, writes these one after the other, and closes it."""

    def write():
        with fifo.open("wb", buffering=0) as file:
            for piece in pieces:
                file.write(piece)

    with ThreadPoolExecutor(1) as writer:
        written = writer.submit(write)
        yield
        written.result(20)


@pytest.fixture
def fifo(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 200_000])
def test_a_file_is_read_whole_up_to_its_limit(tmp_path, size):
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "link").symlink_to("file")
    assert read_bounded(tmp_path / "link", size) == content
    if size:
        with pytest.raises(OSError, match=f"it is larger than {size - 1} bytes"):
            read_bounded(tmp_path / "file", size - 1)


def test_a_file_is_replaced_at_once_with_its_own_mode_and_no_other_file_is_left(tmp_path):
    file = tmp_path / ("x" * 255)  # as long as names may be
    before = os.umask(0o027)
    try:
        replace_file(file, b"first")
        assert file.stat().st_mode & 0o777 == 0o640
        file.chmod(0o600)
        replace_file(file, b"second")
        assert file.stat().st_mode & 0o777 == 0o600
        replace_file(file, b"third", mode=0o644)
    finally:
        os.umask(before)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"third", 0o644)
    assert list(tmp_path.iterdir()) == [file]


def test_no_link_is_followed_when_a_file_is_replaced(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / f".rankwatch.{os.getpid()}").symlink_to(
        victim
    )  # the name that could once be guessed
    replace_file(tmp_path / "link", b"new")
    assert (victim.read_bytes(), (tmp_path / "link").read_bytes()) == (b"untouched", b"new")
    assert not (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_refused_before_it_is_replaced_or_waited_for(tmp_path, fifo):
    for path in (fifo, Path("/dev/null"), tmp_path, tmp_path / "none" / "file"):
        for act in (require_replaceable, lambda path: replace_file(path, b"new")):
            with pytest.raises(
                OSError, match=r"it is a pipe|Is a directory|No such file"
            ) as caught:
                act(path)
            assert caught.value.filename == str(path)
    require_replaceable(tmp_path / "new")
    assert list(tmp_path.iterdir()) == [fifo]


@pytest.mark.integration
def test_what_a_killed_process_left_goes_with_the_next_and_what_another_still_writes_stays(
    tmp_path,
):
    (file := tmp_path / "file").write_bytes(b"old")
    if not (child := os.fork()):
        _begin_and_die(file)
    os.waitpid(child, 0)
    (left,) = {*tmp_path.iterdir()} - {file}

    with replacing(file) as first:
        first.write(b"first")
        with replacing(file) as second:
            second.write(b"second")
        assert file.read_bytes() == b"second"
        assert not left.exists()

    assert (file.read_bytes(), list(tmp_path.iterdir())) == (b"first", [file])


def _begin_and_die(file):
    with replacing(file):
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_cannot_be_opened_is_an_oserror_with_words(tmp_path):
    for name in ["", "\0", "\ud800", "a/\0/b", "x" * 5000, "none"]:
        with pytest.raises(OSError) as caught:  # noqa: PT011 - any OSError with words will do
            read_bounded(f"{tmp_path}/none/{name}", 4)
        assert caught.value.strerror


@pytest.mark.parametrize("name", ["/dev/null", "socket", "fifo", "/dev/zero", "."])
@pytest.mark.usefixtures("fifo")
def test_devices_directories_sockets_and_unwanted_pipes_are_no_files(tmp_path, name):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        for may_be_pipe in (False,) if name == "fifo" else (False, True):
            with pytest.raises(OSError, match="it is not a file"):
                read_bounded(tmp_path / name, 4, may_be_pipe=may_be_pipe)


def test_a_pipe_is_read_to_its_end_or_limit_where_it_may_be_one(fifo):
    pieces = (b"a" * 70_000, b"b", b"c" * 100_000)
    with written_to(fifo, *pieces):
        assert read_bounded(fifo, 1 << 20, may_be_pipe=True, pipe_s=20) == b"".join(pieces)
    with written_to(fifo, b"x" * 11), pytest.raises(OSError, match="it is larger than 10 bytes"):
        read_bounded(fifo, 10, may_be_pipe=True, pipe_s=20)


def test_a_pipe_that_nobody_writes_to_or_closes_is_given_up(fifo):
    with pytest.raises(OSError, match="its writer did not close it in time"):
        read_bounded(fifo, 10, may_be_pipe=True, pipe_s=0.05)
    with fifo.open("r+b", buffering=0) as writer:
        writer.write(b"x")
        with pytest.raises(OSError, match="its writer did not close it in time"):
            read_bounded(fifo, 10, may_be_pipe=True, pipe_s=0.05)
