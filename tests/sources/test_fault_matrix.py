"""Faults of each kind of source, with real servers, and their messages. ``make faults`` prints them."""

import gzip
import json
import os
import re
import socketserver
import ssl
import threading
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
import yaml
from structlog.testing import capture_logs

from forking import rankwatch
from memory import with_peak_mb
from monitor.model.immutable import immutable
from monitor.model.runs import RunResult, RunStatus
from monitor.pipeline.pull import SOURCE_GRACE_S
from monitor.service.commands.one_shot import open_one_shot
from monitor.sources import SOURCES
from monitor.sources.http.pace import PullPace
from servers import free_port, hanging_name, listening
from servers.certificates import found
from servers.proxy import proxying
from servers.recommender import running_recommender
from servers.redis import PASSWORD, emptied_redis, shared_redis
from servers.webhook import running_webhook
from sources.file.test_hostile import long_users

SLOT = datetime(2024, 1, 8, tzinfo=UTC)
USERS = [f"u{number}" for number in range(8)]
LINE = b'{"user": "another", "items": [1]}\n'
SLACK_S = 60.0
"""A busy machine's."""
NONE = ("gave no list for 8 of 8 users", "; nothing could be compared")
HALF = (
    r"gave no usable answer for 4 of 8 users \(50 %\)",
    "; for example u0, u2, u4, u6; more than the 20 % allowed",
)


@immutable
class Cell:
    """One fault of one kind, see faults.yaml. ``most_mb``: the process may grow by so much."""

    fault: str
    kind: str
    candidate: Any = field(default_factory=dict)
    told: str = ""
    lost: int = 8
    both: bool = False
    deadline_s: int = 20
    most_mb: int = 64

    @property
    def name(self):
        return f"{self.kind}-{self.fault.replace(' ', '-').lower()}"

    @property
    def message(self):
        """All that is said, as a pattern: the host or path, and example users where not everybody is concerned."""
        lost, end = HALF if self.lost == 4 else NONE
        end = rf"(; the run's deadline is \d+s)?{end}"  # if users had no answer in time
        arm = rf"{lost}: (?=.*(127\.0\.0\.1|\.invalid|/)).*{self.told}.*"
        if self.both:
            return f"both arms failed, so look for a common cause: the baseline {arm}; the candidate {arm}{end}"
        return f"the candidate {arm}; the baseline answered 8 of 8{end}"


def write_files(folder, ended):
    """One of them grows until the end."""
    lines = "".join(json.dumps({"user": user, "items": [1, 2]}) + "\n" for user in USERS).encode()
    contents = {
        "rubbish.parquet": b"rubbish\n" * 100,
        "empty.db": b"",
        "long.jsonl": b'{"user": "' + b"x" * 2**25,
        "cut.jsonl.gz": gzip.compress(lines)[:-9],
        "growing.jsonl": lines + LINE * 200_000,
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name, items in {"single": [1] * 8, "fraction": [[1.5]] * 8}.items():
        pq.write_table(pa.table({"user": USERS, "items": items}), folder / f"{name}.parquet")
    long_users(folder / "bomb.parquet")
    os.mkfifo(folder / "pipe.csv")

    def grow():
        while not ended.wait(0.001):
            with (folder / "growing.jsonl").open("ab") as file:
                file.write(LINE)

    threading.Thread(target=grow, daemon=True).start()


def make_faults(running, folder, postgres):
    """All cells, with their servers up."""
    client, ended = running.enter_context(emptied_redis()), threading.Event()
    client.mset(
        {f"good:{user}": "[1, 2]" for user in USERS}
        | {f"long:{user}": f"[{'1,' * 70_000}1]" for user in USERS}
    )
    running.callback(ended.set)
    write_files(folder, ended)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = found(folder, "authority").issue("elsewhere", "DNS:elsewhere.test")
    tls.load_cert_chain(pair.cert, pair.key)

    def proxied(port, fault, *how):
        proxy = running.enter_context(proxying(port or 0))
        getattr(proxy, fault)(*how)
        return proxy.port

    def replying(reply):
        """The port of what answers anything so, and ends the connection."""

        def answer(asked, *_):
            asked.recv(65536)
            asked.sendall(reply.encode())

        running.enter_context(
            listening(server := socketserver.ThreadingTCPServer(("127.0.0.1", 0), answer))
        )
        return int(server.server_address[1])

    def http(behaviour="ok", step=1, **more):
        recommender = running.enter_context(running_recommender())
        recommender.behaviour.update(dict.fromkeys(USERS[::step], behaviour))
        return {"url": recommender.url, "retries": 0, **more}

    def redis(at="", reply="", **more):
        at = at or f"127.0.0.1:{shared_redis()}"
        if reply:
            at = f":{PASSWORD}@127.0.0.1:{replying(reply)}"
        return {"url": f"redis://{at}", "type": "string", "key": "good:{user}", **more}

    def sql(what="'[1]'", users="generate_series(0, 7)", reply="", server=(), **more):
        query = f"SELECT 'u' || n AS who, {what} AS what FROM {users} n"
        changed = postgres.set(**dict(server))
        if reply:
            changed = postgres.set(port=replying(reply))
        url = changed.render_as_string(hide_password=False)
        return {"url": url, "query": query, "user": "who", "items": "what", **more}

    def file(name):
        return {"path": str(folder / name), "user": "user", "items": "items"}

    names = {
        "folder": folder,
        "hanging": running.enter_context(hanging_name()),
        "misnamed": running.enter_context(running_recommender(tls)).port,
        "nobody": free_port(),
        "password": PASSWORD,
        "postgres_hangs": proxied(postgres.port, "hang"),
        "redis_hangs": proxied(shared_redis(), "hang"),
        "redis_trickles": proxied(shared_redis(), "slow", 1.0),
    }
    text = Template(Path(__file__).with_name("faults.yaml").read_text()).safe_substitute(names)
    makers: Any = {"http": http, "redis": redis, "sql": sql, "file": file}
    cells = [Cell(**each) for each in yaml.safe_load(text)]
    return [replace(cell, candidate=makers[cell.kind](**cell.candidate)) for cell in cells]


CONFIG = """
database: sqlite:///rankwatch.db
conditions: {error: {for: 1}}
receivers: [{webhook: {url: $hook}}]
comparisons:
  every: 1d
  k: 2
  min_paired_share: 0.1
  metrics: [extended_tau]
  users: {file: {path: users.csv, user: user}}
  baseline: {http: {url: $baseline}}
  rules: [{alert: Unanswered, coverage: failed(candidate), above: 0.2, min_users: 1}]
"""


def write_config(folder, cells, baseline, hook):
    """A comparison a cell."""
    (folder / "users.csv").write_text("\n".join(["user", *USERS]))
    config = yaml.safe_load(Template(CONFIG).substitute(baseline=json.dumps(baseline), hook=hook))
    common, config["comparisons"] = config["comparisons"], []
    for cell in cells:
        candidate = {cell.kind: cell.candidate}
        own = {"name": cell.name, "deadline": f"{cell.deadline_s}s", "candidate": candidate}
        if cell.both:
            own["baseline"] = candidate
        config["comparisons"].append(common | own)
    path = folder / "rankwatch.yaml"
    path.write_text(json.dumps(config))
    return path


@pytest.mark.early(20)
def test_a_fault_is_reported_with_its_cause_in_time_and_in_little_memory(
    postgres_url, recommender, tmp_path
):
    with ExitStack() as running:
        collector = running.enter_context(running_webhook())
        cells = make_faults(running, tmp_path, sa.make_url(postgres_url))
        config = write_config(tmp_path, cells, recommender.url, collector.url)
        running.enter_context(capture_logs())
        # However busy this machine is, it takes no blame from a source.
        running.enter_context(pytest.MonkeyPatch.context()).setattr(
            PullPace, "busy", lambda *_, **__: None
        )
        service = running.enter_context(open_one_shot(config, reconciles=True))
        runs = [with_peak_mb(partial(list, service.run_once(cell.name, SLOT))) for cell in cells]
        service.deliver()
    said = {
        alert["labels"]["comparison"]: alert["annotations"]["reason"]
        for request in collector.requests
        for alert in request.json()["alerts"]
    }

    assert {cell.kind for cell in cells if cell.fault == "down"} == {
        kind for kind, each in SOURCES.items() if each.is_pulled
    }
    wrong = []
    for cell, ((run,), peak_mb) in zip(cells, runs, strict=True):
        assert isinstance(run, RunResult), run
        told = said.get(cell.name, "")
        took_s = (run.finished_at - run.claim.started_at).total_seconds()
        told_of = f"{cell.name}, {run.status}, {took_s:.1f} s, {peak_mb:.0f} MB more: {told}"
        print(told_of)  # noqa: T201 - what `make faults` shows
        is_right = (
            re.fullmatch(cell.message if cell.told else "", told)
            and len(told) < 600
            and took_s < cell.deadline_s + SOURCE_GRACE_S + SLACK_S
            and peak_mb < cell.most_mb
            and "canary" not in told
            and (run.status is RunStatus.FAILED) is (cell.lost == 8)
        )
        if not is_right:
            wrong.append(told_of)
    assert not wrong
    assert said["http-garbage"] in rankwatch("show", "http-garbage", cwd=tmp_path).stdout
