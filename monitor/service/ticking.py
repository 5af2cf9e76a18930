"""What happens at each tick of a schedule: run the newest slot, and count those that went by."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import structlog

from monitor.errors import MonitorError
from monitor.model import RunResult, spell
from monitor.ports import Clock, Publisher, Store
from monitor.service.clock import SKEW
from monitor.service.running import Runner, Watched
from monitor.service.slots import count_skipped

_COUNTED = 10_000

log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Ticker:
    """Runs slots for the daemon. ``busy_until`` is when this process ended its last run of each comparison.

    Slots that were run while a clock was ahead of this one come again, and are measured anew: each once, so that neither the
    runs nor the alerts of a wrong clock hold up those of the right one. By comparison: ``ahead`` is the newest slot that was
    stored when the clock was found to be behind, ``repeated`` the last one that was run again.
    """

    runner: Runner
    store: Store
    publisher: Publisher
    clock: Clock
    busy_until: dict[str, datetime] = field(default_factory=dict)
    ahead: dict[str, datetime] = field(default_factory=dict)
    repeated: dict[str, datetime] = field(default_factory=dict)

    def tick(self, watched: Watched, receivers: tuple[str, ...]) -> RunResult | None:
        """Run the comparison's newest slot unless it was run already, here or elsewhere. What goes wrong is logged."""
        name = watched.comparison.name
        try:
            return self._run_latest(name, watched, receivers)
        except MonitorError as error:
            log.error("run not done", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
        except Exception:
            log.exception("run not done", comparison=name)
        return None

    def _run_latest(self, name: str, watched: Watched, receivers: tuple[str, ...]) -> RunResult | None:
        now = self.clock.now()
        slot = watched.schedule.latest(now)
        last = self.runner.patiently(partial(self.store.last_slot, name))
        if last is not None and last > now + SKEW:
            self.ahead[name] = last
        is_rerun = name in self.ahead and slot <= self.ahead[name] and self._rewind(name, slot)
        result = self.runner.run(watched, slot, receivers=receivers, rerun=is_rerun)
        if result is not None:
            for reason, count in count_skipped(_passed(watched, last, slot), self.busy_until.get(name)).items():
                self.publisher.slots_skipped(name, reason, count)
            self.busy_until[name] = self.clock.now()
        return result

    def _rewind(self, name: str, slot: datetime) -> bool:
        """Make way for a slot that lies before what was stored by a clock that ran ahead; False when that was done already."""
        if self.repeated.get(name) == slot:
            return False
        log.warning(
            "clock was set back: slots that were run before are run again", comparison=name, newest=spell(self.ahead[name])
        )
        self.runner.patiently(partial(self.store.rewind, name, slot=slot, now=self.clock.now()))
        self.repeated[name] = slot
        return True


def _passed(watched: Watched, last: datetime | None, slot: datetime) -> list[datetime]:
    """Slots strictly between the last one claimed and this one; of a very long absence the latest ones only."""
    if last is None:
        return []
    start = max(last, slot - _COUNTED * watched.schedule.interval)
    return [each for each in watched.schedule.between(start, slot) if last < each < slot]
