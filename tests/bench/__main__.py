"""`make bench [ARGS="metrics pull"]`: print one row a measurement, ours beside theirs, and the ratio."""

import importlib
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

MODULES = ("metrics", "pull", "runs")
SIMULATIONS = (
    "calibration",
    "sequences",
    "runs",
    "kills",
    "many",
    "soak",
    "incidents",
    "pages",
)
"""With tables of their own, only when asked for: how often decisions err, how soon they are right."""


def main(names: list[str]) -> None:
    if names and names[0] in SIMULATIONS:
        importlib.import_module(f"tests.bench.{names[0]}").main(names[1:])
        return
    unknown = set(names) - set(MODULES)
    if unknown:
        there_are = f"there are {', '.join(MODULES)}, and {', '.join(SIMULATIONS)} by themselves"
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; {there_are}")
    table = Table(
        "what",
        "rankwatch",
        "instead",
        "",
        "ratio",
        "unit",
        title="Medians of one run",
        title_justify="left",
    )
    for column in (1, 3, 4):
        table.columns[column].justify = "right"
    console = Console(width=None if sys.stdout.isatty() else 140)
    for name in names or MODULES:
        Console(stderr=True).print(f"measuring {name} ...", highlight=False)
        for what, ours, other, theirs, unit in importlib.import_module(f"tests.bench.{name}").run():
            ratio = f"{ours / theirs:,.1f}x" if theirs else ""
            table.add_row(
                what, f"{ours:,.4g}", other, f"{theirs:,.4g}" if theirs else "", ratio, unit
            )
    console.print(table)


sys.path.insert(0, str(Path(__file__).parents[1]))  # as for pytest
main(sys.argv[1:])
