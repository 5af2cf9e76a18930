"""The two recommenders alone, for a rankwatch elsewhere that watches them: `rankwatch demo --recommenders HOST:PORT`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NoReturn

from aiohttp import web
from rich.console import Console

from monitor.demo.arms import Arms
from monitor.demo.ending import ended_by_sigterm
from monitor.demo.place import DEFAULT, occupy
from monitor.demo.serving import serve
from monitor.demo.story import NOTED, Scene, Story, next_day
from monitor.errors import ConfigError

UNSEEN = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""A fault after 12 minutes, repaired after 8, back after 22: time enough for rules that learn to have learned before it."""


def run_recommenders(
    address: tuple[str, int], *, directory: Path | None, console: Console, wait: Callable[[float], None] = time.sleep
) -> int:
    """Serve both arms under ``/baseline`` and ``/candidate``, retrained every day, until Ctrl-C or SIGTERM; returns 0.

    The users of the day stand in ``users.csv`` in the directory (``rankwatch-demo`` if None). ConfigError when the directory or
    the address cannot be used.
    """
    try:
        with ended_by_sigterm(), occupy(directory or DEFAULT) as place:
            arms = Arms(place=place)
            scenes = turn_days(arms, UNSEEN)
            begun = next(scenes)
            with _served(arms, address) as url:
                console.print(f"Recommenders serve {url}/baseline and {url}/candidate; users in {place.users}", soft_wrap=True)
                _go_on(begun, scenes, console, wait)
    except KeyboardInterrupt:
        return 0


@contextmanager
def _served(arms: Arms, address: tuple[str, int]) -> Iterator[str]:
    app, (host, port) = web.Application(), address
    app.add_subapp("/baseline", arms.baseline.app())
    app.add_subapp("/candidate", arms.candidate.app())
    with ExitStack() as stack:
        try:
            url = stack.enter_context(serve(app, name="recommenders", host=host, port=port))
        except OSError as error:
            msg = f"cannot serve the recommenders at {host}:{port}: {error.strerror}; choose another address"
            raise ConfigError(msg) from None
        yield url


def turn_days(arms: Arms, story: Story) -> Iterator[Scene]:
    """Train and serve one day after the other, and tell each once it is served.

    A chapter ends when its days are over: what its faults cause is seen elsewhere.
    """
    scene = Scene()
    while True:
        arms.serve(arms.train(scene.day, is_broken=scene.is_broken))
        yield scene
        scene = next_day(story, scene, ok_runs=story.runs_first, firing=story.alerts if scene.is_broken else 0)


def _go_on(scene: Scene, scenes: Iterator[Scene], console: Console, wait: Callable[[float], None]) -> NoReturn:
    """Let day after day pass; each chapter's beginning is a line."""
    while True:
        if scene.since_day == scene.day:
            console.print(f"day {scene.day}: {NOTED[scene.chapter]}", soft_wrap=True)
        wait(UNSEEN.day_s)
        scene = next(scenes)
