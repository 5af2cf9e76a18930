"""`make bench [ARGS="metrics pull"]`: print one row a measurement, ours beside theirs, and the ratio."""

import importlib
import sys

from rich.console import Console
from rich.table import Table

MODULES = ("metrics", "pull", "store", "judging", "million")
CALIBRATION = "calibration"
"""Simulations with tables of their own, only when asked for: how often rules that learn page falsely, how soon rightly."""
SEQUENCES = "sequences"
"""Likewise: what sequential decisions promise, beside what they do."""


def main(names: list[str]) -> None:
    if names[:1] == [CALIBRATION]:
        importlib.import_module(f"tests.bench.{CALIBRATION}").main(names[1:])
        return
    if names == [SEQUENCES]:
        importlib.import_module(f"tests.bench.{SEQUENCES}").main()
        return
    unknown = set(names) - set(MODULES)
    if unknown:
        there_are = f"there are {', '.join(MODULES)}, and {CALIBRATION} and {SEQUENCES} by themselves"
        sys.exit(f"no such benchmark: {', '.join(sorted(unknown))}; {there_are}")
    table = Table("what", "rankwatch", "instead", "", "ratio", "unit", title="Medians of one run", title_justify="left")
    for column in (1, 3, 4):
        table.columns[column].justify = "right"
    console = Console(width=None if sys.stdout.isatty() else 140)
    for name in names or MODULES:
        Console(stderr=True).print(f"measuring {name} ...", highlight=False)
        for what, ours, other, theirs, unit in importlib.import_module(f"tests.bench.{name}").run():
            ratio = f"{ours / theirs:,.1f}x" if theirs else ""
            table.add_row(what, f"{ours:,.4g}", other, f"{theirs:,.4g}" if theirs else "", ratio, unit)
    console.print(table)


main(sys.argv[1:])
