"""`rankwatch demo`: environment, daemon and screen together, from the first run to the last."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import requests
import structlog
from rich.console import Console

from monitor.demo.environment import Environment, open_environment, sigterm_as_interrupt
from monitor.demo.screen import View, open_view
from monitor.demo.simulation import Simulation, StoreReader
from monitor.demo.story import FAST_STORY, NORMAL_STORY, Story
from monitor.demo.verification import DemoRecord, is_over, unmet_expectations
from monitor.demo.workspace import DEFAULT, Workspace
from monitor.ports import Store
from monitor.service import logs

INTERRUPTED = 130
_PATIENCE_S = 75.0
"""How long --fast waits for the end of a story that takes a fifth of that."""
_FRAME_S = 0.2


class DemoDaemon(Protocol):
    """What the demo asks of the daemon. ``url`` and ``store`` are there once it has started."""

    @property
    def url(self) -> str:
        """Where its web server listens, without a slash at the end."""

    @property
    def store(self) -> Store:
        """Its database."""

    def start(self) -> None:
        """Begin to run on schedule; returns once the web server answers. Leaves nothing behind when it raises."""

    def stop(self) -> None:
        """End the run under way and stop."""


DaemonFactory = Callable[[Path], DemoDaemon]
"""Makes the daemon of a configuration file, not yet started."""


def run_demo(*, fast: bool, directory: Path | None, console: Console, daemon_factory: DaemonFactory) -> int:
    """Play the demo; returns the exit code.

    With ``fast`` it ends by itself: 0 when exactly the expected story happened, 1 and what was missing when not, 130 when
    interrupted. Else it goes on until Ctrl-C or SIGTERM, and returns 0. ConfigError when the directory (``rankwatch-demo`` if
    None) cannot be used.
    """
    story = FAST_STORY if fast else NORMAL_STORY
    try:
        with (
            sigterm_as_interrupt(),
            open_environment(directory or DEFAULT, every=story.every) as stage,
            _logging_to(stage.place.log),
        ):
            return _play(stage, story, console, daemon_factory(stage.place.config), until_over=fast)
    except KeyboardInterrupt:
        return _goodbye(console, directory or DEFAULT, fast=fast)


def _play(stage: Environment, story: Story, console: Console, daemon: DemoDaemon, *, until_over: bool) -> int:
    daemon.start()
    try:
        play = Simulation(stage=stage, story=story, watcher=StoreReader(daemon.store), metrics_url=f"{daemon.url}/metrics")
        with open_view(console) as view:
            _perform(play, view, until_over=until_over)
        return _verdict(play, console)
    finally:
        daemon.stop()


def _perform(play: Simulation, view: View, *, until_over: bool) -> None:
    """Show frame after frame; without ``until_over`` only an interrupt ends it."""
    play.begin()
    while True:
        status = play.step()
        view.show(status)
        if until_over and (status.elapsed_s > _PATIENCE_S or is_over(status)):
            return
        time.sleep(_FRAME_S)


def _verdict(play: Simulation, console: Console) -> int:
    """Say whether the story went as it should; 0 or 1."""
    account = DemoRecord(
        turns=play.turns,
        seen=play.watcher.look(),
        notices=play.stage.on_call.notices,
        exposition=_scrape(play.metrics_url),
    )
    problems = unmet_expectations(account)
    for problem in problems:
        _print(console, f"demo failed: {problem}")
    if problems:
        _print(console, f"The daemon's log is {play.stage.place.log}.")
        return 1
    _print(
        console,
        f"The demo went as it should, in {play.elapsed_s:.0f} s: {len(account.seen.runs)} runs, quiet while both arms were "
        f"healthy, {len(account.notices)} messages to on-call, resolved after the repair.",
    )
    return 0


def _goodbye(console: Console, directory: Path, *, fast: bool) -> int:
    place = Workspace(directory)
    _print(console, f"Stopped. To look at what it left: rankwatch runs --config {place.config}")
    return INTERRUPTED if fast else 0


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _scrape(url: str) -> str:
    try:
        answer = requests.get(url, timeout=5)
        answer.raise_for_status()
    except requests.RequestException:
        return ""
    return answer.text


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Let the log go to the file instead of through the middle of the screen."""
    root, asked = logging.getLogger(), structlog.get_config()
    before, level = root.handlers[:], root.level
    logs.configure("json", "info")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(root.handlers[0].formatter)
    root.handlers[:] = [handler]
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        structlog.configure(**asked)
        handler.close()
