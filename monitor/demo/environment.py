"""Everything around the demo's daemon: the two recommenders, the users, on-call, and the configuration that names them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from rich.console import Console
from starlette.applications import Starlette
from starlette.routing import Mount

from monitor.demo.http_servers import HOST, OnCallServer, serve_app
from monitor.demo.recommenders import RecommenderServer, TrainedLists, retrain
from monitor.demo.story import CHAPTER_NOTES, Scene, Story, next_day
from monitor.demo.workspace import (
    DEFAULT_DIRECTORY,
    Workspace,
    choose_port,
    open_workspace,
    write_configuration,
    write_secret,
    write_users,
)
from monitor.demo.world import World
from monitor.service.interrupts import termination_raised


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoArms:
    """Both recommenders over one simulated world, whose users stand in the workspace's users file."""

    workspace: Workspace
    world: World = field(default_factory=World)
    baseline: RecommenderServer = field(default_factory=lambda: RecommenderServer({}))
    candidate: RecommenderServer = field(default_factory=lambda: RecommenderServer({}))

    def app(self, *more: Mount) -> Starlette:
        """The web application of both, under ``/baseline`` and ``/candidate``, and of what else is mounted there."""
        return Starlette(routes=[Mount("/baseline", self.baseline.app()), Mount("/candidate", self.candidate.app()), *more])

    def train(self, day: int, *, is_broken: bool) -> TrainedLists:
        """Train both arms on the day; nothing is served yet."""
        return retrain(self.world, day, is_broken=is_broken)

    def serve(self, trained: TrainedLists) -> None:
        """Serve the new lists, then publish the day's users."""
        # Users who left today keep their last lists: a run under way may still ask for them.
        left = self.world.left_on(trained.day)
        for arm, lists in ((self.baseline, trained.baseline), (self.candidate, trained.candidate)):
            arm.lists = {user: arm.lists[user] for user in left if user in arm.lists} | lists
        write_users(self.workspace, trained.history)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the daemon works with."""

    workspace: Workspace
    arms: DemoArms
    on_call: OnCallServer


@contextmanager
def open_environment(directory: Path, *, every: str) -> Iterator[Environment]:
    """Serve day 0 while the block lasts, with a configuration in the directory. ConfigError when it cannot be used."""
    with open_workspace(directory) as workspace:
        on_call = OnCallServer(write_secret(workspace))
        arms = DemoArms(workspace=workspace)
        arms.serve(arms.train(0, is_broken=False))
        with serve_app(arms.app(Mount("/on-call", on_call.app()))) as url:
            write_configuration(workspace, listen=f"{HOST}:{choose_port()}", url=url, every=every)
            yield Environment(workspace=workspace, arms=arms, on_call=on_call)


UNWATCHED_STORY = Story(day_s=120.0, every="1m", healthy_days=6, broken_days=4, calm_days=11)
"""A fault after 12 minutes, repaired after 8, back after 22: time enough for rules that learn to have learned before it."""


def run_recommenders(
    address: tuple[str, int], *, directory: Path | None, console: Console, wait: Callable[[float], None] = time.sleep
) -> int:
    """Serve both arms under ``/baseline`` and ``/candidate``, retrained every day, until Ctrl-C or SIGTERM; returns 0.

    The users of the day stand in ``users.csv`` in the directory (``rankwatch-demo`` if None). ConfigError when the directory or
    the address cannot be used.
    """
    try:
        with termination_raised(signal.default_int_handler), open_workspace(directory or DEFAULT_DIRECTORY) as workspace:
            arms = DemoArms(workspace=workspace)
            scenes = simulated_days(arms, UNWATCHED_STORY)
            first = next(scenes)
            with serve_app(arms.app(), *address) as url:
                console.print(
                    f"Recommenders serve {url}/baseline and {url}/candidate; users in {workspace.users}", soft_wrap=True
                )
                for scene in chain((first,), scenes):
                    if scene.since_day == scene.day:  # each chapter's beginning is a line
                        console.print(f"day {scene.day}: {CHAPTER_NOTES[scene.chapter]}", soft_wrap=True)
                    wait(UNWATCHED_STORY.day_s)
    except KeyboardInterrupt:
        pass
    return 0


def simulated_days(arms: DemoArms, story: Story) -> Iterator[Scene]:
    """Train and serve one day after the other; each scene is yielded once its day is served."""
    scene = Scene()
    while True:
        arms.serve(arms.train(scene.day, is_broken=scene.is_broken))
        yield scene
        # A chapter ends when its days are over: whoever watches the recommenders is elsewhere.
        scene = next_day(story, scene, ok_runs=story.runs_first, firing=story.alerts if scene.is_broken else 0)
