"""A run with long pulls that is killed and started again: no answer is requested twice, and the progress is shown."""

import re
import signal
import sqlite3
import stat
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace
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


def shows(url, text):
    return text in requests.get(url, timeout=60).text


def kept(folder):
    """The users whose answers are on disk, file by file."""
    return [
        set(re.findall(r"u\d+", file.read_text()))
        for file in (folder / "rankwatch.db-answers").glob("*")
    ]


@pytest.mark.integration
def test_a_run_that_is_killed_twice_requests_no_user_again_unless_it_is_told_to(tmp_path):
    config = tmp_path / "rankwatch.yaml"
    folder = tmp_path / "rankwatch.db-answers"
    command = ("run-once", "feed")
    with ExitStack() as stack:
        arms = [stack.enter_context(running_recommender()) for _ in range(2)]
        for place, arm in enumerate(arms):
            lists = ([number % 3, 11 + place, 12, 13, 14] for number in range(len(USERS)))
            arm.lists = dict(zip(USERS, lists, strict=True))
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
            assert ended(process) == 143
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
        left = copytree(folder, tmp_path / "left")
        with serving(config) as daemon:
            counts = "20 of 40 users answered, 20 of them before a restart"
            progress = f"baseline {counts}; candidate {counts}"
            for path in ("/c/feed", "/daemon"):
                wait_for(partial(shows, f"{daemon.url}{path}", progress), "the progress")
            daemon.send(signal.SIGKILL)
        for arm in arms:
            arm.behaviour.clear()
        with serving(config) as daemon:
            wait_for(lambda: kept(tmp_path) == [], "the end of the run")
            page = f"{daemon.url}/api/v1/comparisons/feed"
            wait_for(partial(shows, page, '"progress":[]'), "the end of the progress")
        asked = Counter(FIRST) + Counter(3 * OTHERS)
        assert [arm.attempts for arm in arms] == [asked, asked]
        copytree(left, folder, dirs_exist_ok=True)
        assert rankwatch(*command, "--again", cwd=tmp_path).returncode == 0
        assert [arm.attempts for arm in arms] == [asked + Counter(USERS)] * 2
    with closing(sqlite3.connect(tmp_path / "rankwatch.db")) as database:
        query = "SELECT n, mean, standard_error FROM summaries"
        resumed, undisturbed = database.execute(query)
    assert resumed == undisturbed
    assert resumed[0] == len(USERS)


def test_the_log_shows_progress_every_ten_seconds_and_a_terminal_shows_a_bar(monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    progress = PullProgress(
        what="baseline",
        users=50_000,
        answered=12_000,
        failed=31,
        stored_answers=2_000,
        elapsed_s=0,
        reason="/data: it is full",
    )
    nothing: Any = None
    runner = Runner(store=nothing, clock=nothing, claims={1: claim(run_id=1)})
    logs = captured(monkeypatch, runner_module).entries
    with output.progress_bar() as bars:
        runner.on_progress = partial(output.show_pull, bars)
        for run_id, elapsed_s in ((1, 8), (1, 9), (1, 10.5), (1, 11), (1, 19), (1, 21), (2, 100)):
            runner._keep_progress(claim(run_id=run_id), replace(progress, elapsed_s=elapsed_s))
    assert [(each["event"], each["pull"]) for each in logs] == [("pull under way", "baseline")] * 2
    assert logs[0]["progress"] == (
        "12,000 of 50,000 users answered, 2,000 of them before a restart, 31 failed, 955 a "
        "second, 0 min 40 s left, a restart would lose these answers: /data: it is full"
    )
    bar = capsys.readouterr().err
    assert "feed baseline" in bar
    assert "12031/50000" in bar
