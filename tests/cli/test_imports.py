"""What commands load, which decides how fast they start."""

import subprocess
import sys

import pytest

from monitor.storage import open_store

pytestmark = pytest.mark.integration
LIBRARIES = (
    "pandas numpy scipy monitor.boundary.options pyarrow sqlalchemy alembic aiohttp requests "
    "starlette uvicorn structlog monitor.model.rankings"
)
STEPS = f"""
import contextlib, io, sys

def show_loaded(names):
    print(*sorted(set(names.split()) & sys.modules.keys()))

def run(*commands):
    codes = set()
    for command in commands:
        with contextlib.redirect_stdout(io.StringIO()):
            try: app(command.split())
            except SystemExit as end: codes.add(end.code)
    print(codes)
    show_loaded({LIBRARIES!r})

from monitor.cli.main import app
print(*sorted({{name.split(".")[1] for name in sys.modules if name[:8] == "monitor."}}))
run("--version", "--help", "run-once --help", "healthcheck 127.0.0.1:1")
run("runs", "alerts", "alerts --states --json", "silence", "notify ls", "db current", "db size")
import monitor.settings.loader
show_loaded({LIBRARIES!r})
import monitor.service.daemon.daemon, monitor.service.composition, monitor.receivers
show_loaded("scipy.stats alembic apprise")
"""


def lines_of(code, directory):
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_each_step_loads_only_what_it_needs(tmp_path):
    """Help and the question how a daemon is load nothing heavy, stored runs little, and the daemon no statistics of scipy."""
    (tmp_path / "rankwatch.yaml").write_text(
        "database: sqlite:///rankwatch.db\ncomparisons: [{name: feed}]\n"
    )
    open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True).close()

    assert lines_of(STEPS, tmp_path) == [
        "boundary cli model texts",
        "{0, 1}",
        "",
        "{0}",
        "monitor.boundary.options monitor.model.rankings sqlalchemy",
        "monitor.boundary.options monitor.model.rankings numpy sqlalchemy structlog",
        "",
    ]


def test_executors_of_spark_need_no_library_but_those_of_arrays(tmp_path):
    absent = dict.fromkeys(("scipy", "pydantic", "sqlalchemy", "aiohttp", "structlog"))
    code = (
        f"import sys; sys.modules |= {absent}; import monitor.pipeline.accumulator as loaded; "
        "print(loaded.__name__)"
    )

    assert lines_of(code, tmp_path) == ["monitor.pipeline.accumulator"]
