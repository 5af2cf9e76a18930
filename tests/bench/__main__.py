"""`make bench [ARGS="metrics runs"]`: print one row a measurement, ours beside theirs, and the ratio."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as for pytest

from bench import show

MODULES = ("metrics", "runs")
SIMULATIONS = (
    "calibration",
    "sequences",
    "kills",
    "many",
    "soak",
    "incidents",
    "pages",
    "runs",
    "against_duckdb",
)
"""With tables of their own, only when asked for: how often decisions err, how soon they are right."""


def main(names: list[str]) -> None:
    if names and names[0] in SIMULATIONS:
        importlib.import_module(f"tests.bench.{names[0]}").main(names[1:])
    elif unknown := set(names) - set(MODULES):
        there_are = f"there are {', '.join(MODULES)}, and {', '.join(SIMULATIONS)} by themselves"
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; {there_are}")
    else:
        columns = ("what", "rankwatch", "instead", "theirs", "ratio", "unit")
        show("Medians of one run", columns, measure(names or MODULES))


def measure(names: list[str] | tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr)  # noqa: T201 - it takes minutes
        for what, ours, other, theirs, unit in importlib.import_module(f"tests.bench.{name}").run():
            figures = (f"{theirs:,.4g}", f"{ours / theirs:,.1f}x") if theirs else ("", "")
            yield what, f"{ours:,.4g}", other, *figures, unit


main(sys.argv[1:])
