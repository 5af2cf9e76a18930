import csv
import itertools
import os
import signal
import socket
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import requests
from rich.console import Console
from typer.testing import CliRunner

from forking import ended, running
from monitor.cli.main import app
from monitor.demo.environment import UNWATCHED_STORY, DemoArms, run_recommenders, simulated_days
from monitor.demo.recommenders import BROKEN_COUNTRY, DEPTH
from monitor.demo.story import Chapter
from monitor.demo.workspace import Workspace
from monitor.demo.world import World
from monitor.errors import ConfigError
from servers.daemon import wait_for


@pytest.fixture
def arms(tmp_path: Path) -> DemoArms:
    return DemoArms(workspace=Workspace(tmp_path), world=World(items=60, joining=2))


def test_the_story_comes_back_again_and_again_without_anybody_watching(arms: DemoArms) -> None:
    story = replace(UNWATCHED_STORY, healthy_days=2, broken_days=1, calm_days=3)
    scenes = itertools.islice(simulated_days(arms, story), 11)
    chapters = [(chapter, len(list(days))) for chapter, days in itertools.groupby(scenes, lambda scene: scene.chapter)]

    broken, calm = (Chapter.BROKEN, 1), (Chapter.HEALED, 3)
    assert chapters == [(Chapter.HEALTHY, 2), broken, calm, broken, calm, broken]


def test_a_day_is_served_when_it_is_told(arms: DemoArms) -> None:
    days = simulated_days(arms, UNWATCHED_STORY)
    for scene in itertools.islice(days, 8):
        expected = arms.train(scene.day, is_broken=scene.is_broken)
        assert arms.candidate.lists.items() >= expected.candidate.items()
        assert arms.baseline.lists.items() >= expected.baseline.items()


def test_the_process_serves_both_arms_and_their_users_and_ends_cleanly(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(("demo", "--recommenders", "127.0.0.1:0", "--dir", "shop"), cwd=tmp_path, out=log) as process:
        wait_for(lambda: log.exists() and "both arms are healthy" in log.read_text(encoding="utf-8"), "the first day")
        url = log.read_text(encoding="utf-8").split("serve ")[1].split("/baseline")[0]
        users = list(csv.DictReader((tmp_path / "shop" / "users.csv").read_text(encoding="utf-8").splitlines()))
        asked = [f"{url}/{arm}/api/recommend/{users[0]['user_id']}?n={DEPTH}" for arm in ("baseline", "candidate")]
        lists = [requests.get(one, timeout=60).json() for one in asked]
        os.kill(process.pid or 0, signal.SIGTERM)
        assert ended(process, 60) == 0

    assert {user["country"] for user in users} >= {BROKEN_COUNTRY}
    assert [len(items) for items in lists] == [DEPTH, DEPTH]
    assert lists[0] != lists[1]


def test_an_address_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}.*choose another port"):
            run_recommenders(("127.0.0.1", port), directory=tmp_path / "shop", console=Console(file=StringIO()))


@pytest.mark.parametrize("wrong", [["--recommenders", "8000"], ["--recommenders", "127.0.0.1:8000", "--fast"]])
def test_wrong_usage_is_told(wrong: list[str]) -> None:
    told = CliRunner().invoke(app, ["demo", *wrong])

    assert told.exit_code == 2
    assert "--recommenders" in told.output
