"""A daemon that dies: real, in a process of its own, killed with SIGKILL at one labelled step of its work."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from forking import ended, start
from monitor.pipeline import accumulator
from monitor.receivers.webhook import Webhook
from monitor.service.daemon.daemon import Daemon
from monitor.sources.file.joined import JoinedFiles
from monitor.storage import run_store
from monitor.storage.outbox import SqlOutbox
from monitor.storage.run_store import SqlRunStore


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def before(owner: Any, name: str) -> None:
    """Die when it is called."""

    def dying(*_arguments: Any, **_options: Any) -> Any:
        die()

    setattr(owner, name, dying)


def after(owner: Any, name: str, when: Callable[[Any], bool] = lambda _: True) -> None:
    """Die once it has returned something of this kind."""
    original = getattr(owner, name)

    def dying(*arguments: Any, **options: Any) -> Any:
        answer = original(*arguments, **options)
        if when(answer):
            die()
        return answer

    setattr(owner, name, dying)


STEPS: dict[str, Callable[[], None]] = {
    "before claim": lambda: before(SqlRunStore, "claim"),
    "claim": lambda: after(SqlRunStore, "claim"),
    "pull": lambda: before(JoinedFiles, "read"),
    "score": lambda: before(accumulator, "score_pairs"),
    "store": lambda: after(run_store, "replace_results"),
    "before commit": lambda: after(run_store, "store_alerts"),
    "commit": lambda: after(SqlRunStore, "finish"),
    "claim of the transition": lambda: after(SqlOutbox, "claim_deliveries", bool),
    "decision": lambda: after(SqlOutbox, "firing_snapshot"),
    "mark": lambda: after(SqlOutbox, "mark_sending"),
    "before send": lambda: before(Webhook, "send"),
    "after send": lambda: after(Webhook, "send"),
    "before record": lambda: before(SqlOutbox, "record"),
    "after record": lambda: after(SqlOutbox, "record"),
}
"""Every step of a run and of a delivery, in order."""

BETWEEN_SEND_AND_RECORD = ("after send", "before record")


def serve(config: str, step: str | None) -> None:
    """A daemon on this configuration until SIGTERM, or until it dies at the step."""
    if step is not None:
        STEPS[step]()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    with Daemon(Path(config)) as daemon:
        daemon.start()
        asked.wait()


@contextmanager
def dying_daemon(config: Path, step: str | None = None) -> Iterator[BaseProcess]:
    """A process that serves, killed at the end if it still runs."""
    process = start(serve, str(config), step)
    try:
        yield process
    finally:
        process.kill()
        ended(process, 10)
