"""Ten outages through one `run-once` and real servers: the message and `show` name the cause, word by word."""

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from forking import rankwatch
from servers.certificates import self_signed
from servers.recommender import Recommender, running_recommender
from servers.webhook import Collector

SLOT = "2024-01-08T00:00:00Z"
ONCE = "retries: 0"
NONE, SUCH = "the run failed: none of 8 users could be compared", "such as {users}"
DOWN = f"8 server_error ({{host}}: status 503 Service Unavailable; {SUCH})"
SLOW = "slow (N s a user, N were asked), so that the run's deadline passed after N s"
HALF = "the candidate failed to answer for 4 of 8 users (0.5), above 0.2"
UNTRUSTED = "its TLS certificate is not trusted (self-signed certificate): set ca_file for authorities of your own"
# By comparison: how the candidate behaves and is asked, and what is said of it: {host} is its address, {users} the first five.
OUTAGES: dict[str, tuple[str, str, str]] = {
    "status503": ("unavailable", ONCE, f"{NONE} (candidate: {DOWN})"),
    "status429": ("limited", ONCE, f"{NONE} (candidate: 8 rate_limited ({{host}}: status 429 Too Many Requests; {SUCH}))"),
    "timeout": (
        "slow",
        "retries: 0, timeout: 500ms",
        f"{NONE} (candidate: 8 timeout ({{host}}: time-out: no answer within 0.5 s; {SUCH}))",
    ),
    "deadline": ("slow", "timeout: 1m", f"{NONE} (candidate: 8 timeout ({{host}}: {SLOW}; {SUCH}))"),
    "dns": ("", ONCE, f"{NONE} (candidate: 8 unreachable (recs.invalid: DNS does not know this host's name; {SUCH}))"),
    "tls": ("ok", ONCE, f"{NONE} (candidate: 8 unreachable ({{host}}: {UNTRUSTED}; {SUCH}))"),
    "json": ("html", ONCE, f"{NONE} (candidate: 8 malformed ({{host}}: the answer is no JSON but HTML; {SUCH}))"),
    "half": ("unavailable", ONCE, f"{HALF}: candidate: 4{DOWN[1:]}"),
    "slow": ("slow", "timeout: 1m", f"{HALF}: candidate: 4 timeout ({{host}}: {SLOW}; {SUCH})"),
    "both": ("unavailable", ONCE, f"{NONE} (baseline: {DOWN.replace('host', 'other')}; candidate: {DOWN})"),
}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, Recommender]]:
    """The baseline, the candidate, and one whose certificate it signed itself."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(self_signed(tmp_path))
    with ExitStack() as running:
        made = {"baseline": None, "candidate": None, "tls": context}
        yield {name: running.enter_context(running_recommender(tls)) for name, tls in made.items()}


def users_of(name: str) -> list[str]:
    return [f"{name}-{number}" for number in range(8)]


def failing(name: str) -> list[str]:
    return users_of(name)[::2] if name in ("half", "slow") else users_of(name)


def configure(folder: Path, servers: dict[str, Recommender], hook: str) -> None:
    """One comparison an outage, each with users of its own, by whom the servers know how to behave."""
    text = f"database: sqlite:///rankwatch.db\nconditions: {{error: {{for: 1}}}}\nreceivers: [{{webhook: {{url: {hook}}}}}]\n"
    text += "comparisons:\n"
    for name, (behaviour, how, _) in OUTAGES.items():
        users = users_of(name)
        (folder / f"{name}.csv").write_text("user\n" + "\n".join(users))
        servers["candidate"].behaviour |= dict.fromkeys(failing(name), behaviour)
        servers["baseline"].behaviour |= dict.fromkeys(users if name == "both" else (), behaviour)
        candidate = "http://recs.invalid/{user}" if name == "dns" else servers["tls" if name == "tls" else "candidate"].url
        text += f"""
  - name: {name}
    every: 1d
    deadline: {"2s" if name in ("deadline", "slow") else "1m"}
    min_paired_share: 0.1
    baseline: {{http: {{url: "{servers["baseline"].url}", {ONCE}}}}}
    candidate: {{http: {{url: "{candidate}", {how}}}}}
    users: {{file: {{path: {name}.csv, user: user}}}}
    rules: [{{alert: Unanswered, coverage: failed(candidate), above: 0.2, min_users: 1}}]
"""
    (folder / "rankwatch.yaml").write_text(text)


def expected(name: str, servers: dict[str, Recommender]) -> str:
    """What is said of the outage, without figures of the machine's pace."""
    hosts = {arm: f"127.0.0.1:{server.port}" for arm, server in servers.items()}
    host = hosts["tls" if name == "tls" else "candidate"]
    return OUTAGES[name][2].format(host=host, other=hosts["baseline"], users=", ".join(failing(name)[:5]))


def without_pace(text: str) -> str:
    return re.sub(r"\(.{1,9} s a user, \d+ were", "(N s a user, N were", re.sub(r"after [\d.]+ s", "after N s", text))


def test_a_message_and_show_name_the_cause_of_an_outage(
    tmp_path: Path, servers: dict[str, Recommender], collector: Collector
) -> None:
    configure(tmp_path, servers, f"{collector.url}/hook")

    assert rankwatch("run-once", "--slot", SLOT, cwd=tmp_path).returncode == 3

    alerts = [alert for request in collector.requests for alert in json.loads(request.body)["alerts"]]
    said = {alert["labels"]["comparison"]: alert["annotations"]["reason"] for alert in alerts}
    assert {name: without_pace(text) for name, text in said.items()} == {name: expected(name, servers) for name in OUTAGES}
    assert said["json"].removeprefix("the run failed: ") in rankwatch("show", "json", cwd=tmp_path).stdout
