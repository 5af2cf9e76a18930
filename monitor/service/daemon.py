"""The daemon: schedule, loops, web server; start, reload, stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from monitor import __version__
from monitor.errors import ConfigError, DatabaseError, MonitorError
from monitor.export import PrometheusPublisher
from monitor.ports import Clock
from monitor.service.clock import SystemClock
from monitor.service.delivering import DeliveryLoop
from monitor.service.running import Runner, Watched
from monitor.service.slots import count_skipped
from monitor.service.wiring import Wiring, retire_outdated, wire
from monitor.settings import Settings, load
from monitor.storage import SqlStore, open_store
from monitor.web import WebServer, create_app

REFRESH = timedelta(seconds=15)
"""How often what other daemons stored, the outbox and abandoned runs are looked up."""
PRUNE = timedelta(hours=1)
STOP_S = 10.0
"""How long running runs may go on after a stop was asked for; then their slots are given back."""
_RUNS_AT_ONCE = 64

log = structlog.get_logger(__name__)


class Daemon:
    """One process that watches all comparisons of one configuration file.

    ``start`` raises MonitorError when the configuration, the database or the address cannot be used; afterwards only ``stop``
    ends it. ``reload`` keeps the old configuration when the new one cannot be used.
    """

    def __init__(self, config: Path, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._publisher = PrometheusPublisher(version=__version__)
        self._wiring: Wiring
        self._store: SqlStore
        self._runner: Runner
        self._web: WebServer
        self._scheduler: BackgroundScheduler
        self._loops: tuple[DeliveryLoop, ...] = ()
        self._busy_until: dict[str, datetime] = {}
        self._published = False
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the web server listens."""
        return self._web.url

    @property
    def store(self) -> SqlStore:
        """The database."""
        return self._store

    def start(self) -> None:
        """Open everything and begin; the first run of each comparison starts at once unless its slot was run already."""
        self._wiring = wire(load(self._config))
        settings = self._wiring.settings
        self._store = open_store(settings.database, create=True)
        self._runner = Runner(store=self._store, clock=self._clock, publisher=self._publisher)
        self._web = WebServer(create_app(metrics=self._publisher.render, health=self), *settings.listen_address)
        self._web.start()
        self._publisher.reloaded(ok=True, at=self._clock.now())
        self._settle()
        self._scheduler = _scheduler()
        self._scheduler.start()
        self._schedule()
        log.info("rankwatch started", version=__version__, url=self.url, comparisons=len(self._wiring.watched))

    def stop(self) -> None:
        """Begin nothing new, let what runs end within STOP_S, give back the slots of what did not, and close everything."""
        self._stopping.set()
        self._scheduler.pause()
        deadline = self._clock.monotonic() + STOP_S
        while self._runner.claims and self._clock.monotonic() < deadline:
            self._stopping.wait(0)
            threading.Event().wait(0.05)
        for claim in list(self._runner.claims.values()):
            log.warning("run given back: it did not end in time", comparison=claim.comparison, slot=claim.slot.isoformat())
            self._store.release(claim)
        self._scheduler.shutdown(wait=False)
        for loop in self._loops:
            loop.stop(timeout_s=STOP_S)
        self._web.stop()
        self._store.close()
        log.info("rankwatch stopped")

    def reload(self) -> bool:
        """Read the configuration again; False, with the old one still in force, when the new one cannot be used."""
        try:
            new = wire(self._reloadable(load(self._config)))
        except MonitorError as error:
            log.error("configuration not reloaded; the old one stays in force", reason=str(error))  # noqa: TRY400 - no traceback
            self._publisher.reloaded(ok=False, at=self._clock.now())
            return False
        old, self._wiring = self._wiring, new
        self._publisher.reloaded(ok=True, at=self._clock.now())
        self._settle()
        self._schedule()
        threading.Thread(target=old.close_sources, name="close-sources", daemon=True).start()
        log.info("configuration reloaded", comparisons=len(new.watched))
        return True

    def _reloadable(self, new: Settings) -> Settings:
        old = self._wiring.settings
        changed = [
            key
            for key, is_same in (
                ("database", new.database.get_secret_value() == old.database.get_secret_value()),
                ("listen", new.listen_address == old.listen_address),
            )
            if not is_same
        ]
        if changed:
            msg = f"{' and '.join(changed)} cannot change while the daemon runs: restart it, or put back the old value"
            raise ConfigError(msg)
        return new

    def _settle(self) -> None:
        """Bring deliveries, alert states and metrics in line with the configuration in force."""
        for loop in self._loops:
            loop.stop(timeout_s=STOP_S)
        wiring = self._wiring
        self._loops = tuple(
            DeliveryLoop(
                store=self._store,
                receiver=receiver,
                clock=self._clock,
                publisher=self._publisher,
                owner=self._runner.owner,
            )
            for receiver in wiring.receivers
        )
        names = tuple(wiring.watched)
        intervals = {name: watched.schedule.interval for name, watched in wiring.watched.items()}
        self._publisher.watch(names, wiring.receiver_names, intervals=intervals)
        retire_outdated(wiring, self._store, self._clock)
        self._refresh()
        for loop in self._loops:
            loop.start()

    def _schedule(self) -> None:
        """One job a comparison and the housekeeping, in place of all earlier jobs."""
        self._scheduler.remove_all_jobs()
        now = self._clock.now()
        for name, watched in self._wiring.watched.items():
            self._scheduler.add_job(self._tick, watched.schedule.trigger(), args=(name,), id=name, next_run_time=now)
        self._scheduler.add_job(self._refresh, "interval", seconds=REFRESH.total_seconds(), id="-refresh")
        self._scheduler.add_job(self._prune, "interval", seconds=PRUNE.total_seconds(), id="-prune")

    def _tick(self, name: str) -> None:
        """Run the newest slot of the comparison, unless it was run already, here or elsewhere."""
        watched = self._wiring.watched.get(name)
        if watched is None or self._stopping.is_set():
            return
        try:
            self._run_latest(name, watched)
        except MonitorError as error:
            log.error("run not done", comparison=name, reason=str(error))  # noqa: TRY400 - its text says all
        except Exception:
            log.exception("run not done", comparison=name)

    def _run_latest(self, name: str, watched: Watched) -> None:
        slot = watched.schedule.latest(self._clock.now())
        last = self._store.last_slot(name)
        result = self._runner.run(watched, slot, receivers=self._wiring.receiver_names)
        if result is None:
            return
        if last is not None and last < slot:
            passed = watched.schedule.between(last, slot)[1:-1]
            for reason, count in count_skipped(passed, self._busy_until.get(name)).items():
                self._publisher.slots_skipped(name, reason, count)
        self._busy_until[name] = self._clock.now()
        self._refresh()
        if any(transition.is_announced for transition in result.transitions):
            for loop in self._loops:
                loop.wake()

    def _refresh(self) -> None:
        """Show what is stored now, and mark what was abandoned."""
        try:
            self._store.abandon_expired(self._clock.now())
            self._publisher.publish(self._store.latest(tuple(self._wiring.watched)))
            waiting = self._store.outbox(self._clock.now())
        except DatabaseError as error:
            log.error("database not read", reason=str(error))  # noqa: TRY400 - its text says all
            return
        self._publisher.outbox(
            {name: count for name, (count, _) in waiting.items()}, {name: oldest for name, (_, oldest) in waiting.items()}
        )
        self._published = True

    def _prune(self) -> None:
        retention = self._wiring.settings.retention
        now = self._clock.now()
        try:
            deleted = self._store.prune(
                scores_before=now - retention.scores,
                evidence_before=now - retention.evidence,
                runs_before=now - retention.runs,
            )
        except DatabaseError as error:
            log.error("old rows not deleted", reason=str(error))  # noqa: TRY400 - its text says all
            return
        if any(deleted.values()):
            log.info("old rows deleted", **_nonzero(deleted))

    def unhealthy(self) -> str | None:
        """Why the process ought to be restarted, None while its loops are alive."""
        if not self._scheduler.running:
            return "the scheduler has stopped"
        dead = [loop.receiver.name for loop in self._loops if not loop.is_alive]
        return f"delivery to {', '.join(dead)} has stopped" if dead else None

    def unready(self) -> str | None:
        """Why the service cannot do its work at this moment, None when it can."""
        try:
            self._store.ping()
        except DatabaseError as error:
            return str(error)
        return None if self._published else "nothing was read from the database yet"


def _nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _scheduler() -> BackgroundScheduler:
    return BackgroundScheduler(
        timezone="UTC",
        executors={"default": ThreadPoolExecutor(_RUNS_AT_ONCE)},
        job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
    )
