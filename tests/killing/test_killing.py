"""Kill -9 at every step: nothing is lost, nothing is told twice but between send and record, nothing half is seen."""

import json
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest
from sqlalchemy import text

from forking import ended
from killing.steps import BETWEEN_SEND_AND_RECORD, STEPS, dying_daemon
from killing.storms import HALF_RUNS, play_storm
from monitor.storage import open_store
from servers.daemon import wait_for
from servers.webhook import serve as serve_hook
from service.lists_world import APART, SIMILAR, write_lists, write_world

pytestmark = [pytest.mark.integration, pytest.mark.early(110)]
AT_ONCE = 7
PATIENCE_S = 120.0
_CALM = "conditions: {stale: {policy: keep}, error: {policy: keep}, no_data: {policy: keep}}\n"


def right(step):
    """What the world must see of one kill: the start is told again only between send and record, under the same key."""
    return {
        "told": {"firing": 2 if step in BETWEEN_SEND_AND_RECORD else 1, "resolved": 1},
        "incidents": 1,
        "keys": 2,
        "half runs": 0,
        "transitions": ["pending", "firing", "quiet"],
        "owed": 0,
    }


def play(step, url, folder):
    """A drift begins, the daemon is killed at the step and another one started; the drift ends."""
    with contextmanager(serve_hook)() as hook:
        receivers = f"receivers:\n  - webhook: {{url: '{hook.url}'}}\nlease: 5s\n{_CALM}"
        write_lists(folder / "candidate.jsonl", APART)
        config = write_world(folder, url, every="5s", receivers=receivers)
        with dying_daemon(config, step) as killed:
            exit_code = ended(killed, PATIENCE_S)
            assert exit_code == -signal.SIGKILL, f"{step}: not reached, exit code {exit_code}"
        with dying_daemon(config) as second, closing(open_store(url, create=True)) as store:
            _await(hook, store, "firing", step)
            write_lists(folder / "candidate.jsonl", SIMILAR)
            _await(hook, store, "resolved", step)
            second.terminate()
            ended(second, 30)
            return _look(hook, store)


def _await(hook, store, status, step):
    wait_for(
        lambda: status in _told(hook) and not _owed(store),
        f"{step}: {status}",
        timeout_s=PATIENCE_S,
    )


def _owed(store):
    (newest,) = store.history.runs(comparison=None, limit=1)
    return len(store.outbox.waiting(newest.started_at))


def play_all(urls, folder):
    """The steps of these databases, a few worlds at a time: much of each is waiting."""

    def play_one(step):
        home = folder / step.replace(" ", "-")
        home.mkdir()
        return play(step, urls[step], home)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = dict(zip(urls, pool.map(play_one, urls), strict=True))
    assert seen == {step: right(step) for step in urls}


def _told(hook):
    return Counter(json.loads(request.body)["status"] for request in list(hook.requests))


def _look(hook, store):
    with store.database.read() as connection:
        half_runs = connection.execute(text(HALF_RUNS)).scalar_one()
    return {
        "told": _told(hook),
        "incidents": len({json.loads(request.body)["groupKey"] for request in hook.requests}),
        "keys": len({request.headers["Idempotency-Key"] for request in hook.requests}),
        "half runs": half_runs,
        "transitions": [
            change.to_state.value
            for change in store.alerts.transitions(comparison=None, limit=None)
        ],
        "owed": _owed(store),
    }


def test_killed_at_every_step_on_sqlite(tmp_path):
    files = {step: tmp_path / step.replace(" ", "-") / "rankwatch.db" for step in STEPS}
    play_all({step: f"sqlite:///{file}" for step, file in files.items()}, tmp_path)


def test_killed_at_every_step_of_a_transaction_on_postgresql(postgres_server, tmp_path):
    with ExitStack() as databases:
        urls = {step: databases.enter_context(postgres_server.database()) for step in STEPS}
        play_all(urls, tmp_path)


def test_nothing_is_lost_twice_half_or_under_two_keys(database_url, tmp_path):
    damage = play_storm(database_url, tmp_path, kills=5, seed=1)
    assert (damage.harm, damage.messages > 0) == ({}, True)
