"""Faults in which other programs quote users' ids. With `privacy: users: hmac`, no output has an id, and each names its cause.

`make faults` prints them as a table.
"""

import json
import re
from contextlib import ExitStack
from functools import partial
from urllib.request import urlopen

import pandas as pd
import pytest
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from canary import private_faults
from canary.marks import songs_in
from canary.private_faults import USER, Planter
from commands import rankwatch
from forking import running
from monitor.service import message_pictures
from monitor.service.commands import one_shot
from servers.certificates import self_signed
from servers.daemon import find_address, wait_for
from servers.smtp import running_mail_server
from servers.webhook import answer, running_webhook

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


def play(config, name, environ):
    """Run, notify, check and export every comparison, show one, and open the daemon's pages."""
    textfile = config.with_name("rankwatch.prom")
    for command in (
        f"run-once --textfile {textfile}",
        f"run-once {name} --json",
        "check",
        f"show {name}",
    ):
        done = rankwatch(f"{command} --config {config}", env=environ)
        yield command, f"{done.stdout}\n{done.stderr}".encode()
    yield "textfile", textfile.read_bytes()
    yield from look(config, environ)


def look(config, environ):
    """The pages of a daemon, and its log."""
    log = config.with_suffix(".log")
    log.unlink(missing_ok=True)
    command, before = ["serve", "--config", str(config)], private_faults.send_pictures_as_text
    with running(command, cwd=config.parent, out=log, env=environ, before=before):
        address = wait_for(partial(find_address, log), "its address")
        names = [each["name"] for each in json.loads(config.read_text())["comparisons"]]
        paths = ["/", "/metrics", "/alerts", *(f"/c/{name}" for name in names)]
        for path in paths:
            with urlopen(address + path, timeout=60) as response:
                yield f"page {path}", response.read()
    yield "log", log.read_bytes()


def stored(url):
    """Every table."""
    engine = sa.create_engine(url)
    names = sa.inspect(engine).get_table_names()
    tables = {name: pd.read_sql_table(name, engine) for name in names}
    engine.dispose()
    return tables


@pytest.mark.slow
def test_no_output_holds_the_id_of_a_user_and_each_run_names_the_cause_that_was_planted(
    tmp_path, postgres_server, monkeypatch
):
    monkeypatch.setattr(message_pictures, "_draw_png", None)  # put back at the end
    monkeypatch.setattr(one_shot, "DRAIN_S", 10.0)  # some receivers never accept a message
    private_faults.send_pictures_as_text()
    outputs = {}
    said = {}
    with ExitStack() as servers:
        planted = plant(tmp_path, servers, postgres_server)
        faults, certificate = planted.faults, self_signed(tmp_path)
        collector, mails = servers.enter_context(running_webhook()), {}
        collector.respond = receive
        for way in ("good", "refuse"):
            mails[way] = servers.enter_context(running_mail_server(certificate))
        mails["refuse"].by_recipient["kim@x.test"] = f"550 5.1.1 {USER} is unknown"
        ports = {way: mail.port for way, mail in mails.items()}
        of_postgres = servers.enter_context(postgres_server.database())
        of_sqlite = f"sqlite:///{tmp_path / 'rankwatch.db'}"
        # Every fault with one receiver, and one fault of each kind of source with all receivers.
        chosen = [*{fault.name.partition("-")[0]: fault for fault in faults}.values()]
        for url, tried, receivers in ((of_sqlite, faults, 1), (of_postgres, chosen, None)):
            config = private_faults.write_config(
                tmp_path, tried, url, collector.url, ports, receivers
            )
            played = dict(play(config, tried[-1].name, planted.environ))
            tables = stored(url)
            played |= {name: table.to_csv().encode() for name, table in tables.items()}
            outputs |= {f"{len(tried)} {name}": output for name, output in played.items()}
            said |= tables["runs"].fillna("").set_index("comparison")["reason"].to_dict()
    outputs |= {file.name: file.read_bytes() for file in tmp_path.glob("rankwatch.db*")}
    for number, mail in enumerate(mails["good"].mails):
        outputs[f"message by mail {number}"] = mail.content
    for number, request in enumerate(collector.requests):
        body = f"{request.headers}\n".encode() + request.body
        outputs[f"message {number} to {request.path}"] = body

    assert len(faults) >= LEAST
    assert all(output for name, output in outputs.items() if "page" in name or "message" in name)
    assert "message by mail 0" in outputs
    assert "RCPT" in mails["refuse"].steps
    for place in ("/hook", "/slack", "/alerts", "/pager", "/ping/fail", "/good", "/refuse"):
        assert any(f" to {place}" in name for name in outputs), place
    leaks = {name: songs for name, output in outputs.items() if (songs := songs_in(output))}
    assert not leaks, leaks
    table, wrong = Table("fault", "what is said"), []
    for fault in faults:
        reason = said.get(fault.name, "no run")
        table.add_row(fault.name, reason.partition("; the baseline")[0])
        if not re.search(fault.told, reason):
            wrong.append((fault.name, fault.told, reason))
    Console(width=170).print(table)
    assert not wrong, json.dumps(wrong, indent=1)
