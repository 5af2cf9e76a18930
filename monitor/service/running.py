"""Run one slot of one comparison: claim, execute, store, publish."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import stamina
import structlog

from monitor.errors import ConfigError, DatabaseError
from monitor.model import Claim, Comparison, RunResult, RunStatus
from monitor.pipeline.measure import Arms
from monitor.pipeline.run import conclude, execute
from monitor.ports import Clock, Publisher, Store
from monitor.settings import Schedule

STORING = timedelta(minutes=5)
"""How long beyond its deadline a run keeps its claim, to store what it found."""

log = structlog.get_logger(__name__)


def whoami() -> str:
    """Name of this process among those that share a database."""
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A comparison with its sources opened and its schedule; ``in_use`` is held while a run reads from the sources."""

    comparison: Comparison
    arms: Arms
    schedule: Schedule
    in_use: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def close(self, timeout_s: float = -1) -> None:
        """Close the sources once no run uses them any more; with a time limit, at its end whatever uses them."""
        is_free = self.in_use.acquire(timeout=timeout_s)
        self.arms.close()
        if is_free:
            self.in_use.release()


def chosen(watched: Mapping[str, Watched], name: str | None) -> tuple[Watched, ...]:
    """The comparison of that name, or all of them for None; ConfigError when there is none of that name."""
    if name is None:
        return tuple(watched.values())
    if name not in watched:
        msg = f"no comparison named {name!r}: the configuration has {', '.join(watched)}"
        raise ConfigError(msg)
    return (watched[name],)


@dataclass(slots=True, kw_only=True)
class Runner:
    """Runs slots against one store. ``claims`` holds what is being run at this moment."""

    store: Store
    clock: Clock
    owner: str = field(default_factory=whoami)
    publisher: Publisher | None = None
    claims: dict[int, Claim] = field(default_factory=dict)

    def run(
        self,
        watched: Watched,
        slot: datetime,
        *,
        receivers: tuple[str, ...],
        rerun: bool = False,
        judged_at: Clock | None = None,
    ) -> RunResult | None:
        """Run the slot; None when it was not to be had, or when the claim was lost before the result was stored.

        ``receivers`` are owed every start and end of a firing. With ``judged_at`` transitions carry that clock's time.
        """
        comparison = watched.comparison
        now = self.clock.now()
        claim = self.store.claim(
            comparison.name,
            slot,
            owner=self.owner,
            now=now,
            until=now + comparison.deadline + STORING,
            config_hash=comparison.config_hash,
            rerun=rerun,
        )
        if claim is None:
            return None
        with structlog.contextvars.bound_contextvars(comparison=comparison.name, run=claim.run_id, slot=slot.isoformat()):
            self.claims[claim.run_id] = claim
            try:
                result = self._execute(watched, claim, judged_at or self.clock)
                result = replace(result, finished_at=self.clock.now())
                return result if self._store(result, receivers) else None
            finally:
                self.claims.pop(claim.run_id, None)

    def _execute(self, watched: Watched, claim: Claim, clock: Clock) -> RunResult:
        states = self.store.alert_states(watched.comparison.name)
        try:
            with watched.in_use:
                return execute(watched.comparison, watched.arms, claim, states, clock)
        except Exception as error:
            log.exception("run broke")
            reason = f"internal error: {type(error).__name__}; the log has the traceback"
            return conclude(watched.comparison, claim, states, clock, status=RunStatus.FAILED, reason=reason)

    def _store(self, result: RunResult, receivers: tuple[str, ...]) -> bool:
        """Store the result, again while the database is briefly away; False when the claim was lost."""
        for attempt in stamina.retry_context(on=_may_pass, attempts=6, timeout=120.0, wait_max=20.0):
            with attempt:
                stored = self.store.finish(result, receivers=receivers)
        if not stored:
            log.warning("result dropped: the claim was taken over", status=result.status)
            return False
        self._tell(result)
        return True

    def _tell(self, result: RunResult) -> None:
        paired = result.coverage.all.paired if result.coverage else 0
        say = log.info if result.status is RunStatus.OK else log.warning
        say("run finished", status=result.status, reason=result.reason, paired=paired)
        for transition in result.transitions:
            log.warning(
                "alert changed",
                to=transition.to_state,
                alert=transition.alert,
                segment=transition.segment,
                reason=transition.reason,
            )
        if self.publisher is not None:
            self.publisher.run_finished(result)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, DatabaseError) and not error.permanent
