"""Kills at any moment, while receivers refuse messages, cut connections or answer slowly. Counts what must never happen."""

import random
import threading
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import asdict, astuple, dataclass, field
from itertools import pairwise
from typing import Any

from sqlalchemy import text

from forking import ended
from killing.steps import dying_daemon
from monitor.model.alerts import State
from monitor.model.notifications import DeliveryStatus
from servers.daemon import wait_for
from servers.webhook import Collector, answer, disconnect, running_webhook
from service.lists_world import APART, SIMILAR, write_lists
from storage.worked import store_at

SLOW_S = 1.5
_MOST_FAILURES = 2
_NAMES = ("first", "second")
_RULES = """
      - {alert: SimilarityLow, metric: extended_tau, below: 0.35, for: 1, severity: info}
      - {alert: SimilarityLost, metric: extended_tau, below: 0.34, for: 3, severity: critical}
"""
_CONFIG = """
database: {url}
listen: 127.0.0.1:0
lease: 5s
conditions: {{stale: {{policy: keep}}, error: {{policy: keep}}, no_data: {{policy: keep}}}}
comparisons:
  - name: feed
    every: 1s
    k: 5
    baseline: {{file: {{path: baseline.jsonl, user: user_id, items: items}}}}
    candidate: {{file: {{path: candidate.jsonl, user: user_id, items: items}}}}
    users: {{all: true}}
    metrics: [extended_tau]
    rules: {rules}
receivers:
  - webhook: {{name: first, timeout: 1s, url: "{hooks[0]}"}}
  - webhook: {{name: second, timeout: 1s, url: "{hooks[1]}"}}
"""
_TWICE = (
    "SELECT count(*) FROM (SELECT 1 FROM runs GROUP BY comparison, slot HAVING "
    "count(*) > 1) AS twice"
)
HALF_RUNS = """
SELECT count(*) FROM runs LEFT JOIN (SELECT DISTINCT run_id FROM summaries) AS measured ON measured.run_id = runs.id
WHERE (runs.status = 'ok') <> (measured.run_id IS NOT NULL)
"""


@dataclass(frozen=True)
class Damage:
    """What happened in a storm. All counts except the first four must be 0."""

    kills: int = 0
    runs: int = 0
    messages: int = 0
    repeated: int = 0
    slots_twice: int = 0
    half_runs: int = 0
    lost: int = 0
    under_two_keys: int = 0

    def __add__(self, other):
        return Damage(*map(sum, zip(astuple(self), astuple(other), strict=True)))

    @property
    def harm(self):
        """What must not happen and did, with its count."""
        return {name: count for name, count in [*asdict(self).items()][4:] if count}


@dataclass
class BadReceiver:
    """A webhook that often fails until it is calm. It notes for each request whether the sender can know that it arrived."""

    hook: Collector
    draw: random.Random
    on_request: threading.Event
    is_calm: bool = False
    read: Any = field(default_factory=list)
    """Incident, key, whether the sender knows the outcome, and whether the message is the end of the incident."""
    taken: Any = field(default_factory=set)
    """Keys of firings, and their status, in messages that were accepted."""
    _failures: int = 0

    def respond(self, request):
        """The next answer."""
        whole = len(request.body) == int(request.headers.get("Content-Length", "0"))
        message = request.json() if whole else None
        self.on_request.set()
        replies = {
            "ok": answer(200),
            "refuse": answer(429),
            "fail": answer(503),
            "cut": disconnect,
            "slow": slow,
        }
        how = "ok"
        if not self.is_calm and self._failures < _MOST_FAILURES:
            how = self.draw.choice([*replies, "cut"])
        self._failures = self._failures + 1 if how != "ok" else 0
        if message is not None:
            key, is_settled = request.headers["Idempotency-Key"], how in ("ok", "refuse")
            is_end = message["status"] == "resolved"
            self.read.append((message["groupKey"], key, is_settled, is_end))
            if how == "ok":
                self.taken |= {
                    (alert["annotations"]["dedup_key"], alert["status"])
                    for alert in message["alerts"]
                }
        return replies[how]

    @property
    def broken_keys(self):
        """Messages that may have arrived, and were not repeated before the next message of their incident.

        The end of the incident may follow, because the begin of an ended incident is not sent again.
        """
        by_incident = defaultdict(list)
        for incident, *message in self.read:
            by_incident[incident].append(message)
        return sum(
            not is_settled and following != key and not is_end
            for messages in by_incident.values()
            for (key, is_settled, _), (following, _, is_end) in pairwise(messages)
        )


def slow(collector, sock):
    """Answer after the timeout of the sender."""
    collector.rest(SLOW_S)
    with suppress(OSError):
        answer(200)(collector, sock)


def play_storm(url, folder, *, kills, seed):
    """A drift begins and ends several times, while the daemon is killed ``kills`` times.

    Then receivers accept everything until all messages are sent.
    """
    draw, on_request = random.Random(seed), threading.Event()  # noqa: S311 - no secret
    with running_webhook() as one, running_webhook() as other:
        receivers = [BadReceiver(hook, draw, on_request) for hook in (one, other)]
        for receiver in receivers:
            receiver.hook.respond = receiver.respond
        config = _write_world(folder, url, (one.url, other.url))
        with _changing_lists(folder / "candidate.jsonl"):
            for _ in range(kills):
                _live_and_die(config, on_request, draw)
        for receiver in receivers:
            receiver.is_calm = True
        return _end_in_calm(config, url, receivers, kills)


def _write_world(folder, url, hooks):
    for arm in ("baseline", "candidate"):
        write_lists(folder / f"{arm}.jsonl", SIMILAR)
    config = folder / "rankwatch.yaml"
    config.write_text(_CONFIG.format(url=url, rules=_RULES, hooks=hooks))
    return config


@contextmanager
def _changing_lists(candidate):
    """The candidate's lists drift for some seconds, and are healthy for some seconds. At the end they are healthy."""
    done = threading.Event()

    def change():
        is_apart = False
        while not done.wait(6):
            is_apart = not is_apart
            write_lists(candidate, APART if is_apart else SIMILAR)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        write_lists(candidate, SIMILAR)


def _live_and_die(config, on_request, draw):
    """Kill the daemon while a receiver reads a message, soon after that, or at any moment."""
    on_request.clear()
    with dying_daemon(config) as process:
        if draw.random() < 2 / 3:
            on_request.wait(20)
            ended(process, draw.choice([0.0, 0.02, 1.0, 3.0, 6.0]))
        else:
            ended(process, draw.uniform(0.5, 8.0))


def _end_in_calm(config, url, receivers, kills):
    with dying_daemon(config) as process, store_at(url, create=True) as store:
        wait_for(lambda: _is_over(store), "the end of all deliveries")
        process.terminate()
        ended(process)
        return _count(store, receivers, kills)


def _is_over(store):
    newest = store.history.runs(comparison=None, limit=1)
    firing = any(each.state is not State.QUIET for each in store.alerts.states("feed"))
    return bool(newest) and not firing and not store.outbox.waiting(newest[0].started_at)


def _count(store, receivers, kills):
    with store.database.read() as connection:
        found = [
            connection.execute(text(query)).scalar_one()
            for query in (_TWICE, HALF_RUNS, "SELECT count(*) FROM runs")
        ]
        deliveries = connection.execute(text(_DELIVERIES)).all()
    keys = [key for receiver in receivers for _, key, *_ in receiver.read]
    return Damage(
        kills=kills,
        runs=found[2],
        messages=len(set(keys)),
        repeated=len(keys) - len(set(keys)),
        slots_twice=found[0],
        half_runs=found[1],
        lost=_count_lost(deliveries, dict(zip(_NAMES, receivers, strict=True))),
        under_two_keys=sum(receiver.broken_keys for receiver in receivers),
    )


_DELIVERIES = """
SELECT deliveries.receiver, deliveries.status, transitions.dedup_key, transitions.to_state
FROM transitions LEFT JOIN deliveries ON deliveries.transition_id = transitions.id
WHERE transitions.to_state = 'firing' OR transitions.from_state = 'firing'
"""


def _count_lost(rows, receivers):
    """Counts transitions without a delivery, deliveries that failed for good, and sent messages that no receiver accepted."""
    lost = 0
    for name, status, firing, to_state in rows:
        said = "firing" if to_state == State.FIRING else "resolved"
        is_missing = status in (None, DeliveryStatus.DEAD)
        if status == DeliveryStatus.SENT:
            is_missing = (firing, said) not in receivers[name].taken
        lost += is_missing
    return lost
