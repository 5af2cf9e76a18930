"""Kill -9 at every step: nothing is lost, nothing is told twice but between send and record, nothing half is seen."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from sqlalchemy import text

from forking import ended, start
from killing.steps import BETWEEN_SEND_AND_RECORD, STEPS, serve
from monitor.storage import SqlStore, open_store
from servers.daemon import wait_for
from servers.postgres import PostgresServer
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


@dataclass(frozen=True)
class Outcome:
    """What the world saw of one kill: firings and ends told, how many of each were told again, incidents, half runs."""

    step: str
    told: Counter[str]
    incidents: int
    keys: int
    half_runs: int
    transitions: tuple[str, ...]
    owed: int

    @property
    def lost(self) -> int:
        return sum(not self.told[status] for status in ("firing", "resolved"))

    @property
    def duplicates(self) -> int:
        return self.told.total() - len(self.told)

    @property
    def is_right(self) -> bool:
        """Nothing lost; told again only between send and record, and then under the same keys; nothing half stored."""
        may_repeat = self.step in BETWEEN_SEND_AND_RECORD
        is_told_right = self.lost == 0 and self.duplicates == int(may_repeat) and self.told["resolved"] == 1
        is_stored_right = self.half_runs == 0 and self.owed == 0 and self.transitions == ("pending", "firing", "quiet")
        return is_told_right and is_stored_right and (self.incidents, self.keys) == (1, 2)


@contextmanager
def daemon(config: Path, step: str | None) -> Iterator[BaseProcess]:
    process = start(serve, str(config), step)
    try:
        yield process
    finally:
        process.kill()
        ended(process, 10)


def play(step: str, url: str, folder: Path) -> Outcome:
    """A drift begins, the daemon is killed at the step and another one started; the drift ends."""
    with contextmanager(serve_hook)() as hook:
        receivers = f"receivers:\n  - webhook: {{url: '{hook.url}'}}\nlease: 5s\n{_CALM}"
        write_lists(folder / "candidate.jsonl", APART)
        config = write_world(folder, url, every="2s", receivers=receivers)
        with daemon(config, step) as killed:
            exit_code = ended(killed, PATIENCE_S)
            assert exit_code == -signal.SIGKILL, f"{step}: not reached, exit code {exit_code}"
        with daemon(config, None) as second, closing(open_store(url, create=True)) as store:
            _await(lambda: "firing" in _told(hook) and not store.outbox.waiting(_now(store)), f"{step}: the alert")
            write_lists(folder / "candidate.jsonl", SIMILAR)
            _await(lambda: "resolved" in _told(hook) and not store.outbox.waiting(_now(store)), f"{step}: its end")
            second.terminate()
            ended(second, 30)
            return _look(step, hook, store)


def play_all(urls: Callable[[str], str], folder: Path, steps: tuple[str, ...] = tuple(STEPS)) -> list[Outcome]:
    """All steps, a few worlds at a time: much of each is waiting."""

    def play_one(step: str) -> Outcome:
        home = folder / step.replace(" ", "-")
        home.mkdir()
        return play(step, urls(step), home)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(play_one, steps))


def _await(look: Callable[[], bool], what: str) -> None:
    wait_for(look, what, timeout_s=PATIENCE_S)


def _now(store: SqlStore) -> datetime:
    newest = store.history.runs(comparison=None, limit=1)
    return newest[0].started_at


def _told(hook: Collector) -> Counter[str]:
    return Counter(json.loads(request.body)["status"] for request in list(hook.requests))


def _look(step: str, hook: Collector, store: SqlStore) -> Outcome:
    with store.database.read() as connection:
        half = connection.execute(text(_HALF)).scalar_one()
    return Outcome(
        step=step,
        told=_told(hook),
        incidents=len({json.loads(request.body)["groupKey"] for request in hook.requests}),
        keys=len({request.headers["Idempotency-Key"] for request in hook.requests}),
        half_runs=half,
        transitions=tuple(change.to_state.value for change in store.alerts.transitions(comparison=None, limit=None)),
        owed=len(store.outbox.waiting(_now(store))),
    )


def judge(outcomes: list[Outcome]) -> None:
    wrong = [each for each in outcomes if not each.is_right]
    assert wrong == []
    assert len(outcomes) == len(STEPS)


def test_killed_at_every_step_on_sqlite(tmp_path: Path) -> None:
    judge(play_all(lambda step: f"sqlite:///{tmp_path / step.replace(' ', '-') / 'rankwatch.db'}", tmp_path))


def test_killed_at_every_step_on_postgresql(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with ExitStack() as databases:
        urls = {step: databases.enter_context(postgres_server.database()) for step in STEPS}
        judge(play_all(urls.__getitem__, tmp_path))
