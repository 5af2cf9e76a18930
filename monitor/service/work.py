"""What the daemon does with comparisons: run what is due, measure labels that arrive, show what is stored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from monitor.ports import Clock
from monitor.service.labelling import fill_quietly
from monitor.service.loops import DeliveryLoops
from monitor.service.running import Runner
from monitor.service.staleness import Staleness
from monitor.service.ticking import Ticker
from monitor.service.upkeep import Upkeep
from monitor.service.wiring import Wiring, settle_quietly
from monitor.storage import SqlStore


@dataclass(slots=True, kw_only=True)
class Work:
    """Each method is one job, in a thread of its own. ``wiring`` is the one in force at the moment.

    ``hasten`` lets a name of the timetable be due at once.
    """

    store: SqlStore
    clock: Clock
    runner: Runner
    ticker: Ticker
    upkeep: Upkeep
    loops: DeliveryLoops
    wiring: Callable[[], Wiring]
    leads: Callable[[], bool]
    is_stopping: Callable[[], bool]
    hasten: Callable[[str], None]
    staleness: Staleness = field(init=False)

    def __post_init__(self) -> None:
        self.staleness = Staleness(store=self.store, clock=self.clock)

    def tick(self, name: str) -> None:
        """Run this comparison's newest slot, unless it was run already, and tell what came of it."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return
        result = self.ticker.tick(watched, wiring.receiver_names)
        if result is None:
            return
        if wiring is not self.wiring():  # a run that began before a reload may have raised alerts of rules that are gone since
            settle_quietly(self.wiring(), self.store, self.clock)
        self.refresh()
        if any(transition.is_announced for transition in result.transitions):
            self.loops.wake()
        self.hasten(f"-fill-{name}")

    def backfill(self, name: str) -> None:
        """Measure relevance that has arrived since for this comparison's runs."""
        wiring = self.wiring()
        watched = wiring.watched.get(name)
        if watched is None or self.is_stopping():
            return

        def is_over() -> bool:
            return self.is_stopping() or self.wiring() is not wiring

        if fill_quietly(watched, self.store, self.clock, should_stop=is_over):
            self.refresh()

    def refresh(self) -> None:
        """Show what is stored now, and look what was abandoned and what has gone stale."""
        wiring, leads = self.wiring(), self.leads()
        if self.upkeep.refresh(tuple(wiring.watched), leads=leads, at_work=tuple(self.runner.claims)):
            for name in wiring.watched:
                self.hasten(name)
        if leads and self.staleness.look(wiring.watched.values(), self.upkeep.latest, wiring.receiver_names):
            self.loops.wake()

    def size(self) -> None:
        """Show what the database takes."""
        self.upkeep.size()

    def prune(self) -> None:
        """Delete what is older than the configuration says."""
        self.upkeep.prune(self.wiring().settings.retention)
