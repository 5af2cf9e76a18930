"""One process for test_deliver: stores a firing or delivers what is due, and may kill itself at a step on the way.

Arguments: database URL, webhook URL, what to do (``store``, ``deliver``), the time, the step to die at.
"""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from factories import SLOT, comparison, rule, summary
from monitor.alerts import judge_run
from monitor.model import RunResult, RunStatus, Transition
from monitor.pipeline.deliver import deliver_due
from monitor.ports import Publisher, Receiver, Store
from monitor.receivers import ReceiverOptions, open_receivers
from monitor.storage import open_store


def store_run(store: Store, slot: datetime, mean: float, receivers: Sequence[str]) -> tuple[Transition, ...]:
    """Judge one run of one rule with ``for: 1`` and store it whole."""
    watched = comparison(rules=(rule(for_runs=1),))
    claim = store.claim(
        watched.name, slot, owner="run", now=slot, until=slot + timedelta(hours=1), config_hash=watched.config_hash, rerun=False
    )
    assert claim is not None
    found = (summary(mean=mean),)
    states, transitions = judge_run(
        watched,
        slot=slot,
        at=slot,
        status=RunStatus.OK,
        run_reason=None,
        summaries=found,
        states=store.alert_states(watched.name),
    )
    result = RunResult(
        claim=claim,
        status=RunStatus.OK,
        reason=None,
        finished_at=slot,
        config_hash=watched.config_hash,
        k=watched.k,
        summaries=found,
        states=states,
        transitions=transitions,
    )
    assert store.finish(result, receivers=receivers)
    return transitions


@dataclass(slots=True)
class HeldClock:
    at: datetime

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@dataclass(slots=True)
class Mortal:
    """Hands every call on, and kills the process before or after one of them."""

    inner: Any
    before: str = ""
    after: str = ""

    def __getattr__(self, name: str) -> Any:
        target = getattr(self.inner, name)
        if name not in (self.before, self.after):
            return target

        def call(*args: Any, **kwargs: Any) -> Any:
            if name == self.before:
                os.kill(os.getpid(), signal.SIGKILL)
            target(*args, **kwargs)
            os.kill(os.getpid(), signal.SIGKILL)

        return call


class Silent:
    def notified(self, receiver: str, outcome: str) -> None:
        """Count nothing."""


def main() -> None:
    database, url, action, now, step = sys.argv[1:]
    entry = ReceiverOptions.model_validate({"webhook": {"url": url}})
    (receiver,) = open_receivers([entry], external_url="http://rankwatch.test")
    with closing(open_store(database, create=True)) as store, closing(receiver):
        if action == "store":
            store_run(store, SLOT, 0.1, [receiver.name])
            if step == "after storing":
                os.kill(os.getpid(), signal.SIGKILL)
            return
        outbox: Any = Mortal(store, before="record" if step == "before record" else "")
        out: Any = Mortal(receiver, before="send" if step == "before send" else "")
        deliver(outbox, out, datetime.fromisoformat(now))


def deliver(store: Store, receiver: Receiver, now: datetime) -> None:
    silent: Any = Silent()
    publisher: Publisher = silent
    deliver_due(store, receiver, HeldClock(now), owner=str(os.getpid()), publisher=publisher)


if __name__ == "__main__":
    main()
