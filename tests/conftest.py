"""The same start for every test, whoever starts them, and fixtures that every test may use: the real servers."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from monitor.storage import SqlStore

os.environ["RANKWATCH_ENGINE"] = "numpy"  # no test compiles in the background; those of the engines choose for themselves

# Scripts and nohup start us with signals ignored, which our children would inherit.
for _number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The look of a terminal and another database are the caller's, not the tests'; no proxy stands between us and our own servers.
for _name in list(os.environ):
    if re.fullmatch(r"COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|PG[A-Z]+|RANKWATCH_CONFIG", _name):
        del os.environ[_name]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(("127.0.0.1", "localhost", os.environ.get("no_proxy", "")))

pytest_plugins = ["servers.postgres"]

hypothesis.settings.register_profile("steady", deadline=None)  # timing decides no test
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session")
def machine_code(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What numba compiles lies in its cache: one worker compiles it, and the others wait."""
    with (tmp_path_factory.getbasetemp().parent / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        load = "from monitor.kernels.engines.choice import load; load()"
        subprocess.run([sys.executable, "-c", load], check=False, capture_output=True)


@pytest.fixture
def store(tmp_path: Path) -> Iterator["SqlStore"]:
    """An empty store over a SQLite file."""
    from monitor.storage import open_store  # noqa: PLC0415 - after the environment is set

    with closing(open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True)) as opened:
        yield opened


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the random order, but begin with what takes long."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)
