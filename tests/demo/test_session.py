import csv
import logging
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import requests
from rich.console import Console
from typer.testing import CliRunner

from demo.conftest import at, change, received, runs_of, status
from forking import ended, running
from monitor.cli.main import app
from monitor.demo import run_demo, session
from monitor.demo.servers import ACTIVITIES, BROKEN_COUNTRY, COUNTRIES, DEPTH, Shop
from monitor.demo.session import Workspace, open_workspace, write_configuration, write_users
from monitor.demo.simulation import (
    CHAPTER_TEXTS,
    DEMO_COMPARISON,
    DEMO_METRICS,
    EXPECTED_ALERTS,
    FAST_STORY,
    NORMAL_STORY,
    Chapter,
)
from monitor.errors import ConfigError
from monitor.model.alerts import State
from monitor.service.daemon.daemon import Daemon
from monitor.settings.loader import load_settings
from monitor.settings.translation import to_comparison, to_schedule
from servers.daemon import wait_for

Factory = Callable[[Path], Any]


def perform(directory: Path, daemon_factory: Factory, *, fast: bool) -> tuple[int, str]:
    out = StringIO()
    code = run_demo(fast=fast, directory=directory, console=Console(file=out, width=120), daemon_factory=daemon_factory)
    return code, out.getvalue()


@dataclass
class IdleDaemon:
    """A daemon that does nothing but be started, be looked at and be stopped."""

    store: Any
    calls: list[str] = field(default_factory=list)
    url: str = "http://127.0.0.1:1"

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")


def test_what_happens_is_a_whole_line_each_without_markup() -> None:
    long = replace(change(1, State.PENDING, State.FIRING), reason="[bold]as it is[/bold] " + "long " * 60)
    shown = status(transitions=(long,), received=(received(2, "firing"),), **runs_of(1))
    out = StringIO()
    session.print_notes(shown.notes, Console(file=out, width=80))
    times = [f"{at(seconds).astimezone():%H:%M:%S}" for seconds in (-1, 0.5, 1, 2)]
    assert out.getvalue().splitlines() == [
        f"{times[0]} STORY    {CHAPTER_TEXTS[Chapter.HEALTHY]}",
        f"{times[1]} RUN      ok paired 399/400 extended_tau 0.670 rbo(p=0.9) 0.670 overlap 0.670",
        f"{times[2]} FIRING   SimilarityLow country=DE: {long.reason}",
        f"{times[3]} NOTIFIED on-call: SimilarityLow country=DE firing",
    ]


@pytest.fixture
def idle(store: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Such a daemon, over a shop that is trained in a moment."""
    monkeypatch.setattr(session, "Shop", lambda: Shop(users=60, items=60))
    return IdleDaemon(store)


@dataclass(frozen=True)
class Played:
    directory: Path
    code: int
    text: str
    threads_left: set[threading.Thread]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """One fast demo on the real daemon."""
    directory = tmp_path_factory.mktemp("demo")
    before = set(threading.enumerate())
    code, text = perform(directory, Daemon, fast=True)
    return Played(directory, code, text, {each for each in set(threading.enumerate()) - before if each.name != "http-pulls"})


def test_the_fast_demo_plays_the_whole_story_on_the_real_daemon(played: Played) -> None:
    assert played.code == 0, played.text
    lines = [line.split(maxsplit=2)[1:] for line in played.text.splitlines() if line[2:3] == ":"]
    told = [rest if kind == "STORY" else kind for kind, rest in lines if kind != "RUN"]
    assert told[:3] == [CHAPTER_TEXTS[Chapter.HEALTHY], CHAPTER_TEXTS[Chapter.BROKEN], "FIRING"]
    healed = told.index(CHAPTER_TEXTS[Chapter.HEALED])
    # A run that saw the fault come fires one alert, and who is on call may hear of that before the other one fires.
    assert told[:healed].count("FIRING") == told.count("FIRING") == 2
    assert healed < told.index("RESOLVED")
    assert told.count("NOTIFIED") == 4
    assert "The demo went as it should" in played.text
    assert not played.threads_left


def test_a_fast_demo_in_which_nothing_happens_ends_with_1_and_says_what_was_missing(
    tmp_path: Path, idle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_PATIENCE_S", 0.5)
    code, text = perform(tmp_path, lambda _: idle, fast=True)
    assert code == 1
    assert "demo failed: No run ended ok." in text
    assert "demo failed: SimilarityLow country=DE became firing 0 times while the candidate was broken, expected 1." in text
    assert str(tmp_path / "rankwatch.log") in text


def press_ctrl_c() -> None:
    raise KeyboardInterrupt


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("how", "fast", "code"), [(press_ctrl_c, False, 0), (press_ctrl_c, True, 130), (terminate, False, 0)])
def test_an_interrupt_stops_everything_and_what_was_logged_meanwhile_is_in_the_file(
    tmp_path: Path, idle: Any, how: Callable[[], None], fast: bool, code: int
) -> None:
    looks = iter(range(2))

    def look() -> None:
        if next(looks, None) is None:
            logging.getLogger("monitor.test").warning("said in the demo")
            how()

    threads, handler = set(threading.enumerate()), signal.getsignal(signal.SIGTERM)
    idle.store.on_look = look
    got, text = perform(tmp_path, lambda _: idle, fast=fast)
    assert (got, idle.calls) == (code, ["start", "stop"])
    assert set(threading.enumerate()) <= threads
    assert signal.getsignal(signal.SIGTERM) == handler
    assert f"Stopped. To look at what it left: rankwatch runs --config {tmp_path / 'rankwatch.yaml'}" in text
    assert "said in the demo" in (tmp_path / "rankwatch.log").read_text(encoding="utf-8")
    assert "said in the demo" not in text


def test_a_daemon_that_cannot_start_takes_the_servers_down_with_it(tmp_path: Path, idle: Any) -> None:
    def refuse() -> None:
        message = "cannot listen there"
        raise ConfigError(message)

    idle.start = refuse
    before = set(threading.enumerate())
    with pytest.raises(ConfigError, match="cannot listen there"):
        perform(tmp_path, lambda _: idle, fast=True)
    assert set(threading.enumerate()) <= before


def test_the_process_serves_both_arms_and_their_users_and_ends_cleanly(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with running(("demo", "--recommenders", "127.0.0.1:0", "--dir", "shop"), cwd=tmp_path, out=log) as process:
        wait_for(lambda: log.exists() and "day 0" in log.read_text(encoding="utf-8"), "the first day")
        url = log.read_text(encoding="utf-8").split("serve ")[1].split("/baseline")[0]
        users = list(csv.DictReader((tmp_path / "shop" / "users.csv").read_text(encoding="utf-8").splitlines()))
        asked = [f"{url}/{arm}/api/recommend/{users[0]['user_id']}" for arm in ("baseline", "candidate")]
        lists = [requests.get(one, timeout=60).json() for one in asked]
        os.kill(process.pid or 0, signal.SIGTERM)
        assert ended(process, 60) == 0

    assert {user["country"] for user in users} >= {BROKEN_COUNTRY}
    assert [len(items) for items in lists] == [DEPTH, DEPTH]
    assert lists[0] != lists[1]


@pytest.mark.parametrize("wrong", [["--recommenders", "8000"], ["--recommenders", "127.0.0.1:8000", "--fast"]])
def test_wrong_usage_is_told(wrong: list[str]) -> None:
    told = CliRunner().invoke(app, ["demo", *wrong])

    assert told.exit_code == 2
    assert "--recommenders" in told.output


def test_a_new_directory_is_made_and_ignored_by_git(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "a" / "b")
    with open_workspace(workspace):
        assert workspace.directory.is_dir()
        assert (workspace.directory / ".gitignore").read_text(encoding="utf-8") == "*\n"


def test_what_an_earlier_demo_left_is_removed_and_what_somebody_added_stays(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        wal = workspace.database.with_name("rankwatch.db-wal")
        ours = (workspace.config, workspace.database, wal, workspace.users, workspace.log)
        for path in (*ours, tmp_path / "notes.txt"):
            path.write_text("old", encoding="utf-8")
    with open_workspace(Workspace(tmp_path)):
        assert not any(path.exists() for path in ours)
        assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "old"


def test_a_directory_with_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "rankwatch.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds files that the demo did not write"), open_workspace(Workspace(tmp_path)):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["rankwatch.yaml"]


def test_a_second_demo_in_the_same_directory_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        workspace.config.write_text("the first one's", encoding="utf-8")
        with pytest.raises(ConfigError, match="another demo is running"), open_workspace(Workspace(tmp_path)):
            pass
        assert workspace.config.exists()
    with open_workspace(Workspace(tmp_path)):
        pass


def test_a_file_in_the_way_is_a_one_line_error(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    with (
        pytest.raises(ConfigError, match=r"cannot write to .*taken: File exists; name another directory with --dir"),
        open_workspace(Workspace(taken)),
    ):
        pass


def test_the_users_file_lists_everyone_with_activity_and_country_under_the_segments_that_are_shown(tmp_path: Path) -> None:
    shop = Shop(users=60, items=20)
    workspace = Workspace(tmp_path)
    with open_workspace(workspace):
        write_users(workspace, shop)
        with workspace.users.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    assert [row["user_id"] for row in rows] == shop.ids
    found = {f"{column}={row[column]}" for row in rows for column in ("country", "activity")}
    named = [*(f"country={name}" for name in COUNTRIES), *(f"activity={name}" for name in ACTIVITIES)]
    assert found == set(named)


@pytest.mark.parametrize("every", [NORMAL_STORY.every, FAST_STORY.every])
def test_the_configuration_is_that_of_the_demo_at_each_storys_pace(tmp_path: Path, every: str) -> None:
    workspace = Workspace(tmp_path)
    write_configuration(workspace, url="http://127.0.0.1:1001", every=every)
    settings = load_settings(workspace.config)
    assert settings.database.get_secret_value() == f"sqlite:///{workspace.database}"
    (options,) = settings.comparisons
    assert to_schedule(options).interval.total_seconds() == float(every.removesuffix("s"))
    comparison = to_comparison(options)
    assert (comparison.name, comparison.measuring.k, comparison.measuring.metrics) == (DEMO_COMPARISON, 10, DEMO_METRICS)
    assert {rule.alert for rule in comparison.judging.rules} >= {alert for alert, _ in EXPECTED_ALERTS}
