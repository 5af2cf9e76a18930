"""`make bench ARGS=metrics` runs one benchmark with its options, and prints its tables."""

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as for pytest

NAMES = [
    "metrics",
    "runs",
    "many",
    "pages",
    "soak",
    "kills",
    "incidents",
    "calibration",
    "sequences",
    "unpaired",
    "outcomes",
    "against_duckdb",
]

name, *arguments = sys.argv[1:] or ["metrics"]
if name not in NAMES:
    sys.exit(f"no such benchmark: {name}; there are {', '.join(NAMES)}")
importlib.import_module(f"tests.bench.{name}").main(arguments)
