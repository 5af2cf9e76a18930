"""A real daemon in its own process, which kills itself with SIGKILL at one step of its work."""

import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import databases
from forking import ended, start
from monitor.pipeline import accumulator
from monitor.receivers.webhook import Webhook
from monitor.service.daemon.daemon import Daemon
from monitor.sources.file.joined import JoinedFiles
from monitor.storage import run_store
from monitor.storage.outbox import SqlOutbox
from monitor.storage.run_store import SqlRunStore

armed = threading.Event()


def die():
    if armed.is_set():
        os.kill(os.getpid(), signal.SIGKILL)


def before(owner, name):
    """Die when this method is called."""
    original = getattr(owner, name)

    def dying(*arguments, **options):
        die()
        return original(*arguments, **options)

    setattr(owner, name, dying)


def after(owner, name, when=lambda _: True):
    """Die after this method has returned such an answer."""
    original = getattr(owner, name)

    def dying(*arguments, **options):
        answer = original(*arguments, **options)
        if when(answer):
            die()
        return answer

    setattr(owner, name, dying)


STEPS = {
    "before claim": lambda: before(SqlRunStore, "claim"),
    "claim": lambda: after(SqlRunStore, "claim"),
    "pull": lambda: before(JoinedFiles, "read"),
    "score": lambda: before(accumulator, "score_pairs"),
    "store": lambda: after(run_store, "store_results"),
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


def serve(config, step):
    """A daemon on this configuration until SIGTERM. After SIGUSR1 it dies at the step."""
    # To open a database of DuckDB is half of a run.
    databases.shares_databases = lambda: True  # type: ignore[attr-defined]
    if step is not None:
        STEPS[step]()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    signal.signal(signal.SIGUSR1, lambda *_: armed.set())
    with Daemon(Path(config)) as daemon:
        daemon.start()
        while not asked.wait(0.2):
            pass  # a signal that reached another thread is handled here


@contextmanager
def dying_daemon(config, step=None):
    """A process that serves, killed at the end if it still runs."""
    process = start(serve, str(config), step)
    try:
        yield process
    finally:
        process.kill()
        ended(process)
