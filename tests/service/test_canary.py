"""A canary in every place where a secret can stand, and every output walked: it sings where it must, and nowhere else."""

import json
import os
import re
import signal
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

import pandas as pd
import psycopg
import pytest
import requests
from psycopg import sql
from starlette.routing import Route

import published
from canary.marks import canary, options_in, owners_in, secret_fields, singing_fields, told_by
from canary.world import FAULTS, LOOKER, UNHEARD, Way, World, fill, hostile_world, singer
from commands import rankwatch
from factories import SLOT
from forking import ended, running
from messages import START
from monitor.model.errors import MonitorError
from monitor.model.runs import PullRequest
from monitor.receivers import verify_signature
from monitor.receivers.webhook import TIMESTAMP
from monitor.service.composition import open_wiring
from monitor.settings.configuration import Settings
from monitor.settings.loader import load_settings
from servers.daemon import find_address, wait_for
from storage.worked import store_at

pytestmark = [
    pytest.mark.early(100),
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(
        "ignore:'imghdr' is deprecated:DeprecationWarning"
    ),  # Apprise imports it
]

REFUSING = set(FAULTS) - {"odd", "lie"}
PLACE = re.compile("path$|query$|header$|token$|body$|deep$|password$")
NEVER_SENT = re.compile("secret$|proxy$|^sql|^spark|^redis|^database|^mail|" + "|".join(UNHEARD))


@dataclass
class Stage:
    """What is left when the daemon has ended: the world, the configurations and every output by its name."""

    world: World
    configs: Any
    url: str
    outputs: Any = field(default_factory=dict)


@pytest.fixture(scope="module")
def stage(tmp_path_factory, certificate, postgres_server):
    folder = tmp_path_factory.mktemp("canary")
    with (
        postgres_server.database() as plain,
        singer(postgres_server, plain) as url,
        psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection,
        hostile_world(folder, certificate) as world,
    ):
        fill(connection)
        configs = {way: world.write(way, database=url) for way in get_args(Way)}
        stage = Stage(
            world=world,
            configs=configs,
            url=url,
            outputs=play(world, configs["direct"], connection),
        )
        stage.outputs |= {f"postgresql: {table}": rows for table, rows in dump(connection)}
        stage.outputs |= {
            f"mail {number}": mail.content for number, mail in enumerate(world.mail.mails)
        }
        yield stage


def play(world, config, connection):
    """A daemon's life: everybody is asked and told, somebody looks at it, a reload goes wrong, it ends."""
    log = world.folder / "serve.log"
    with running(
        ["serve", "--config", str(config)], cwd=config.parent, env=world.environ, out=log
    ) as process:
        address = wait_for(partial(find_address, log), "its address")
        await_all(world)
        wait_for(
            lambda: connection.execute("SELECT FROM notifications").fetchone() is not None,
            "a message noted",
        )
        names = [each["name"] for each in json.loads(config.read_text())["comparisons"]]
        outputs = {f"page {page}": body for page, body in pages(address, names)}
        reload_broken(process, config, log)
        process.terminate()
        assert ended(process) == 0
    return outputs | {"log": log.read_bytes()}


def await_all(world):
    """Wait until every secret that ought to be sent was; the environment names all of them."""
    wanted = {
        owner
        for owner in owners_in("\n".join(world.environ.values()))
        if not NEVER_SENT.search(owner)
    }
    wait_for(
        lambda: wanted <= set().union(*[owners for _, owners in list(world.heard)]),
        "every secret",
    )


def pages(url, names):
    found = [
        route
        for route in published.pages().routes
        if isinstance(route, Route) and "GET" in (route.methods or ())
        if not route.path.startswith("/docs")  # the same files for everybody
    ]
    rows = requests.get(f"{url}/api/v1/comparisons", auth=LOOKER, timeout=60).json()["rows"]
    assert {row["comparison"] for row in rows} == set(names)
    shown = [
        {"name": row["comparison"], "slot": row["slot"], "user": "nobody", "key": "none"}
        for row in rows
    ]
    # All pages of one comparison, and of each other one that with the errors of its sources.
    wanted = [
        (route.path, each)
        for route in found
        for each in shown
        if each["name"] == "feed" or "/{name}" in route.path[-7:]
    ]
    for page in sorted({path.format(**each) for path, each in wanted}):
        answer = wait_for(partial(_got, url + page), page)
        yield page, answer
    refused = requests.get(
        f"{url}/metrics", auth=(canary("webuser"), canary("webguess")), timeout=60
    )
    assert refused.status_code == 401
    yield "that was refused", refused.content + repr(refused.headers).encode()


def _got(url):
    answer = requests.get(url, auth=LOOKER, timeout=60)
    return (
        answer.content + repr(answer.headers).encode()
        if answer.status_code in {200, 400, 404}
        else None
    )


def reload_broken(process, config, log):
    assert process.pid
    right = config.read_text()
    config.write_text(broken(right)["misspelt"])
    os.kill(process.pid, signal.SIGHUP)
    wait_for(
        lambda: b"configuration not reloaded" in log.read_bytes(), "the reload that goes wrong"
    )
    config.write_text(right)


def dump(connection):
    """Every row of every table."""
    found = connection.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    ).fetchall()
    for (table,) in found:
        rows = connection.execute(
            sql.SQL("SELECT t::text FROM {} AS t").format(sql.Identifier(table))
        ).fetchall()
        yield table, "\n".join(row for (row,) in rows).encode()


def broken(text):
    """The configuration with a mistake at every secret."""
    key = re.compile(
        r'"(database|url|token|password|bearer_token|secret|routing_key|X-Key|one)((?:_file)?)":'
    )
    return {
        "misspelt": key.sub(r'"\1x\2":', text),
        "of the wrong shape": re.sub(key.pattern + r' ("[^"]*")', r'"\1\2": [\3]', text),
    }


def test_no_output_of_a_daemon_contains_a_secret(stage):
    sung = {name: owners for name, output in stage.outputs.items() if (owners := owners_in(output))}
    assert not sung
    assert {"page /", "page /metrics", "page /c/http-refuse"} < set(stage.outputs)
    assert stage.outputs["log"]
    assert all(
        stage.outputs[f"postgresql: {table}"] for table in ("runs", "transitions", "notifications")
    )


def test_each_secret_arrives_where_it_belongs_and_nowhere_else(stage):
    world = stage.world
    heard = {}
    for path, owners in world.heard:
        places = {PLACE.sub("", owner) for owner in owners}
        assert len(places) <= 1, (path, owners)
        # A daemon that is ended may be cut off in the middle of a request.
        heard.setdefault(path.partition("&rid=")[0], set()).update(places)
    assert all(len(places) == 1 for places in heard.values()), heard
    assert not world.secure.requests
    (signed, *_) = (each for each in world.hook.requests if canary("hookgoodpath") in each.path)
    signed_at = datetime.fromtimestamp(int(signed.headers[TIMESTAMP]), UTC)
    assert verify_signature(canary("hookgoodsecret"), signed.headers, signed.body, now=signed_at)
    assert world.mail.mails
    assert all(mail.is_known for mail in world.mail.mails)
    assert "AUTH" in world.hostile_mail.steps


def loaded(stage, way, patch):
    for name, value in stage.world.environ.items():
        patch.setenv(name, value)
    return load_settings(stage.configs[way])


@pytest.mark.parametrize("way", get_args(Way))
def test_every_option_for_a_secret_has_one_in_this_configuration(stage, monkeypatch, way):
    assert singing_fields(loaded(stage, way, monkeypatch)) == secret_fields(Settings)


def test_no_repr_and_no_dump_of_settings_and_parts_contains_a_secret(stage, monkeypatch):
    settings = loaded(stage, "file", monkeypatch)
    shown = [
        text
        for each in options_in(settings)
        for text in (repr(each), str(each), repr(each.model_dump()))
    ]
    shown.append(settings.model_dump_json())
    with (
        closing(open_wiring(settings)) as wiring,
        store_at(settings.database) as store,
    ):
        parts = [
            *wiring.receivers,
            *wiring.pings,
            *wiring.watched.values(),
            store,
            store.database,
            wiring,
        ]
        shown += [text for part in parts for text in (repr(part), str(part))]
    assert not owners_in("\n".join(shown))


def test_no_error_of_a_receiver_or_source_contains_a_secret(stage, monkeypatch):
    settings = loaded(stage, "file", monkeypatch)
    with closing(open_wiring(settings)) as wiring:
        told = {
            each.name: error_of(partial(each.send, START, now=SLOT)) for each in wiring.receivers
        }
        for name, watched in wiring.watched.items():
            asked = PullRequest(users=pd.Index(["u1", "u2"]), k=5, slot=SLOT, timeout_s=2.0)
            told[name] = error_of(partial(watched.sources.candidate.pull, asked))
    assert {name for name, text in told.items() if "Error" in text} >= {
        f"hook-{way}" for way in REFUSING
    } | {"sql-wrong", "sql-odd"}
    assert not {name: owners for name, text in told.items() if (owners := owners_in(text))}


def error_of(act):
    """Everything that an action says: its answer, or all of its error, also as a log has it."""
    try:
        return repr(act())
    except MonitorError as error:
        return told_by(error)


def said(command, config):
    return rankwatch(f"{command} --config {config}")


def test_no_command_shows_a_secret_of_a_configuration_with_mistakes(stage, tmp_path):
    for mistake, text in broken(stage.configs["direct"].read_text()).items():
        config = tmp_path / f"{mistake}.yaml"
        config.write_text(text)
        assert owners_in(text)
        for name in ("serve", "check", "db upgrade"):
            done = said(name, config)
            assert done.returncode, name
            assert not owners_in(f"{done.stdout}{done.stderr}"), name


def test_commands_that_use_everything_print_no_secret(stage, monkeypatch):
    loaded(stage, "file", monkeypatch)
    for name in ("check", "notify test", "runs", "show feed", "alerts ls"):
        done = said(name, stage.configs["file"])
        assert done.stdout
        assert not owners_in(f"{done.stdout}{done.stderr}"), name
