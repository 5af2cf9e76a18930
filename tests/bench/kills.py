"""Kills daemons whose receivers refuse messages, close connections or answer slowly: `make bench ARGS="kills --kills 100"`.

There are ``--kills`` kills for each database, ten in each world. The exit code is 1 if a slot was run twice, a run is
incomplete, a transition is lost, or if a message that may have arrived was sent again under another key.
"""

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import astuple, fields
from itertools import repeat
from pathlib import Path

from bench import parse_options, show
from killing.storms import Damage, play_storm
from servers.postgres import running_postgres

IN_A_WORLD = 10


def main(arguments):
    """Print a row for each database."""
    options = parse_options(arguments, kills=100, seed=0)
    seeds = range(options.seed, options.seed + -(-options.kills // IN_A_WORLD))

    def play(database, seed):
        with tempfile.TemporaryDirectory() as folder:
            sqlite = nullcontext(f"sqlite:///{folder}/rankwatch.db")
            with sqlite if database == "SQLite" else server.database() as url:
                return play_storm(
                    url, Path(folder), kills=min(IN_A_WORLD, options.kills), seed=seed
                )

    with running_postgres() as server, ThreadPoolExecutor(2) as pool:
        damages = {
            database: sum(pool.map(play, repeat(database), seeds), Damage())
            for database in ("SQLite", "PostgreSQL")
        }
    columns = ("database", *(each.name.replace("_", " ") for each in fields(Damage)))
    show("Damage", columns, [(name, *astuple(damage)) for name, damage in damages.items()])
    sys.exit(any(damage.harm for damage in damages.values()))
