"""Faults in which other programs quote users' ids, with `privacy: users: hmac`: no output holds one, and each names its cause.

`make faults` prints them as a table.
"""

import json
import re
from contextlib import ExitStack, contextmanager
from urllib.request import urlopen

import pandas as pd
import pytest
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from canary import private_faults
from canary.marks import songs_in
from canary.private_faults import USER, Planter
from forking import rankwatch, running
from servers.certificates import self_signed
from servers.daemon import wait_for
from servers.smtp import serve as serve_mail
from servers.webhook import answer, serve

pytestmark = pytest.mark.integration
LEAST = 60
"""Faults that must be tried."""


def plant(folder, servers, postgres):
    """All faults, with their servers up."""
    planter = Planter(folder, servers)
    (folder / "baseline.jsonl").write_text(private_faults.JSON_LISTS)
    private_faults.plant_in_files(planter)
    url = private_faults.plant_in_sqlite(planter)
    private_faults.plant_in_postgres(planter, servers.enter_context(postgres.database()))
    private_faults.plant_in_mariadb(planter)
    private_faults.plant_in_store(planter)
    private_faults.plant_in_redis(planter)
    private_faults.plant_in_http(planter)
    private_faults.plant_in_users(planter, url)
    return planter


def receive(request):
    """Take a message, or refuse it and quote a user."""
    if "refuse" in request.path:
        return answer(400, {"X-Why": USER}, f"{USER} is unknown".encode())
    return answer(200, body=b'{"status": "success"}' if "pager" in request.path else b"ok")


def play(planter, database):
    """Every fault is run and told to receivers, checked, shown, exported, and looked at on the daemon's pages."""
    folder, faults, certificate = planter.folder, planter.faults, self_signed(planter.folder)
    with ExitStack() as servers:
        collector = servers.enter_context(contextmanager(serve)())
        collector.respond = receive
        mails = {
            way: servers.enter_context(contextmanager(serve_mail)(certificate))
            for way in ("good", "refuse")
        }
        mails["refuse"].by_recipient["kim@x.test"] = f"550 5.1.1 {USER} is unknown"
        ports = {way: mail.port for way, mail in mails.items()}
        config = private_faults.write_config(folder, faults, database, collector.url, ports)
        name, textfile = faults[0].name, folder / "rankwatch.prom"
        outputs: dict[str, bytes] = {}
        for command in (
            f"run-once --textfile {textfile}",
            f"run-once {name} --json",
            "check",
            f"show {name}",
        ):
            words = (*command.split(), "--config", str(config))
            done = rankwatch(*words, cwd=folder, env=planter.environ, timeout_s=400)
            outputs[command] = f"{done.stdout}\n{done.stderr}".encode()
        outputs["textfile"] = textfile.read_bytes()
        outputs |= dict(look(config, faults))
        for number, mail in enumerate(mails["good"].mails):
            outputs[f"message by mail {number}"] = mail.content
        assert mails["good"].mails
        assert "RCPT" in mails["refuse"].steps
        for number, request in enumerate(collector.requests):
            outputs[f"message {number}"] = f"{request.headers}\n".encode() + request.body
        for place in ("/hook", "/slack", "/alerts", "/pager", "/ping/fail", "/good", "/refuse"):
            assert any(request.path.startswith(place) for request in collector.requests), place
    return outputs


def look(config, faults):
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
            with urlopen(found[1].decode() + path, timeout=60) as response:
                yield f"page {path}", response.read()
    yield "log", log.read_bytes()


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_no_output_holds_the_id_of_a_user_and_each_run_names_the_cause_that_was_planted(
    database, tmp_path, postgres_server
):
    url = f"sqlite:///{tmp_path / 'rankwatch.db'}"
    with ExitStack() as servers:
        planted = plant(tmp_path, servers, postgres_server)
        if database == "postgresql":
            url = servers.enter_context(postgres_server.database())
        outputs = play(planted, url)
        engine = sa.create_engine(url)
        servers.callback(engine.dispose)
        tables = {
            name: pd.read_sql_table(name, engine) for name in sa.inspect(engine).get_table_names()
        }
    assert len(planted.faults) >= LEAST
    assert all(output for name, output in outputs.items() if "page" in name or "message" in name)
    outputs |= {name: table.to_csv().encode() for name, table in tables.items()}
    outputs |= {file.name: file.read_bytes() for file in tmp_path.glob("rankwatch.db*")}
    runs = tables["runs"].fillna("").set_index("comparison")["reason"].to_dict()

    leaks = {name: songs for name, output in outputs.items() if (songs := songs_in(output))}
    assert not leaks, leaks
    table, wrong = Table("fault", "what is said"), []
    for fault in planted.faults:
        said = runs.get(fault.name, "no run")
        table.add_row(fault.name, said.partition("; the baseline")[0])
        if not re.search(fault.told, said):
            wrong.append((fault.name, fault.told, said))
    Console(width=170).print(table)
    assert not wrong, json.dumps(wrong, indent=1)
