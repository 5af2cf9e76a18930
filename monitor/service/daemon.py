"""The daemon: schedule, loops, web server; start, reload, stop."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

import structlog
from apscheduler.jobstores.base import JobLookupError

from monitor import __version__
from monitor.errors import ConfigError, DatabaseError, MonitorError
from monitor.export import PrometheusPublisher
from monitor.model import spell
from monitor.pipeline.deliver import Outlet
from monitor.ports import Clock
from monitor.service.clock import SystemClock
from monitor.service.delivering import DeliveryLoop
from monitor.service.labelling import fill_quietly
from monitor.service.running import Runner
from monitor.service.scheduling import make_scheduler
from monitor.service.staleness import Staleness
from monitor.service.ticking import Ticker
from monitor.service.upkeep import Upkeep
from monitor.service.wiring import Wiring, settle, wire
from monitor.settings import Settings, load
from monitor.storage import SqlStore, open_store
from monitor.web import WebServer, create_app

REFRESH = timedelta(seconds=15)
"""How often what other daemons stored, the outbox and abandoned runs are looked up."""
PRUNE = timedelta(hours=1)
BACKFILL = timedelta(minutes=10)
"""How often relevance is looked for that may have arrived since, beside after each run."""
STOP_S = 10.0
"""How long running runs and deliveries may go on after a stop was asked for; then slots are given back."""

log = structlog.get_logger(__name__)


class Daemon:
    """One process that watches all comparisons of one configuration file.

    ``start`` raises MonitorError, and leaves nothing behind, when the configuration, the database or the address cannot be
    used; afterwards only ``stop`` ends it. ``reload`` keeps the old configuration when the new one cannot be used.
    """

    def __init__(self, config: Path, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._publisher = PrometheusPublisher(version=__version__)
        self._stopping = threading.Event()
        self._opened = ExitStack()
        self._loops: tuple[DeliveryLoop, ...] = ()
        self._scheduler = make_scheduler()
        self._wiring: Wiring
        self._store: SqlStore
        self._upkeep: Upkeep
        self._staleness: Staleness
        self._runner: Runner
        self._ticker: Ticker
        self._web: WebServer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """Where the web server listens, without a slash at the end."""
        return self._web.url

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self._wiring.settings

    @property
    def store(self) -> SqlStore:
        """The database."""
        return self._store

    def start(self) -> None:
        """Open everything and begin; the first run of each comparison starts at once unless its slot was run already."""
        with ExitStack() as opened:
            self._wiring = wire(load(self._config))
            opened.callback(lambda: self._wiring.close_sources(timeout_s=1.0))
            opened.callback(lambda: self._wiring.close_pings())  # noqa: PLW0108 - a reload puts another wiring in its place
            settings = self._wiring.settings
            self._store = open_store(settings.database, create=True)
            opened.callback(self._store.close)
            self._equip()
            app = create_app(metrics=self._publisher.render, health=self, latest=lambda: self._upkeep.latest)
            self._web = WebServer(app, *settings.listen_address)
            self._web.start()
            opened.callback(self._web.stop)
            settle(self._wiring, self._store, self._clock)
            opened.callback(self._stop_loops)
            self._scheduler.start()
            opened.callback(self._stop_runs)
            self._put_in_force()
            self._opened = opened.pop_all()
        log.info("rankwatch started", version=__version__, url=self.url, comparisons=len(self._wiring.watched))

    def _equip(self) -> None:
        self._runner = Runner(store=self._store, clock=self._clock, publisher=self._publisher)
        self._ticker = Ticker(runner=self._runner, store=self._store, publisher=self._publisher, clock=self._clock)
        self._upkeep = Upkeep(store=self._store, publisher=self._publisher, clock=self._clock)
        self._staleness = Staleness(store=self._store, clock=self._clock)

    def stop(self) -> None:
        """Begin nothing new, let what runs end within STOP_S, give back the slots of what did not, and close everything.

        May be called twice, and without a start.
        """
        self._stopping.set()
        self._opened.close()
        log.info("rankwatch stopped")

    def reload(self) -> bool:
        """Read the configuration again; False, with the old one still in force, when the new one cannot be used."""
        try:
            new = wire(self._reloadable(load(self._config)))
            settle(new, self._store, self._clock)
        except MonitorError as error:
            log.error("configuration not reloaded; the old one stays in force", reason=str(error))  # noqa: TRY400 - its text says all
            self._publisher.reloaded(ok=False, at=self._clock.now())
            return False
        old, self._wiring = self._wiring, new
        self._put_in_force()
        threading.Thread(target=old.close_pings, name="close-pings", daemon=True).start()
        threading.Thread(target=old.close_sources, name="close-sources", daemon=True).start()
        log.info("configuration reloaded", comparisons=len(new.watched))
        return True

    def _reloadable(self, new: Settings) -> Settings:
        old = self._wiring.settings
        unchanged = {
            "database": new.database.get_secret_value() == old.database.get_secret_value(),
            "listen": new.listen_address == old.listen_address,
        }
        if changed := [key for key, is_same in unchanged.items() if not is_same]:
            msg = f"{' and '.join(changed)} cannot change while the daemon runs: restart it, or put back the old value"
            raise ConfigError(msg)
        return new

    def _put_in_force(self) -> None:
        """Bring metrics, deliveries and the schedule in line with the wiring."""
        wiring = self._wiring
        intervals = {name: watched.schedule.longest for name, watched in wiring.watched.items()}
        self._runner.pings = wiring.pings
        self._publisher.watch(tuple(wiring.watched), wiring.receiver_names, intervals=intervals)
        self._publisher.reloaded(ok=True, at=self._clock.now())
        self._refresh()
        self._stop_loops()
        self._loops = tuple(
            DeliveryLoop(
                outlet=Outlet(
                    store=self._store,
                    receiver=receiver,
                    clock=self._clock,
                    publisher=self._publisher,
                    owner=self._runner.owner,
                    policy=wiring.policy,
                )
            )
            for receiver in wiring.receivers
        )
        for loop in self._loops:
            loop.start()
        self._schedule()

    def _schedule(self) -> None:
        """One job a comparison and the housekeeping, in place of all earlier jobs."""
        self._scheduler.remove_all_jobs()
        now = self._clock.now()
        for name, watched in self._wiring.watched.items():
            self._scheduler.add_job(self._tick, watched.schedule.trigger(), args=(name,), id=name, next_run_time=now)
        self._scheduler.add_job(self._refresh, "interval", seconds=REFRESH.total_seconds(), id="-refresh")
        self._scheduler.add_job(self._prune, "interval", seconds=PRUNE.total_seconds(), id="-prune")
        for name, watched in self._wiring.watched.items():
            if watched.arms.relevance is not None:
                seconds = BACKFILL.total_seconds()
                self._scheduler.add_job(self._backfill, "interval", args=(name,), seconds=seconds, id=f"-backfill-{name}")

    def _tick(self, name: str) -> None:
        wiring = self._wiring
        watched = wiring.watched.get(name)
        if watched is None or self._stopping.is_set():
            return
        result = self._ticker.tick(watched, wiring.receiver_names)
        if result is None:
            return
        if wiring is not self._wiring:
            self._settle_after_reload()
        self._refresh()
        if any(transition.is_announced for transition in result.transitions):
            for loop in self._loops:
                loop.wake()
        self._backfill(name)

    def _backfill(self, name: str) -> None:
        """Measure relevance that has arrived since for this comparison's runs."""
        wiring = self._wiring
        watched = wiring.watched.get(name)
        if watched is None or self._stopping.is_set():
            return

        def is_over() -> bool:
            return self._stopping.is_set() or self._wiring is not wiring

        if fill_quietly(watched, self._store, self._clock, should_stop=is_over):
            self._refresh()

    def _settle_after_reload(self) -> None:
        """A run that began before a reload may have raised alerts of rules that are gone since."""
        try:
            settle(self._wiring, self._store, self._clock)
        except DatabaseError as error:
            log.error("alerts of removed rules not ended", reason=str(error))  # noqa: TRY400 - its text says all

    def _refresh(self) -> None:
        wiring = self._wiring
        if self._upkeep.refresh(tuple(wiring.watched)):
            self._run_soon()
        if self._staleness.look(wiring.watched.values(), self._upkeep.latest, wiring.receiver_names):
            for loop in self._loops:
                loop.wake()

    def _run_soon(self) -> None:
        """Let each comparison look at once whether its newest slot wants a run."""
        for name in self._wiring.watched:
            with suppress(JobLookupError):
                self._scheduler.modify_job(name, next_run_time=self._clock.now())

    def _prune(self) -> None:
        self._upkeep.prune(self._wiring.settings.retention)

    def _stop_loops(self) -> None:
        for loop in self._loops:
            loop.ask_to_stop()
        ends_at = time.monotonic() + STOP_S
        for loop in self._loops:
            loop.stop(timeout_s=ends_at - time.monotonic())

    def _stop_runs(self) -> None:
        self._scheduler.pause()
        ends_at = time.monotonic() + STOP_S
        while self._runner.claims and time.monotonic() < ends_at:
            time.sleep(0.05)
        self._scheduler.shutdown(wait=False)
        for claim in list(self._runner.claims.values()):
            log.warning("run given back: it did not end in time", comparison=claim.comparison, slot=spell(claim.slot))
            try:
                self._store.release(claim)
            except DatabaseError as error:
                log.error("slot not given back", comparison=claim.comparison, reason=str(error))  # noqa: TRY400 - its text says all

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
        return None if self._upkeep.has_published else "nothing was read from the database yet"
