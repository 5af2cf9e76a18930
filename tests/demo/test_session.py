"""The demo: a session from start to end, its commands, and the story that it plays."""

import logging
import os
import signal
import threading
from dataclasses import replace
from io import StringIO
from itertools import groupby
from unittest.mock import Mock

import pytest
from rich.console import Console
from typer.testing import CliRunner

from monitor.cli.main import app
from monitor.demo import session, simulation
from monitor.demo.servers import Shop
from monitor.demo.session import Workspace, open_workspace, run_demo
from monitor.demo.simulation import (
    CHAPTER_TEXTS,
    FAST_STORY,
    NORMAL_STORY,
    UNWATCHED_STORY,
    Chapter,
    StoryDay,
    next_day,
)
from monitor.model.errors import ConfigError
from monitor.service.daemon.daemon import Daemon


def perform(directory, daemon_factory, *, fast):
    out = StringIO()
    code = run_demo(
        fast=fast,
        directory=directory,
        console=Console(file=out, width=120),
        daemon_factory=daemon_factory,
    )
    return code, out.getvalue()


@pytest.fixture
def idle(monkeypatch):
    """A daemon that stores nothing, over a shop that is trained in a moment."""
    monkeypatch.setattr(session, "Shop", lambda: Shop(users=60, items=60))
    daemon = Mock(url="http://127.0.0.1:1")
    daemon.store.history.finished_runs.return_value = ()
    daemon.store.alerts.states.return_value = ()
    daemon.store.alerts.transitions.return_value = ()
    return daemon


def test_the_fast_demo_plays_the_whole_story_on_the_real_daemon(tmp_path, monkeypatch):
    """With fewer users and shorter days than people are shown.

    Runs fail if the machine is too slow for their interval. Then the story begins again with a longer one.
    """
    monkeypatch.setattr(session, "Shop", lambda: Shop(users=150, items=300))
    before = set(threading.enumerate())
    for every_s in (2, 10, 60):
        story = replace(FAST_STORY, day_s=0.5, every=f"{every_s}s")
        monkeypatch.setattr(simulation, "FAST_STORY", story)
        monkeypatch.setattr(session, "_PATIENCE_S", 60 * every_s)
        code, text = perform(tmp_path / str(every_s), Daemon, fast=True)
        if "RunFailing" not in text:
            break

    assert code == 0, text
    lines = [line.split(maxsplit=2)[1:] for line in text.splitlines() if line[2:3] == ":"]
    told = [rest if kind == "STORY" else kind for kind, rest in lines if kind != "RUN"]
    assert told[:3] == [CHAPTER_TEXTS[Chapter.HEALTHY], CHAPTER_TEXTS[Chapter.BROKEN], "FIRING"]
    healed = told.index(CHAPTER_TEXTS[Chapter.HEALED])
    # A run during which the fault begins fires one alert, and the message about it may come before the
    # other one fires.
    assert told[:healed].count("FIRING") == told.count("FIRING") == 2
    assert healed < told.index("RESOLVED")
    assert told.count("NOTIFIED") == 4
    assert "The demo went as it should" in text
    # All pulls of a process share a loop and its resolver, which stay.
    left = [
        each
        for each in set(threading.enumerate()) - before
        if not each.name.startswith(("http-pulls", "resolve_"))
    ]
    assert not left


def test_a_fast_demo_in_which_nothing_happens_ends_with_1_and_says_what_was_missing(
    tmp_path, idle, monkeypatch
):
    monkeypatch.setattr(session, "_PATIENCE_S", 0.5)
    code, text = perform(tmp_path, lambda _: idle, fast=True)
    assert code == 1
    assert "demo failed: No run ended with the status ok." in text
    assert (
        "demo failed: SimilarityLow country=DE became firing 0 times while the candidate was "
        "broken, but 1 times were expected."
    ) in text
    assert f"{tmp_path}/rankwatch.log" in text


def press_ctrl_c():
    raise KeyboardInterrupt


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    "how, fast, code", [(press_ctrl_c, False, 0), (press_ctrl_c, True, 130), (terminate, False, 0)]
)
def test_an_interrupt_stops_everything_and_what_was_logged_meanwhile_is_in_the_file(
    tmp_path, idle, how, fast, code
):
    looks = iter(range(2))

    def look(*_, **__):
        if next(looks, None) is None:
            logging.getLogger("monitor.test").warning("said in the demo")
            how()
        return ()

    threads, handler = set(threading.enumerate()), signal.getsignal(signal.SIGTERM)
    idle.store.history.finished_runs.side_effect = look
    got, text = perform(tmp_path, lambda _: idle, fast=fast)
    assert (got, idle.start.call_count, idle.stop.call_count) == (code, 1, 1)
    assert set(threading.enumerate()) <= threads
    assert signal.getsignal(signal.SIGTERM) == handler
    assert (
        f"Stopped. To list the stored runs: rankwatch runs --config {tmp_path / 'rankwatch.yaml'}"
        in text
    )
    assert "said in the demo" in (tmp_path / "rankwatch.log").read_text()
    assert "said in the demo" not in text


def test_a_daemon_that_cannot_start_takes_the_servers_down_with_it(tmp_path, idle):
    idle.start.side_effect = ConfigError("cannot listen there")
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match="cannot listen there"):
        perform(tmp_path, lambda _: idle, fast=True)
    assert set(threading.enumerate()) <= before


def test_wrong_usage_is_refused():
    for wrong in [["--recommenders", "8000"], ["--recommenders", "127.0.0.1:8000", "--fast"]]:
        told = CliRunner().invoke(app, ["demo", *wrong])

        assert told.exit_code == 2
        assert "--recommenders" in told.output


def test_what_an_earlier_demo_left_is_removed_and_what_somebody_added_stays(tmp_path):
    workspace = Workspace(tmp_path / "a" / "b")
    with open_workspace(workspace):
        assert (workspace.directory / ".gitignore").read_text() == "*\n"
        wal = workspace.database.with_name("rankwatch.db-wal")
        ours = (workspace.config, workspace.database, wal, workspace.users, workspace.log)
        for path in (*ours, workspace.directory / "notes.txt"):
            path.write_text("old")
    with open_workspace(workspace):
        assert not any(path.exists() for path in ours)
        assert (workspace.directory / "notes.txt").read_text() == "old"


def test_a_directory_that_cannot_be_used_is_a_one_line_error_and_stays_unchanged(tmp_path):
    theirs, taken, ours = tmp_path / "theirs", tmp_path / "taken", Workspace(tmp_path / "ours")
    theirs.mkdir()
    (theirs / "rankwatch.yaml").write_text("mine")
    taken.touch()
    with open_workspace(ours):
        ours.config.write_text("the first one's")
        for directory, says in (
            (theirs, "has files that the demo did not write"),
            (taken, "cannot write to .*taken: File exists: name another directory with --dir"),
            (ours.directory, "another demo is running"),
        ):
            with pytest.raises(ConfigError, match=says), open_workspace(Workspace(directory)):
                pass
        assert ours.config.exists()
    assert [path.name for path in theirs.iterdir()] == ["rankwatch.yaml"]
    with open_workspace(ours):
        pass


def test_the_fault_comes_after_the_healthy_days_is_repaired_and_comes_back_after_the_calm_ones_if_any():
    scenes = [StoryDay()]
    while len(scenes) < 28:
        scenes.append(next_day(UNWATCHED_STORY, scenes[-1]))
    assert [scene.day for scene in scenes] == list(range(28))
    told = [
        (chapter, len(list(days))) for chapter, days in groupby(scenes, lambda scene: scene.chapter)
    ]
    healthy, broken, calm = (Chapter.HEALTHY, 6), (Chapter.BROKEN, 4), (Chapter.HEALED, 11)
    assert told == [healthy, broken, calm, broken, (Chapter.HEALED, 3)]
    late = StoryDay(day=50, chapter=Chapter.BROKEN)
    assert next_day(NORMAL_STORY, late, is_noticed=False) == replace(late, day=51)
    assert next_day(NORMAL_STORY, late).since_day == 51
