"""Kill -9 at every step: nothing is lost, nothing is told twice but between send and record, nothing half is seen."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from forking import ended, start
from killing.steps import BETWEEN_SEND_AND_RECORD, STEPS, serve
from monitor.storage import SqlStore, open_store
from servers.daemon import wait_for
from servers.webhook import Collector
from servers.webhook import serve as serve_hook
from service.lists_world import APART, SIMILAR, write_lists, write_world

pytestmark = [pytest.mark.integration, pytest.mark.early(110)]
AT_ONCE = 5
PATIENCE_S = 120.0
_CALM = "conditions: {stale: {policy: keep}, error: {policy: keep}, no_data: {policy: keep}}\n"
_HALF = """
SELECT count(*) FROM runs LEFT JOIN (SELECT DISTINCT run_id FROM summaries) AS measured ON measured.run_id = runs.id
WHERE (runs.status = 'ok') <> (measured.run_id IS NOT NULL)
"""


Seen = dict[str, Any]


def right(step: str) -> Seen:
    """What the world must see of one kill: the start is told again only between send and record, under the same key."""
    return {
        "told": {"firing": 2 if step in BETWEEN_SEND_AND_RECORD else 1, "resolved": 1},
        "incidents": 1,
        "keys": 2,
        "half runs": 0,
        "transitions": ["pending", "firing", "quiet"],
        "owed": 0,
    }


@contextmanager
def daemon(config: Path, step: str | None) -> Iterator[BaseProcess]:
    process = start(serve, str(config), step)
    try:
        yield process
    finally:
        process.kill()
        ended(process, 10)


def play(step: str, url: str, folder: Path) -> Seen:
    """A drift begins, the daemon is killed at the step and another one started; the drift ends."""
    with contextmanager(serve_hook)() as hook:
        receivers = f"receivers:\n  - webhook: {{url: '{hook.url}'}}\nlease: 5s\n{_CALM}"
        write_lists(folder / "candidate.jsonl", APART)
        config = write_world(folder, url, every="2s", receivers=receivers)
        with daemon(config, step) as killed:
            exit_code = ended(killed, PATIENCE_S)
            assert exit_code == -signal.SIGKILL, f"{step}: not reached, exit code {exit_code}"
        with daemon(config, None) as second, closing(open_store(url, create=True)) as store:
            _await(
                lambda: "firing" in _told(hook) and not store.outbox.waiting(_now(store)),
                f"{step}: the alert",
            )
            write_lists(folder / "candidate.jsonl", SIMILAR)
            _await(
                lambda: "resolved" in _told(hook) and not store.outbox.waiting(_now(store)),
                f"{step}: its end",
            )
            second.terminate()
            ended(second, 30)
            return _look(hook, store)


def play_all(urls: Callable[[str], str], folder: Path) -> None:
    """All steps, a few worlds at a time: much of each is waiting."""

    def play_one(step: str) -> Seen:
        home = folder / step.replace(" ", "-")
        home.mkdir()
        return play(step, urls(step), home)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        seen = dict(zip(STEPS, pool.map(play_one, STEPS), strict=True))
    assert seen == {step: right(step) for step in STEPS}


def _await(look: Callable[[], bool], what: str) -> None:
    wait_for(look, what, timeout_s=PATIENCE_S)


def _now(store: SqlStore) -> datetime:
    newest = store.history.runs(comparison=None, limit=1)
    return newest[0].started_at


def _told(hook: Collector) -> Counter[str]:
    return Counter(json.loads(request.body)["status"] for request in list(hook.requests))


def _look(hook: Collector, store: SqlStore) -> Seen:
    with store.database.read() as connection:
        half_runs = connection.execute(text(_HALF)).scalar_one()
    return {
        "told": _told(hook),
        "incidents": len({json.loads(request.body)["groupKey"] for request in hook.requests}),
        "keys": len({request.headers["Idempotency-Key"] for request in hook.requests}),
        "half runs": half_runs,
        "transitions": [
            change.to_state.value
            for change in store.alerts.transitions(comparison=None, limit=None)
        ],
        "owed": len(store.outbox.waiting(_now(store))),
    }


def test_killed_at_every_step_on_sqlite(tmp_path):
    play_all(
        lambda step: f"sqlite:///{tmp_path / step.replace(' ', '-') / 'rankwatch.db'}", tmp_path
    )


def test_killed_at_every_step_on_postgresql(postgres_server, tmp_path):
    with ExitStack() as databases:
        urls = {step: databases.enter_context(postgres_server.database()) for step in STEPS}
        play_all(urls.__getitem__, tmp_path)
