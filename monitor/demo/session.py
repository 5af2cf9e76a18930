"""Runs the demo: starts the recommenders, on-call and the daemon, and stops them at the end.

Also prepares the directory of the demo.
"""

import fcntl
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from monitor.boundary.files import replace_file
from monitor.demo import simulation
from monitor.demo.servers import OnCall, Recommenders, Shop, serve_routes
from monitor.model.errors import ConfigError
from monitor.service import logs
from monitor.service.daemon.daemon import Daemon
from monitor.service.interrupts import termination_raised

DEFAULT_DIRECTORY = Path("rankwatch-demo")
_MARKER = ".made-by-rankwatch-demo"
INTERRUPTED = 130
_PATIENCE_S = 180.0
"""How long --fast waits for the end of the story, which usually comes after a fifth of this time.
"""
_LOOK_S = 0.2
_STYLES = {
    "STORY": "cyan",
    "RUN": "dim",
    "FIRING": "bold red",
    "RESOLVED": "bold green",
    "NOTIFIED": "magenta",
}


def run_demo(
    *,
    fast: bool,
    directory: Path | None,
    console: Console,
    daemon_factory: Callable[[Path], Daemon] = Daemon,
) -> int:
    """Run the demo in the directory (default: ``rankwatch-demo``), and return the exit code.

    With ``fast`` the code is 0 if the story happened exactly as expected, and 1 otherwise. After an
    interrupt it is 130. Without ``fast`` the demo runs until Ctrl-C or SIGTERM, and the code is 0.

    Raises ConfigError if the directory cannot be used.
    """
    story = simulation.FAST_STORY if fast else simulation.NORMAL_STORY
    workspace = Workspace(directory or DEFAULT_DIRECTORY)
    try:
        with ExitStack() as stack:
            # Handle SIGTERM like Ctrl-C, so that the terminal is restored.
            stack.enter_context(termination_raised(signal.default_int_handler))
            stack.enter_context(open_workspace(workspace))
            recommenders = Recommenders(Shop())
            on_call = OnCall()
            write_users(workspace, recommenders.shop)
            url = stack.enter_context(serve_routes(recommenders.route, on_call.route))
            write_configuration(workspace, url=url, every=story.every)
            # Write the log to a file, so that the terminal shows only the story.
            log_file = stack.enter_context(workspace.log.open("w", encoding="utf-8"))
            logs.configure_logs("json", "info", log_file)
            daemon = daemon_factory(workspace.config)
            daemon.start()
            stack.callback(daemon.stop)
            _print_line(console, f"Open {daemon.url}/ to watch. Ctrl-C stops everything.")
            _print_line(console, f"Configuration, database and log are in {workspace.directory}.")
            played = simulation.Simulation(
                recommenders=recommenders,
                on_call=on_call,
                story=story,
                store=daemon.store,
            )
            _print_story(played, console, until_over=fast)
            return _report_unmet_expectations(played, workspace, console)
    except KeyboardInterrupt:
        _print_line(
            console,
            f"Stopped. To list the stored runs: rankwatch runs --config {workspace.config}",
        )
        return INTERRUPTED if fast else 0


def _print_story(played: simulation.Simulation, console: Console, *, until_over: bool) -> None:
    """Print what happens.

    With ``until_over`` this ends when the story is over. Otherwise only an interrupt ends it.
    """
    printed = set[simulation.LogNote]()
    while True:
        played.step()
        for note in played.notes():
            if note not in printed:
                printed.add(note)
                line = f"{note.at.astimezone():%H:%M:%S} {note.kind:<8} {note.text}"
                text = Text(line, style=_STYLES[note.kind])
                console.print(text, highlight=False, soft_wrap=True)
        if until_over and (played.elapsed_s > _PATIENCE_S or played.is_over):
            return
        time.sleep(_LOOK_S)


def _report_unmet_expectations(
    played: simulation.Simulation, workspace: "Workspace", console: Console
) -> int:
    problems = list(played.unmet_expectations())
    for problem in problems:
        _print_line(console, f"demo failed: {problem}")
    if problems:
        _print_line(console, f"The log of the daemon is {workspace.log}.")
        return 1
    _print_line(
        console,
        f"The demo went as it should, in {played.elapsed_s:.0f} s: {len(played.runs)} runs, quiet "
        f"while both arms were healthy, {len(played.received)} messages to on-call, resolved after "
        "the repair.",
    )
    return 0


def run_recommenders(address: tuple[str, int], *, directory: Path | None, console: Console) -> int:
    """Write ``users.csv``, and serve both arms until Ctrl-C or SIGTERM.

    Both models are retrained every day. Raises ConfigError if the directory cannot be used.
    """
    host, port = address
    recommenders = Recommenders(Shop())
    scene = simulation.StoryDay()
    workspace = Workspace(directory or DEFAULT_DIRECTORY)
    try:
        with (
            termination_raised(signal.default_int_handler),
            open_workspace(workspace),
            serve_routes(recommenders.route, host=host, port=port) as url,
        ):
            write_users(workspace, recommenders.shop)
            addresses = f"{url}/baseline and {url}/candidate"
            _print_line(
                console,
                f"The recommenders answer at {addresses}. The users are in {workspace.users}",
            )
            while True:
                if scene.since_day == scene.day:
                    _print_line(
                        console, f"day {scene.day}: {simulation.CHAPTER_TEXTS[scene.chapter]}"
                    )
                time.sleep(simulation.UNWATCHED_STORY.day_s)
                # The daemon is another process, so it is unknown what it has noticed. A chapter
                # ends after its number of days.
                scene = simulation.next_day(simulation.UNWATCHED_STORY, scene)
                recommenders.retrain(scene.day, is_broken=scene.is_broken)
    except KeyboardInterrupt:
        return 0


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


class Workspace:
    """The directory of the demo, and the paths of its files."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "rankwatch.yaml"
        self.database = directory / "rankwatch.db"
        self.users = directory / "users.csv"
        self.log = directory / "rankwatch.log"


@contextmanager
def open_workspace(workspace: Workspace) -> Iterator[None]:
    """Create or empty the directory, and lock it while the block runs.

    Raises ConfigError if the directory has other files, is used by another demo, or cannot be
    written.
    """
    directory = workspace.directory
    try:
        directory.mkdir(parents=True, exist_ok=True)
        marker = directory / _MARKER
        if not marker.exists() and any(directory.iterdir()):
            raise ConfigError(
                f"{directory} has files that the demo did not write: name an empty or new "
                "directory with --dir"
            )
        lock = marker.open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot write to {directory}: {error.strerror}: name another directory with --dir"
        ) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(
                f"another demo is running in {directory}: stop it, or name another directory "
                "with --dir"
            ) from None
        # Delete only files that an earlier demo wrote.
        for path in (
            workspace.config,
            *directory.glob(f"{workspace.database.name}*"),
            workspace.users,
            workspace.log,
        ):
            path.unlink(missing_ok=True)
        (directory / ".gitignore").write_text("*\n", encoding="utf-8")
        yield


def write_users(workspace: Workspace, shop: Shop) -> None:
    """Write the file of users in one step, because another process may be reading it."""
    users = pd.DataFrame(
        {"user_id": shop.ids, "activity": shop.activities, "country": shop.countries}
    )
    replace_file(workspace.users, users.to_csv(index=False).encode())


def write_configuration(workspace: Workspace, *, url: str, every: str) -> None:
    """Write the configuration of the daemon. ``url`` is the address of recommenders and on-call."""
    text = _TEXT.format(
        url=url,
        comparison=simulation.DEMO_COMPARISON,
        every=every,
        metrics=json.dumps(simulation.DEMO_METRICS),
    )
    workspace.config.write_text(text, encoding="utf-8")


_TEXT = """\
# Written by `rankwatch demo`. While the demo runs, its recommenders answer at the addresses below.
database: sqlite:///rankwatch.db          # in the directory of this file
listen: 127.0.0.1:0                       # any free port: /metrics, /-/healthy, /-/ready

comparisons:
  - name: {comparison}
    every: {every}                             # real configurations use 15m or 1h
    k: 10

    baseline:                             # the model in use
      http:
        url: "{url}/baseline/api/recommend/{{user}}"
        items: "@"                        # the answer is the list of items, best first
    candidate:                            # the model on trial
      http:
        url: "{url}/candidate/api/recommend/{{user}}"
        items: "@"

    users:
      file: {{path: users.csv, user: user_id}}
      segments: [country, activity]       # columns of users.csv
      sample: 300                         # the number of users that each run asks for

    metrics: {metrics}

    rules:
      - alert: SimilarityLow              # the mean over all users can hide one segment
        metric: rbo(p=0.9)
        statistic: mean
        segments: each
        below: 0.4
        resolve_above: 0.5
        for: 2                            # runs in a row
        min_users: 30
        severity: critical
      - alert: ManyUsersApart             # the share of users with almost disjoint lists
        metric: rbo(p=0.9)
        statistic: share_below(0.3)
        above: 0.1
        resolve_below: 0.05
        for: 2
        min_users: 100
        severity: warning

receivers:
  - webhook: {{url: "{url}/on-call/page"}}
"""
