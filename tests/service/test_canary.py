"""A canary in every place where a secret can stand, and every output walked: it sings where it must, and nowhere else."""

import json
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
import requests
import typer
from psycopg import sql
from typer.testing import CliRunner

from canary.marks import canary, options_in, owners_in, secret_fields, singing_fields, songs_in, told_by
from canary.processes import command
from canary.world import UNHEARD, Way, World, fill, hostile_world, singer
from factories import SLOT
from monitor.cli.main import app
from monitor.errors import DatabaseError, DeliveryError, MonitorError
from monitor.model import PullRequest
from monitor.receivers import verify
from monitor.service.wiring import wire
from monitor.settings import Settings, load
from monitor.storage import open_store
from receivers.messages import START
from servers.daemon import wait_for
from servers.postgres import PostgresServer
from servers.smtp import certificate  # noqa: F401 - a fixture

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # Apprise imports it

PLACE = re.compile("path$|query$|header$|token$|body$|deep$|password$")
NEVER_SENT = re.compile("secret$|^sql|^database|^mail|" + "|".join(UNHEARD))
ARGUMENTS = {
    "replay": ["--from", "2024-01-08", "--to", "2024-01-08"],
    "backfill": ["feed"],
    "backtest": ["--rules", "/nowhere.yaml"],
    "suggest": ["feed"],
    "gate": ["feed", "--margin", "0.1"],
    "show": ["feed"],
    "silence add": ["comparison=feed", "--for", "1h", "--comment", "x"],
    "silence expire": ["1"],
    "db downgrade": ["base"],
}
"""What commands must be given besides the configuration."""


@dataclass
class Stage:
    """What is left when both daemons have ended: the world, the configurations and every output by its name."""

    world: World
    configs: dict[Way, Path]
    url: str
    outputs: dict[str, bytes] = field(default_factory=dict)


@contextmanager
def listening(place: Path) -> Iterator[list[bytes]]:
    """What systemd would be told at this socket; complete once the block has ended."""
    told: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(place))
        channel.setblocking(False)
        yield told
        while True:
            try:
                told.append(channel.recv(4096))
            except BlockingIOError:
                return


@pytest.fixture(scope="module")
def stage(
    tmp_path_factory: pytest.TempPathFactory,
    certificate: Path,  # noqa: F811 - the fixture
    postgres_server: PostgresServer,
) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("canary")
    print("begin", time.monotonic())
    with (
        postgres_server.database() as plain,
        singer(postgres_server, plain) as url,
        psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection,
        hostile_world(folder, certificate) as world,
    ):
        fill(connection)
        lite = folder / "lite"
        lite.mkdir()
        configs: dict[Way, Path] = {
            "direct": world.write("direct", database=url, source=url, every="1s"),
            "file": world.write("file", database=url, source=url),
            "environment": world.write("environment", database=f"sqlite:///{lite}/rankwatch.db", source=url, every="1s"),
        }
        stage = Stage(world=world, configs=configs, url=url)
        print("written", time.monotonic())
        with ThreadPoolExecutor(2) as pool:
            for outputs in pool.map(lambda way: play(stage, way), ("direct", "environment")):
                stage.outputs |= outputs
        stage.outputs |= {f"postgresql: {table}": rows for table, rows in dump(connection)}
        stage.outputs |= {f"sqlite: {file.name}": file.read_bytes() for file in lite.iterdir()}
        stage.outputs |= {f"mail {number}": mail.content for number, mail in enumerate(world.mail.mails)}
        print("done", time.monotonic())
        yield stage


def play(stage: Stage, way: Way) -> dict[str, bytes]:
    """A daemon's life: everybody is asked and told, somebody looks at it, a reload goes wrong, it ends."""
    config, log, world = stage.configs[way], stage.world.folder / f"{way}.log", stage.world
    with listening(world.folder / f"{way}.sock") as told:
        environ = world.environ | {"NOTIFY_SOCKET": str(world.folder / f"{way}.sock")}
        with command(["serve", "--config", str(config)], environ, log) as process:
            address = wait_for(lambda: log.exists() and re.search(rb"serves (\S+)/metrics", log.read_bytes()), "its address")
            assert address
            T=time.monotonic(); print("up", way, T)
            await_all(world)
            print("all", time.monotonic())
            names = [each["name"] for each in json.loads(config.read_text())["comparisons"]]
            outputs = {f"{way}: page {page}": body for page, body in pages(address[1].decode(), names)}
            outputs |= process_of(process)
            reload_broken(process, config, log)
            process.terminate()
            process.join(30)
            assert process.exitcode == 0
    print("end", way, time.monotonic())
    return outputs | {f"{way}: log": log.read_bytes(), f"{way}: systemd": b"\n".join(told)}


def await_all(world: World) -> None:
    """Wait until every secret that ought to be sent was; those of both daemons are the same."""
    wanted = {owner for owner in owners_in("\n".join(world.environ.values())) if not NEVER_SENT.search(owner)}
    ends_at = time.monotonic() + 30
    while missing := wanted - {owner for _, owners in list(world.heard) for owner in owners}:
        assert time.monotonic() < ends_at, missing
        time.sleep(0.1)


def pages(url: str, names: list[str]) -> Iterator[tuple[str, bytes]]:
    for page in ("/", "/metrics", "/-/healthy", "/-/ready", *(f"/comparisons/{name}" for name in names)):
        answer = wait_for(partial(_got, url + page), page)
        assert answer is not None
        yield page, answer.content + repr(answer.headers).encode()


def _got(url: str) -> requests.Response | None:
    answer = requests.get(url, timeout=10)
    return answer if answer.status_code == 200 else None


def process_of(process: BaseProcess) -> dict[str, bytes]:
    """What `ps` shows of it."""
    home = Path(f"/proc/{process.pid}")
    return {f"{process.pid}: {part}": (home / part).read_bytes() for part in ("cmdline", "comm", "status")} | {
        f"{process.pid}: {task.name}": (task / "comm").read_bytes() for task in (home / "task").iterdir()
    }


def reload_broken(process: BaseProcess, config: Path, log: Path) -> None:
    assert process.pid
    config.write_text(broken(config.read_text())["misspelt"])
    os.kill(process.pid, signal.SIGHUP)
    wait_for(lambda: b"configuration not reloaded" in log.read_bytes(), "the reload that goes wrong")


def dump(connection: psycopg.Connection) -> Iterator[tuple[str, bytes]]:
    """Every row of every table."""
    found = connection.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'").fetchall()
    for (table,) in found:
        rows = connection.execute(sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table))).fetchall()
        yield table, "\n".join(row for (row,) in rows).encode()


def broken(text: str) -> dict[str, str]:
    """The configuration with a mistake at every secret."""
    key = re.compile(r'"(database|url|token|password|bearer_token|secret|routing_key|X-Key|one)((?:_file)?)":')
    last = text.rindex(canary("x")[:8]) if canary("x")[:8] in text else text.rindex('"url')
    return {
        "misspelt": key.sub(r'"\1x\2":', text),
        "of the wrong shape": re.sub(key.pattern + r' ("[^"]*")', r'"\1\2": [\3]', text),
        "no YAML": text[: last + 20],
    }


def test_no_output_of_a_daemon_holds_a_secret(stage: Stage) -> None:
    sung = {name: owners for name, output in stage.outputs.items() if (owners := owners_in(output))}
    assert sung == {}, print('X')
    assert {"direct: log", "environment: page /metrics", "sqlite: rankwatch.db", "sqlite: rankwatch.db.lock"} < set(stage.outputs)
    assert b"READY=1" in stage.outputs["direct: systemd"]
    assert all(stage.outputs[f"postgresql: {table}"] for table in ("runs", "transitions", "notifications"))


def test_each_secret_arrives_where_it_belongs_and_nowhere_else(stage: Stage) -> None:
    world = stage.world
    for path, owners in world.heard:
        assert len({PLACE.sub("", owner) for owner in owners}) == 1, (path, owners)
    assert world.secure.requests == []
    (signed, *_) = (each for each in world.hook.requests if canary("hookgoodpath") in each.path)
    assert verify(canary("hookgoodsecret"), signed.headers, signed.body, now=datetime.now(UTC))
    assert world.mail.mails
    assert all(mail.is_known for mail in world.mail.mails)
    assert "AUTH" in world.hostile_mail.steps
