"""Kill -9 at every step: nothing is lost, nothing is told twice but between send and record, nothing half is seen."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from killing.harness import Outcome, play_all
from killing.steps import STEPS
from servers.postgres import PostgresServer

pytestmark = pytest.mark.early


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
