"""Real top-20 lists of fourteen days, of healthy candidates and of faulty ones.

README.md names the source and the arms.
"""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from typer.testing import CliRunner

from monitor.cli.main import app

_PACKED = Path(__file__).with_name("lists.parquet")


@cache
def _packed():
    """All lists, and the folder for files of them, which is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="rankwatch-lists-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pq.read_table(_PACKED), folder


@cache
def arm_folder(arm):
    """The folder of an arm, in it a Parquet file a day: ``2024-01-08.parquet``."""
    packed, folder = _packed()
    (folder / arm).mkdir()
    of_arm = packed.filter(pc.equal(packed["arm"], arm))
    columns = (
        ("user_id", "items", "grades")
        if arm == "relevance"
        else ("user_id", "activity", "country", "items")
    )
    for day in of_arm["day"].unique().to_pylist():
        pq.write_table(
            of_arm.filter(pc.equal(of_arm["day"], day)).select(columns),
            folder / arm / f"{day}.parquet",
        )
    return folder / arm


def lists_folder():
    """A folder with the folders of all arms."""
    packed, folder = _packed()
    for arm in packed["arm"].unique().to_pylist():
        arm_folder(arm)
    return folder


def source(arm):
    """The arm, or another folder of a file a day, as a source of a configuration."""
    folder = arm if Path(arm).is_absolute() else arm_folder(arm)
    return f'{{file: {{path: "{folder}/{{slot:%Y-%m-%d}}.parquet", user: user_id, items: items}}}}'


def compare(name, rest, *, candidate="", baseline="baseline"):
    """A comparison of the arm of this name, or of another candidate.

    ``rest`` are its lines from ``users`` on.
    """
    arms = f"baseline: {source(baseline)}\n    candidate: {source(candidate or name)}"
    return f"\n  - name: {name}\n    every: 1d\n    k: 10\n    {arms}\n{rest}"


def write_config(folder, *comparisons):
    """A configuration of these; its database lies in the folder."""
    path = folder / "rankwatch.yaml"
    path.write_text(
        f"database: sqlite:///{folder}/rankwatch.db\nlisten: "
        f"127.0.0.1:0\ncomparisons:{''.join(comparisons)}"
    )
    return path


def run_cli(*args):
    """The objects that a command prints in this process; it must end well."""
    done = CliRunner().invoke(app, list(args), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]
