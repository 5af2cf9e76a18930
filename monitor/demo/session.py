"""`rankwatch demo`: environment, daemon and screen together, from the first run to the last."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import requests
import structlog
from rich.console import Console

from monitor.demo.environment import Environment, open_environment
from monitor.demo.screen import open_view
from monitor.demo.simulation import DemoStatus, Simulation, StoreReader
from monitor.demo.story import FAST_STORY, NORMAL_STORY, Story
from monitor.demo.verification import DemoRecord, is_over, unmet_expectations
from monitor.demo.workspace import DEFAULT_DIRECTORY, Workspace
from monitor.service import logs
from monitor.service.daemon.daemon import Daemon
from monitor.service.interrupts import termination_raised

INTERRUPTED = 130
# How long --fast waits for the end of a story that takes a fifth of that.
_PATIENCE_S = 180.0
_FRAME_S = 0.2


def run_demo(*, fast: bool, directory: Path | None, console: Console, daemon_factory: Callable[[Path], Daemon] = Daemon) -> int:
    """Run the demo; returns the exit code.

    With ``fast`` it ends by itself: 0 when exactly the expected story happened, 1 and what was missing when not, 130 when
    interrupted. Else it goes on until Ctrl-C or SIGTERM, and returns 0. ConfigError when the directory (``rankwatch-demo`` if
    None) cannot be used.
    """
    story, place = FAST_STORY if fast else NORMAL_STORY, directory or DEFAULT_DIRECTORY
    try:
        with (
            termination_raised(signal.default_int_handler),  # as Ctrl-C, so that the terminal is left in order
            open_environment(place, every=story.every) as environment,
            _logging_to(environment.workspace.log),
        ):
            return _run(environment, story, console, daemon_factory(environment.workspace.config), until_over=fast)
    except KeyboardInterrupt:
        _print(console, f"Stopped. To look at what it left: rankwatch runs --config {Workspace(place).config}")
        return INTERRUPTED if fast else 0


def _run(environment: Environment, story: Story, console: Console, daemon: Daemon, *, until_over: bool) -> int:
    daemon.start()
    try:  # what goes wrong from here on must stop the daemon, too
        simulation = Simulation(environment=environment, story=story, reader=StoreReader(daemon.store), url=daemon.url)
        with open_view(console) as show:
            _simulate(simulation, show, until_over=until_over)
        return _verify(simulation, console)
    finally:
        daemon.stop()


def _simulate(simulation: Simulation, show: Callable[[DemoStatus], None], *, until_over: bool) -> None:
    """Show frame after frame; without ``until_over`` only an interrupt ends it."""
    simulation.begin()
    while True:
        status = simulation.step()
        show(status)
        if until_over and (status.elapsed_s > _PATIENCE_S or is_over(status)):
            return
        time.sleep(_FRAME_S)


def _verify(simulation: Simulation, console: Console) -> int:
    """Print whether the story went as it should; 0 or 1."""
    record = DemoRecord(
        chapters=simulation.chapters,
        seen=simulation.reader.read(),
        received=simulation.environment.on_call.received,
        exposition=_scrape(f"{simulation.url}/metrics"),
    )
    problems = unmet_expectations(record)
    for problem in problems:
        _print(console, f"demo failed: {problem}")
    if problems:
        _print(console, f"The daemon's log is {simulation.environment.workspace.log}.")
        return 1
    _print(
        console,
        f"The demo went as it should, in {simulation.elapsed_s:.0f} s: {len(record.seen.runs)} runs, quiet while both arms "
        f"were healthy, {len(record.received)} messages to on-call, resolved after the repair.",
    )
    return 0


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
    """Write the log to the file, not into the middle of the screen."""
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
