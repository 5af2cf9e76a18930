"""Benchmarks: the cost of rankwatch and of its alternatives, and how often rankwatch errs. `make bench`."""

import argparse

from rich.console import Console
from rich.table import Table


def show(title, columns, rows):
    """Print a table. All columns but the first are aligned to the right."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if table.columns else "left")
    for row in rows:
        table.add_row(*map(str, row))
    Console(width=160).print(table)


def parse_options(arguments, rest=(), **defaults):
    """Read ``--name value`` for each of these names. A value has the type of the default. The default False makes a flag.

    Values without a name are in ``rest``, if ``rest`` has a default.
    """
    parser = argparse.ArgumentParser()
    if rest:
        parser.add_argument("rest", nargs="*", default=rest)
    for name, default in defaults.items():
        if default is False:
            parser.add_argument(f"--{name}", action="store_true")
        else:
            parser.add_argument(f"--{name}", type=type(default), default=default)
    return parser.parse_args(arguments)
