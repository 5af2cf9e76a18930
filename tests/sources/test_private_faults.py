"""Faults in which other programs quote users' ids, with `privacy: users: hmac`: no output holds one, and each names its cause.

`make faults` prints them as a table.
"""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import psycopg
import pytest
from psycopg import sql
from rich.console import Console
from rich.table import Table

from canary import private_faults
from canary.marks import songs_in
from canary.private_faults import Fault, Planter
from forking import rankwatch, running
from servers.daemon import wait_for
from servers.postgres import PostgresServer
from servers.webhook import answer, serve

pytestmark = pytest.mark.integration
LEAST = 60
"""Faults that must be tried."""


@dataclass(frozen=True, slots=True)
class Played:
    """All outputs by name, and what each run said, for one database of rankwatch."""

    outputs: dict[str, bytes]
    said: dict[str, str]


@pytest.fixture(scope="module")
def planted(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer
) -> Iterator[Planter]:
    with ExitStack() as running_servers:
        folder = tmp_path_factory.mktemp("private")
        planter = Planter(folder, running_servers)
        (folder / "baseline.jsonl").write_text(private_faults.JSON_LISTS)
        private_faults.plant_in_files(planter)
        url = private_faults.plant_in_sqlite(planter)
        private_faults.plant_in_postgres(
            planter, running_servers.enter_context(postgres_server.database())
        )
        private_faults.plant_in_redis(planter)
        private_faults.plant_in_http(planter)
        private_faults.plant_in_users(planter, url)
        yield planter


def play(planter: Planter, database: str, name: str) -> dict[str, bytes]:
    """Every fault is run and told to receivers, checked, shown, exported, and looked at on the daemon's pages."""
    folder, faults = planter.folder, planter.faults
    with contextmanager(serve)() as collector:
        collector.respond = lambda request: answer(
            200, body=b'{"status": "success"}' if "pager" in request.path else b"ok"
        )
        config = private_faults.write_config(folder, faults, database, collector.url, name)
        common = ("--config", str(config))
        textfile = folder / f"{name}.prom"
        commands = {
            "run-once": ("run-once", *common, "--textfile", str(textfile)),
            "run-once --json": ("run-once", faults[0].name, "--json", *common),
            "check": ("check", *common),
            "show": ("show", faults[0].name, *common),
        }
        outputs: dict[str, bytes] = {}
        for title, command in commands.items():
            done = rankwatch(*command, cwd=folder, timeout_s=400)
            outputs[title] = f"{done.stdout}\n{done.stderr}".encode()
        outputs["textfile"] = textfile.read_bytes()
        outputs |= dict(look(config, faults))
        for number, request in enumerate(collector.requests):
            outputs[f"message {number} {request.path}"] = (
                f"{request.headers}\n".encode() + request.body
            )
        for place in ("/hook", "/slack", "/alerts", "/pager", "/ping/fail"):
            assert any(request.path.startswith(place) for request in collector.requests), place
    return {f"{name}: {title}": output for title, output in outputs.items()}


def look(config: Path, faults: list[Fault]) -> Iterator[tuple[str, bytes]]:
    """The pages of a daemon, and its log."""
    log = config.with_suffix(".log")
    with running(["serve", "--config", str(config)], cwd=config.parent, out=log):
        found = wait_for(
            lambda: (
                log.exists()
                and re.search(rb'"url": "(\S+)", .*"rankwatch started"', log.read_bytes())
            ),
            "it",
        )
        assert found
        paths = ["/", "/metrics", "/alerts", *(f"/c/{fault.name}" for fault in faults)]
        for path in paths:
            with urlopen(found[1].decode() + path, timeout=60) as response:  # noqa: S310 - of loopback
                yield f"page {path}", response.read()
    yield "log", log.read_bytes()


def dump_sqlite(file: Path) -> dict[str, bytes]:
    with closing(sqlite3.connect(file)) as connection:
        return {
            "sqlite: dump": "\n".join(connection.iterdump()).encode(),
            "sqlite: file": file.read_bytes(),
        }


def dump_postgres(url: str) -> dict[str, bytes]:
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        named = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        tables = [name for (name,) in connection.execute(named).fetchall()]
        found = {}
        for table in tables:
            rows = connection.execute(
                sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table))
            ).fetchall()
            found[f"postgresql: {table}"] = "\n".join(row for (row,) in rows).encode()
        return found


def reasons(rows: list[tuple[str, str | None]]) -> dict[str, str]:
    return {name: reason or "" for name, reason in rows}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def played(
    request: pytest.FixtureRequest, planted: Planter, postgres_server: PostgresServer
) -> Iterator[Played]:
    query = "SELECT comparison, reason FROM runs"
    if request.param == "sqlite":
        file = planted.folder / "rankwatch.db"
        outputs = play(planted, f"sqlite:///{file}", "sqlite")
        with closing(sqlite3.connect(file)) as connection:
            said = reasons(connection.execute(query).fetchall())
        yield Played(outputs | dump_sqlite(file), said)
        return
    with postgres_server.database() as url:
        outputs = play(planted, url, "postgresql")
        with psycopg.connect(url.replace("+psycopg", "")) as connection:
            said = reasons(connection.execute(query).fetchall())
        yield Played(outputs | dump_postgres(url), said)


def test_no_output_holds_the_id_of_a_user(played, planted):
    assert len(planted.faults) >= LEAST
    assert all(
        output for name, output in played.outputs.items() if "page" in name or "message" in name
    )
    leaks = {name: songs_in(output) for name, output in played.outputs.items() if songs_in(output)}
    assert not leaks, leaks


def test_each_run_names_the_cause_that_was_planted(played, planted):
    table, wrong = Table("fault", "what is said"), []
    for fault in planted.faults:
        said = played.said.get(fault.name, "no run")
        table.add_row(fault.name, said.partition("; the baseline")[0])
        if not re.search(fault.told, said):
            wrong.append((fault.name, fault.told, said))
    Console(width=170).print(table)
    assert not wrong, json.dumps(wrong, indent=1)
