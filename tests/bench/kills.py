"""Kills of a daemon whose receivers refuse, cut after reading or answer slowly: `make bench ARGS="kills --kills 100"`.

Each database gets so many kills, in worlds of ten. It ends with 1 if a slot was run twice, a run is half stored, a
transition is lost, or a message that may have arrived was followed by another one under another key.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import astuple, fields
from pathlib import Path

from rich.console import Console
from rich.table import Table

from killing.storms import Damage, play_storm
from servers.postgres import running_postgres

IN_A_WORLD = 10


def main(arguments: list[str]) -> None:
    """Print a row a database."""
    parser = argparse.ArgumentParser(prog="kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=100, help="on each database")
    parser.add_argument("--at-once", type=int, default=2, help="worlds")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    worlds = -(-given.kills // IN_A_WORLD)
    table = Table("database", *(each.name.replace("_", " ") for each in fields(Damage)))
    harm = False
    with ExitStack() as stack, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        server = stack.enter_context(running_postgres())

        def of_sqlite(folder: Path) -> str:
            return f"sqlite:///{folder / 'rankwatch.db'}"

        def of_postgres(_: Path) -> str:
            return stack.enter_context(server.database())

        def play(url_of: Callable[[Path], str], seed: int) -> Damage:
            folder = Path(tempfile.mkdtemp(dir=home))
            return play_storm(url_of(folder), folder, kills=min(IN_A_WORLD, given.kills), seed=seed)

        for database, url_of in {"SQLite": of_sqlite, "PostgreSQL": of_postgres}.items():
            seeds = range(given.seed, given.seed + worlds)
            with ThreadPoolExecutor(given.at_once) as pool:
                played = pool.map(play, [url_of] * worlds, seeds)
                damage = sum(played, Damage())
            table.add_row(database, *map(str, astuple(damage)))
            harm = harm or bool(damage.harm)
    Console(width=130).print(table)
    sys.exit(harm)
