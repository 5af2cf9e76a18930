"""A daemon's life with users who go by keyed hashes: whatever it stores, shows, sends, writes or logs, no id stands in it."""

import io
import json
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
import pytest
import requests
from typer.testing import CliRunner

from monitor.cli.main import app
from monitor.measures.reading.ids import MAX_ID_LENGTH
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.service import logs
from servers.daemon import wait_for
from servers.webhook import running_webhook
from service.stepped_daemon import watching

pytestmark = pytest.mark.integration

NEEDLE = "somebodysname"
ODD = [
    "<b onclick=x>",
    "\u202e\u200f",
    "\u0007\u001b[31m",
    "a/b\\..%2f?&#",
    "x" * 10_000,
    "",
    "'\"",
    "ü\u00a0",
]
USERS = [f"{NEEDLE}{odd}{number}" for number, odd in enumerate(ODD * 2)]
ITEM = "somethingsold"
KEY = b"0123456789abcdef0123456789abcdef"
SECRET = Pseudonyms(KEY)


@dataclass
class Life:
    """What is left of a daemon's life: every output by its name, and the messages."""

    outputs: Any
    messages: Any


CONFIG = """
database: sqlite:///rankwatch.db
listen: 127.0.0.1:0
privacy: {users: hmac, key_file: users.key, items: hidden}
receivers: [webhook: {url: URL/hook}]
comparisons:
  - name: feed
    every: 1d
    k: 5
    metrics: [rbo, ndcg]
    relevance: {file: {path: baseline.jsonl, user: user, max_unreadable: 1, items: items}}
    keep_lists: all
    rules: [{alert: SimilarityLow, metric: rbo, below: 0.5, for: 1, min_users: 1}]
    baseline: {file: {path: baseline.jsonl, user: user, max_unreadable: 1, items: items}}
    candidate: {file: {path: candidate.jsonl, user: user, max_unreadable: 1, items: items}}
    users: {all: true}
    scores_to: {file: {path: "scores-{slot:%Y%m%dT%H%M%S}.parquet"}}
"""


def write_world(folder, url):
    """Lists, relevance and scores in files."""
    for arm in ("baseline", "candidate"):
        rows = [{"user": user, "items": [f"{ITEM}-{arm}-{n}" for n in range(5)]} for user in USERS]
        (folder / f"{arm}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "users.key").write_bytes(KEY + b"\n")
    (folder / "users.key").chmod(0o600)
    path = folder / "rankwatch.yaml"
    path.write_text(CONFIG.replace("URL", url))
    return path


def _points(url):
    return got(f"{url}/api/v1/comparisons/feed").json()["points"]


def got(url):
    return requests.get(url, timeout=60)


def _pages(url):
    """Every page of the comparison and of each user, found by the id, as HTML and as JSON."""
    keys = [each["incident"] for each in got(f"{url}/api/v1/alerts").json()["firing_incidents"]]
    assert keys
    below = ["", "/alerts", "/daemon", *(f"/alerts/{key}" for key in keys)]
    slots = [each["slot"] for each in _points(url)]
    below += ["/c/feed", *(f"/c/feed/runs/{slot}" for slot in slots[:2])]
    below += [f"/c/feed/users?id={quote(user, safe='')}&slot={slots[0]}" for user in USERS]
    below += [f"/c/feed/users/{quote(NEEDLE)}-nobody"]
    html = [path or "/" for path in below]
    api = [f"/api/v1{path.replace('/c/', '/comparisons/') or '/comparisons'}" for path in below]
    for path in [*html, *api, "/metrics", "/api/v1/openapi.json"]:
        page = got(url + path)
        assert page.status_code in {200, 404}, (path, page.text[:300])
        yield f"page {path} {page.status_code}", page.content


def _commands(config):
    report = f"report feed -o {config.with_name('feed.html')}"
    shown = "show feed", "show feed --json", "check --json", "runs --json", "alerts --json"
    for command in (*shown, report, "check"):
        yield _command(config, *command.split())


def _command(config, *words):
    done = CliRunner().invoke(app, [*words, "--config", str(config)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return f"command {' '.join(words)}", done.output.encode()


def _stored(folder):
    """Every row of every table, lists and scores read, and every file that was written."""
    with closing(sqlite3.connect(folder / "rankwatch.db")) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        for table in tables:
            rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
            yield (
                f"table {table}",
                "\n".join(_opened(cell) for row in rows for cell in row).encode(),
            )
    written = [*folder.glob("scores-*.parquet")]
    assert written
    for file in written:
        yield file.name, repr(pq.read_table(file).to_pylist()).encode()
    for file in folder.glob("*.html"):
        yield file.name, file.read_bytes()


def _opened(cell):
    if isinstance(cell, bytes) and cell.startswith(b"PAR1"):
        return repr(pq.read_table(io.BytesIO(cell)).to_pylist())
    return repr(cell)


@pytest.fixture(scope="module")
def life(tmp_path_factory):
    folder = tmp_path_factory.mktemp("privacy")
    with running_webhook() as hook:
        config = write_world(folder, hook.url)
        outputs = dict([_command(config, "run-once", "--slot", "2026-03-09", "--json")])
        log = io.StringIO()
        logs.configure_logs("json", "debug", log)
        with watching(config) as watched:
            wait_for(lambda: len(_points(watched.daemon.url)) > 1, "two runs")
            outputs |= dict(_pages(watched.daemon.url))
        outputs |= (
            {"log": log.getvalue().encode()} | dict(_commands(config)) | dict(_stored(folder))
        )
        (folder / "users.key").chmod(0o644)
        _, outputs["check of a key that others may read"] = _command(config, "check")
        life = Life(outputs, [each.body for each in hook.requests])
    life.outputs |= {f"message {number}": body for number, body in enumerate(life.messages)}
    return life


def test_no_id_is_stored_shown_sent_written_or_logged(life):
    assert len(life.outputs) > 2 * len(USERS)
    assert life.outputs["log"]
    holding = [
        name
        for name, content in life.outputs.items()
        if NEEDLE in unquote(content.decode(errors="replace"))
    ]
    assert not holding
    assert all(KEY not in content for content in life.outputs.values())


def test_pseudonyms_are_stored_and_shown_instead(life):
    hidden = set(
        SECRET.hide(user for user in USERS if len(user) < MAX_ID_LENGTH)
    )  # longer ones are nobody

    def told(name):
        return set(re.findall("hmac-[0-9a-f]{32}", life.outputs[name].decode()))

    assert told("table scores") == hidden
    assert told("table kept_lists") == hidden
    for name in (
        "table evidence",
        "table explanations",
        "command show feed --json",
        "command check",
        "feed.html",
    ):
        assert set() != told(name) <= hidden, name


def test_a_user_is_found_by_id(life):
    shown = [
        json.loads(body)
        for page, body in life.outputs.items()
        if "/comparisons/feed/users?" in page and page.endswith(" 200")
    ]
    assert {each["user"] for each in shown} <= set(SECRET.hide(USERS))
    assert len(shown) >= 8
    assert all(each["lists"] for each in shown)


def test_hidden_items_are_on_pages_and_in_no_message(life):
    assert life.messages
    assert all(ITEM.encode() not in body for body in life.messages)
    assert any(ITEM.encode() in body for page, body in life.outputs.items() if "/runs/" in page)


def test_check_mentions_earlier_plain_ids_and_a_readable_key(life):
    said = life.outputs["command check"].decode()
    assert (
        "privacy: user ids are stored as keyed hashes. Plain ids that were stored before stay "
        "until retention deletes them"
    ) in said
    assert "so every account" not in said
    assert (
        "users.key has mode 0644, so every account"
        in life.outputs["check of a key that others may read"].decode()
    )
