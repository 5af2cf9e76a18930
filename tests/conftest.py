"""The same start for every test, whoever starts them, and fixtures that every test may use: the real servers."""

import atexit
import gc
import logging
import math
import os
import re
import shutil
import signal
import sys
import tempfile
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path

import pytest
from _pytest.unraisableexception import gc_collect_iterations_key

gc.set_threshold(500_000, 20, 20)  # what is loaded now stays to the end

os.environ["RANKWATCH_ENGINE"] = (
    "numpy"  # no test compiles in the background; those of the engines choose for themselves
)

# Scripts and nohup start us with signals ignored, which our children would inherit.
for _number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The look of a terminal and another database are the caller's, not the tests'; no proxy stands
# between us and our own servers.
for _name in list(os.environ):
    if re.fullmatch(
        r"COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|PG[A-Z]+|RANKWATCH_CONFIG", _name
    ):
        del os.environ[_name]
os.environ["NO_PROXY"] = os.environ["no_proxy"] = ",".join(
    ("127.0.0.1", "localhost", os.environ.get("no_proxy", ""))
)

pytest_plugins = ["rings", "servers.chromium"]
collect_ignore = ["plugin_example"]  # has tests of its own, for where it is installed


def _logging():
    """Handlers and level of the loggers that the program configures."""
    loggers = logging.getLogger(), logging.getLogger("monitor")
    return [(each, each.handlers[:], each.level) for each in loggers]


@pytest.fixture(autouse=True)
def _same_logging():
    """Tests configure logs, some with a stream that they close. The next test has none of this."""
    before = _logging()
    yield
    if _logging() != before:
        for logger, handlers, level in before:
            logger.handlers[:] = handlers
            logger.setLevel(level)
        import_module("structlog").reset_defaults()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory):
    """A file with our tables, to copy: making them takes as long as most tests."""
    from monitor.storage import open_store  # noqa: PLC0415 - after the environment is set

    file = tmp_path_factory.mktemp("template") / "rankwatch.db"
    open_store(f"sqlite:///{file}", create=True).close()
    return file


@pytest.fixture
def store(sqlite_template, tmp_path):
    """An empty store over a SQLite file."""
    from monitor.storage import open_store  # noqa: PLC0415 - after the environment is set

    file = shutil.copy(sqlite_template, tmp_path / "rankwatch.db")
    with closing(open_store(f"sqlite:///{file}", create=False)) as opened:
        yield opened


@pytest.fixture(scope="session")
def postgres_server():
    with import_module("servers.postgres").running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server):
    with postgres_server.database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """URL of a fresh empty database of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'rankwatch.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def spill(tmp_path, monkeypatch):
    """The folder of temporary files. It is empty at the end."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.iterdir())


def pytest_configure(config):
    if config.getoption("numprocesses", None) is None:  # not in the process that starts workers
        import_module("adjustments")
    if "PYTEST_XDIST_WORKER" in os.environ:
        # Python would free all objects one by one, which takes seconds. All results are reported.
        atexit.register(os._exit, 0)
    config.stash[gc_collect_iterations_key] = 1  # the garbage of all tests is large


def pytest_collection_modifyitems(items):
    """Keep the random order, but begin with what takes long, the longest first."""

    def place(item):
        marker = item.get_closest_marker("early")
        return math.inf if marker is None else -sum(marker.args)

    items.sort(key=place)


def pytest_collection(session):
    """On a fresh clone let each worker compile a share of the test modules, and take the others' work where it lies ready."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1 or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    gc.disable()  # all that is made now stays to the end
    modules = sorted(Path(__file__).parent.rglob("test_*.py"))
    for path in modules[int(worker.removeprefix("gw")) :: workers]:
        if not any(path.parent.glob(f"__pycache__/{path.stem}.*-pytest-*.pyc")):
            # What fails here fails again where it is reported.
            with suppress(Exception, pytest.skip.Exception):
                import_module(
                    ".".join(path.relative_to(session.config.rootpath).with_suffix("").parts)
                )


def pytest_collection_finish():
    """What stays to the end is not gone through again and again."""
    import_module("databases")  # not in the process that starts workers

    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)  # as the daemon has it


@pytest.fixture
def own_databases(monkeypatch):
    """Each database of DuckDB is new, and reads only what it is told to."""
    monkeypatch.setattr("duckdb.connect", import_module("databases").make_database)


@pytest.hookimpl(wrapper=True)
def pytest_unconfigure(config):
    """Let one last collection find it, or DuckDB complains of leaks."""
    if "databases" in sys.modules:
        sys.modules["databases"].close_all()
    yield
    config.stash[gc_collect_iterations_key] = 0  # another collection would find nothing
    gc.unfreeze()
