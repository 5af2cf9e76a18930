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
NONE, SUCH = "gave no list for 8 of 8 users", "(such as {users})"
WELL = "the baseline answered 8 of 8"
NOTHING = f"{WELL}; nothing could be compared"
DOWN = "{host} answered 503 Service Unavailable"
LATE = "when the run's deadline passed, N s after the first was asked"
OTHERS = "(the others had theirs after N s in the median)"
HALF = "the candidate failed to answer for 4 of 8 users (50 %), more than the 20 % allowed"
UNTRUSTED = "has a TLS certificate that rankwatch does not trust (self-signed certificate): set ca_file if it is yours"
MUTE = "{host} gave no answer within 0.5 s, the timeout of a request"
HTML = "{host} answered 200 with HTML (content type text/html), not JSON"
# By comparison: how the candidate behaves and is asked, and what is said of it: {host} is its address, {users} the first five.
OUTAGES: dict[str, tuple[str, str, str]] = {
    "status503": ("unavailable", ONCE, f"the candidate {NONE}: {DOWN} {SUCH}; {NOTHING}"),
    "status429": ("limited", ONCE, f"the candidate {NONE}: {{host}} answered 429 Too Many Requests {SUCH}; {NOTHING}"),
    "timeout": ("slow", f"{ONCE}, timeout: 500ms", f"the candidate {NONE}: {MUTE} {SUCH}; {NOTHING}"),
    "deadline": (
        "slow",
        "timeout: 1m",
        f"the candidate {NONE}: {{host}} left 8 of 8 users without an answer {LATE} {SUCH}; {NOTHING}",
    ),
    "dns": ("", ONCE, f"the candidate {NONE}: recs.invalid is a name that DNS could not resolve {SUCH}; {NOTHING}"),
    "tls": ("ok", ONCE, f"the candidate {NONE}: {{host}} {UNTRUSTED} {SUCH}; {NOTHING}"),
    "json": ("html", ONCE, f"the candidate {NONE}: {HTML} {SUCH}; {NOTHING}"),
    "half": ("unavailable", ONCE, f"{HALF}: {DOWN} (users: {{users}}); {WELL}"),
    "slow": (
        "slow",
        "timeout: 1m",
        f"{HALF}: {{host}} left 4 of 8 users without an answer {OTHERS} {LATE} (users: {{users}}); {WELL}",
    ),
    "both": (
        "unavailable",
        ONCE,
        f"the baseline {NONE}: {{other}}{DOWN[6:]} {SUCH}; the candidate {NONE}: {DOWN} {SUCH}; nothing could be compared",
    ),
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
    deadline: {"4s" if name in ("deadline", "slow") else "1m"}
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
    return re.sub(r"after [\d.e-]+ s in", "after N s in", re.sub(r"passed, [\d.]+ s", "passed, N s", text))


def test_a_message_and_show_name_the_cause_of_an_outage(
    tmp_path: Path, servers: dict[str, Recommender], collector: Collector
) -> None:
    configure(tmp_path, servers, f"{collector.url}/hook")

    assert rankwatch("run-once", "--slot", SLOT, cwd=tmp_path).returncode == 3

    alerts = [alert for request in collector.requests for alert in json.loads(request.body)["alerts"]]
    said = {alert["labels"]["comparison"]: alert["annotations"]["reason"] for alert in alerts}
    assert {name: without_pace(text) for name, text in said.items()} == {name: expected(name, servers) for name in OUTAGES}
    assert said["json"] in rankwatch("show", "json", cwd=tmp_path).stdout
