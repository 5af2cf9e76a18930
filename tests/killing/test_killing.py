"""Kill -9 at every step: nothing is lost or half visible. A message is repeated only between send and record."""

import os
import signal
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from sqlalchemy import text

from forking import ended
from killing.steps import BETWEEN_SEND_AND_RECORD, STEPS, dying_daemon
from killing.storms import HALF_RUNS, play_storm
from servers.daemon import wait_for
from servers.webhook import running_webhook
from service.lists_world import APART, SIMILAR, write_lists, write_world
from storage.worked import store_at

pytestmark = [pytest.mark.integration, pytest.mark.early(110)]
_OF_DATABASES = """
claim
store
before commit
commit
claim of the transition
mark
after record
""".strip().splitlines()
"""Steps within a transaction, or right after one."""
_CALM = "conditions: {stale: {policy: keep}, error: {policy: keep}, no_data: {policy: keep}}\n"


def play(url, store, folder, steps):
    """What the receiver got for each of these steps, and what is stored.

    For each step a drift begins, and the daemon is killed at the step. The drift ends while another
    daemon runs, which is killed at the next step.
    """
    folder.mkdir()
    candidate = folder / "candidate.jsonl"
    with running_webhook() as hook, ExitStack() as stack:
        receivers = f"receivers:\n  - webhook: {{url: '{hook.url}'}}\nlease: 5s\n{_CALM}"
        config = write_world(folder, url, every="2s", receivers=receivers)
        daemon = stack.enter_context(dying_daemon(config, steps[0]))
        wait_for(lambda: store.history.runs(comparison=None, limit=1), "the first run")
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            before = len(hook.requests)
            write_lists(candidate, APART)
            assert daemon.pid is not None
            os.kill(daemon.pid, signal.SIGUSR1)
            exit_code = ended(daemon)
            assert exit_code == -signal.SIGKILL, f"{step}: not reached, exit code {exit_code}"
            daemon = stack.enter_context(dying_daemon(config, following))
            await_told(hook, store, before, "firing", step)
            write_lists(candidate, SIMILAR)
            await_told(hook, store, before, "resolved", step)
        daemon.terminate()
        ended(daemon)
        return heard_of(steps, hook.requests), stored(store)


def await_told(hook, store, before, status, step):
    wait_for(
        lambda: status in told(hook.requests[before:]) and not owed(store), f"{step}: {status}"
    )


def told(requests):
    return Counter(request.json()["status"] for request in requests)


def owed(store):
    (newest,) = store.history.runs(comparison=None, limit=1)
    return len(store.outbox.waiting(newest.started_at))


def heard_of(steps, requests):
    """For each step: how often each status of its incident was sent, and the number of keys."""
    incidents = defaultdict(list)
    for request in requests:
        incidents[request.json()["groupKey"]].append(request)
    return {
        step: (told(of_step), len({request.headers["Idempotency-Key"] for request in of_step}))
        for step, of_step in zip(steps, incidents.values(), strict=True)
    }


def stored(store):
    with store.database.read() as connection:
        half_runs = connection.execute(text(HALF_RUNS)).scalar_one()
    changes = store.alerts.transitions(comparison=None, limit=None)
    return half_runs, [change.to_state.value for change in changes]


def test_a_kill_at_any_step_loses_nothing_and_repeats_messages_only_between_send_and_record(
    postgres_server, tmp_path
):
    with ExitStack() as stack:
        urls = (
            f"sqlite:///{tmp_path}/rankwatch.db",
            stack.enter_context(postgres_server.database()),
        )
        # One after the other: two migrations in one process collide.
        stores = [stack.enter_context(store_at(url, create=True)) for url in urls]
        folders = (tmp_path / "sqlite", tmp_path / "postgresql")
        pool = stack.enter_context(ThreadPoolExecutor())
        # At the other steps, the kind of database makes no difference.
        played = pool.map(play, urls, stores, folders, (_OF_DATABASES, [*STEPS]))
        for heard, (half_runs, transitions) in played:
            for step, (statuses, keys) in heard.items():
                starts = 2 if step in BETWEEN_SEND_AND_RECORD else 1
                assert (statuses, keys) == ({"firing": starts, "resolved": 1}, 2), step
            assert half_runs == 0
            assert transitions == ["pending", "firing", "quiet"] * len(heard)


def test_a_storm_of_kills_and_failures_loses_and_doubles_nothing(database_url, tmp_path):
    damage = play_storm(database_url, tmp_path, kills=5, seed=1)
    assert (damage.harm, damage.messages > 0) == ({}, True)
