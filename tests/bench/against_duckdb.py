"""Compares the CPU time of `run-once` with DuckDB, which joins the same two Parquet files and streams them as Arrow.

`make bench ARGS="against_duckdb 1000000x10 200000x100"`: each size is users x k. The programs take turns, three times each.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import parse_options, show
from bench.runs import CONFIG, compile_program, measure, write_lists
from places import ROOT

SIZES = ["1000000x10", "200000x100"]
ROUNDS = 3
ALONE = """
import duckdb
files = ("read_parquet('baseline.parquet')", "read_parquet('candidate.parquet')")
query = "SELECT b.user_id, b.items, c.items FROM {} AS b JOIN {} AS c USING (user_id)"
for batch in duckdb.sql(query.format(*files)).to_arrow_reader(30_000):
    pass
"""


def main(args):
    """Print one row for each size."""
    options = parse_options(args, SIZES, root=ROOT)
    root = options.root.resolve()
    compile_program(root)
    rows = [_compared(size, root) for size in options.rest]
    show("CPU seconds, medians", ("size", "run-once", "DuckDB alone", "ratio"), rows)


def _compared(size, root):
    users, k = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        sources = write_lists(Path(folder), users, k)
        turns = list(_turns(Path(folder), users, k, sources, root))
    ours, alone = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(one / other for one, other in turns)
    return [size, f"{ours:.2f}", f"{alone:.2f}", f"{ratio:.2f}"]


def _turns(folder, users, k, sources, root):
    for turn in range(ROUNDS):
        url = f"sqlite:///turn-{turn}.db"
        (folder / "rankwatch.yaml").write_text(CONFIG.format(url=url, k=k) + sources)
        _, ours, *_ = measure(folder, url, users, root)
        process = subprocess.Popen([sys.executable, "-c", ALONE], cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"DuckDB failed: {status}")
        yield ours, usage.ru_utime + usage.ru_stime
