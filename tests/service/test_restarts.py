"""A run whose pulls last, cut off and begun again: nobody who answered is asked once more, and how far it is can be seen."""

import re
import signal
import sqlite3
import stat
from collections import Counter
from contextlib import ExitStack, closing
from functools import partial
from shutil import copytree
from typing import Any

import pytest
import requests

from factories import claim
from forking import ended, rankwatch, running
from logs import captured
from monitor.cli import output
from monitor.model.runs import PullProgress
from monitor.service import runner as runner_module
from monitor.service.runner import Runner
from servers.daemon import serving, wait_for
from servers.recommender import running_recommender

USERS = [f"u{number}" for number in range(40)]
FIRST = USERS[:20]
OTHERS = USERS[20:]


def kept(folder):
    """Whose answers are on disk, file by file."""
    return [
        set(re.findall(r"u\d+", file.read_text()))
        for file in (folder / "rankwatch.db-answers").glob("*")
    ]


def shows(page, text):
    return text in page().text


@pytest.mark.integration
def test_a_run_that_is_killed_twice_requests_no_user_again_unless_it_is_told_to(tmp_path):
    config = tmp_path / "rankwatch.yaml"
    folder = tmp_path / "rankwatch.db-answers"
    command = ("run-once", "feed")
    with ExitStack() as stack:
        arms = [stack.enter_context(running_recommender()) for _ in range(2)]
        for place, arm in enumerate(arms):
            arm.lists = {
                user: [number % 3, 11 + place, 12, 13, 14] for number, user in enumerate(USERS)
            }
            arm.behaviour = dict.fromkeys(OTHERS, "slow")
        asks = [f'{{http: {{url: "{arm.url}", timeout: 5m, retries: 0}}}}' for arm in arms]
        (tmp_path / "users.csv").write_text("\n".join(["user", *USERS]))
        config.write_text(
            "listen: 127.0.0.1:0\ncomparisons: [{name: feed, every: 365d, k: 5, baseline: "
            f"{asks[0]}, candidate: {asks[1]}, metrics: [rbo], users: {{file: {{path: users.csv, "
            "user: user}}}]"
        )
        with running(command, cwd=tmp_path, out=tmp_path / "out") as process:
            wait_for(lambda: kept(tmp_path) == [set(FIRST)] * 2, "answers on disk")
            process.terminate()
            assert ended(process, 60) == 143
        assert {stat.S_IMODE(each.stat().st_mode) for each in (folder, *folder.iterdir())} == {
            0o700,
            0o600,
        }
        left = copytree(folder, tmp_path / "left")
        with serving(config) as daemon:
            told = "20 of 40 users answered, 20 of them before a restart"
            for page in (f"{daemon.url}/c/feed", f"{daemon.url}/daemon"):
                ask = partial(requests.get, page, timeout=60)
                progress = f"baseline {told}; candidate {told}"
                wait_for(partial(shows, ask, progress), "how far it is")
            daemon.send(signal.SIGKILL)
        for arm in arms:
            arm.behaviour.clear()
        with serving(config) as daemon:
            wait_for(lambda: kept(tmp_path) == [], "the end of the run")
            page = f"{daemon.url}/api/v1/comparisons/feed"
            wait_for(
                lambda: requests.get(page, timeout=60).json()["progress"] == [],
                "that none is under way",
            )
        asked = Counter(FIRST) + Counter(3 * OTHERS)
        assert [arm.attempts for arm in arms] == [asked, asked]
        copytree(left, folder, dirs_exist_ok=True)
        assert rankwatch(*command, "--again", cwd=tmp_path).returncode == 0
        assert [arm.attempts for arm in arms] == [asked + Counter(USERS)] * 2
    with closing(sqlite3.connect(tmp_path / "rankwatch.db")) as database:
        resumed, undisturbed = database.execute(
            "SELECT n, mean, standard_error FROM summaries"
        ).fetchall()
    assert resumed == undisturbed
    assert resumed[0] == len(USERS)


def test_the_log_shows_progress_every_ten_seconds_and_a_terminal_shows_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    found: dict[str, Any] = {
        "what": "baseline",
        "users": 50_000,
        "answered": 12_000,
        "failed": 31,
        "stored_answers": 2_000,
    }
    nothing: Any = None
    runner = Runner(store=nothing, clock=nothing, claims={1: claim(run_id=1)})
    logs = captured(monkeypatch, runner_module).entries
    with output.progress_bar() as bars:
        runner.on_progress = partial(output.show_pull, bars)
        for run_id, elapsed_s in ((1, 8), (1, 9), (1, 10.5), (1, 11), (1, 19), (1, 21), (2, 100)):
            pull = PullProgress(**found, elapsed_s=elapsed_s, reason="/data: it is full")
            runner._keep_progress(claim(run_id=run_id), pull)
    assert [(each["event"], each["pull"]) for each in logs] == [("pull under way", "baseline")] * 2
    told = (
        "12,000 of 50,000 users answered, 2,000 of them before a restart, 31 failed, 955 a "
        "second, 0 min 40 s left, "
    )
    assert logs[0]["progress"] == f"{told}a restart would lose these answers: /data: it is full"
    assert {"feed baseline", "12031/50000"} <= set(
        re.findall(r"feed \w+|\d+/\d+", capsys.readouterr().err)
    )
