"""What commands load, which decides how fast they start."""

import subprocess
import sys
from pathlib import Path

from monitor.storage import open_store

HEAVY = {
    "pandas",
    "numpy",
    "scipy",
    "monitor.options",
    "pyarrow",
    "sqlalchemy",
    "alembic",
    "aiohttp",
    "requests",
    "starlette",
    "uvicorn",
    "structlog",
}
LOADED = """
import contextlib, io, sys
from monitor.cli.main import app
codes = []
for arguments in {commands!r}:
    with contextlib.redirect_stdout(io.StringIO()):
        try: app(arguments)
        except SystemExit as end: codes.append(end.code)
print(*sorted({heavy!r} & sys.modules.keys()), set(codes))
"""


def printed_by(code: str, directory: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=True
    ).stdout.strip()


def loaded_by(*commands: list[str], directory: Path) -> str:
    return printed_by(LOADED.format(commands=commands, heavy=HEAVY), directory)


def test_help_version_and_the_question_how_a_daemon_is_load_nothing_heavy(tmp_path: Path) -> None:
    commands = (["--version"], ["--help"], ["run-once", "--help"], ["healthcheck", "127.0.0.1:1"])
    assert loaded_by(*commands, directory=tmp_path) == "{0, 1}"


def test_the_command_line_itself_loads_little_of_the_program(tmp_path: Path) -> None:
    code = (
        "import sys, monitor.cli.main; print(*sorted({name.split('.')[1] for name in sys.modules if name[:8] == 'monitor.'}))"
    )
    assert printed_by(code, tmp_path).split() == ["cli", "errors", "redaction"]


def test_commands_that_read_the_database_load_little_else(tmp_path: Path) -> None:
    (tmp_path / "rankwatch.yaml").write_text("database: sqlite:///rankwatch.db\ncomparisons: [{name: feed}]\n")
    open_store(f"sqlite:///{tmp_path / 'rankwatch.db'}", create=True).close()

    commands = ("runs", "alerts", "alerts --states --json", "silence", "notify ls", "db current", "db size")
    assert loaded_by(*map(str.split, commands), directory=tmp_path) == "monitor.options sqlalchemy {0}"


def test_a_configuration_is_checked_without_what_reads_lists_and_runs_start_without_what_only_some_need(
    tmp_path: Path,
) -> None:
    """The statistics of scipy alone take as long to load as most of the rest."""
    code = f"""
import sys, monitor.settings.loader
print(*sorted({HEAVY!r} & sys.modules.keys()))
import monitor.service.daemon.daemon, monitor.service.composition, monitor.receivers
print({{'scipy.stats', 'alembic', 'apprise'}} & sys.modules.keys())
"""
    assert printed_by(code, tmp_path).splitlines() == ["monitor.options numpy sqlalchemy structlog", "set()"]


def test_executors_of_spark_need_no_library_but_those_of_arrays(tmp_path: Path) -> None:
    absent = dict.fromkeys(("scipy", "pydantic", "sqlalchemy", "aiohttp", "structlog"))
    code = f"import sys; sys.modules |= {absent}; import monitor.pipeline.run_parts as loaded; print(loaded.__name__)"

    assert printed_by(code, tmp_path) == "monitor.pipeline.run_parts"
