"""The daemon: scheduler, delivery loops, web server; start, reload, stop."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Self

import structlog
from starlette.applications import Starlette

from monitor import __version__
from monitor.errors import DatabaseError, MonitorError
from monitor.export import PrometheusPublisher
from monitor.ports import Clock
from monitor.service.clock import SystemClock
from monitor.service.daemon.delivery_loops import DeliveryLoops
from monitor.service.daemon.housekeeping import Housekeeping
from monitor.service.daemon.jobs import SIZING, Calls, DaemonJobs, Ticker, tasks_of
from monitor.service.daemon.leadership import Leading
from monitor.service.daemon.outage import OutageMonitor, look_again, open_in_time
from monitor.service.daemon.outage_alert import OutageAlert
from monitor.service.daemon.scheduler import Heart, Jobs
from monitor.service.daemon.watchdog import Rhythm, Watchdog
from monitor.service.runner import Runner
from monitor.service.wiring import Wiring, open_web_access, require_reloadable, settle, settle_quietly, wire, with_new_receivers
from monitor.settings import Settings, load_settings
from monitor.storage import SqlStore, unopened_store
from monitor.web import WebServer, create_app

STOP_S = 10.0
"""How long running runs and deliveries may go on after a stop was asked for; then slots are given back."""

STANDBY_PATIENCE = 3
"""How many times longer a standby waits before it tells that the database is away: the leader may have gone with it."""

log = structlog.get_logger(__name__)


class Daemon:
    """One process that watches all comparisons of one configuration file, or stands by while another does.

    As a standby it shows what the leader stores, and neither runs nor delivers anything.
    ``start`` raises MonitorError, and leaves nothing behind, when the configuration, the database or the address cannot be
    used; a database that is away for a passing reason is waited for in the background. Afterwards only ``stop`` ends it.
    ``reload`` keeps the old configuration when the new one cannot be used.
    """

    def __init__(self, config: Path, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._publisher = PrometheusPublisher(version=__version__, clock=self._clock)
        self._stopping = threading.Event()
        self._opened = ExitStack()
        self._jobs = Jobs(self._clock, on_end=self._wake)
        self._has_database = False
        self._changing = threading.RLock()
        self._wiring: Wiring
        self._store: SqlStore
        self._leading: Leading
        self._database: OutageMonitor
        self._emergency: OutageAlert
        self._upkeep: Housekeeping
        self._runner: Runner
        self._work: DaemonJobs
        self._loops: DeliveryLoops
        self._rhythm: Rhythm
        self._heart: Heart
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
            settings = load_settings(self._config)
            access = open_web_access(settings)
            self._wiring = wire(settings, on_ping=self._publisher.pinged)
            opened.callback(lambda: self._wiring.close(timeout_s=1.0))
            self._store = unopened_store(settings.database)
            opened.callback(self._store.close)
            self._equip()
            opened.callback(self._leading.stop)
            self._web = WebServer(self._pages(), *settings.listen_address, access=access)
            self._web.start()
            opened.callback(self._web.stop)
            self._has_database = self._is_opened()
            opened.callback(lambda: self._loops.stop(STOP_S))
            self._jobs.start()
            opened.callback(self._stop_runs)
            self._put_in_force()
            self._heart.start()
            opened.callback(self._heart.stop)
            self._leading.watch()
            opened.callback(self._leading.stop_watching, STOP_S)
            self._opened = opened.pop_all()
        log.info("rankwatch started", version=__version__, url=self.url, comparisons=len(self._wiring.watched))

    def _equip(self) -> None:
        store, clock, publisher = self._store, self._clock, self._publisher
        self._database = OutageMonitor(clock=clock, publisher=publisher)
        store.database.on_error = self._database.failed
        lasts = self._wiring.settings.lease
        self._leading = Leading(store, clock, publisher, lasts=lasts, on_change=self._follow_lease)
        self._emergency = OutageAlert(
            database=self._database,
            clock=clock,
            publisher=publisher,
            place=store.place,
            alert_after=self._alert_after,
        )
        self._runner = Runner(store=store, clock=clock, publisher=publisher)
        self._upkeep = Housekeeping(store=store, publisher=publisher, clock=clock)
        owner, is_sure = self._runner.owner, self._leading.is_sure
        self._loops = DeliveryLoops(outbox=store.outbox, clock=clock, publisher=publisher, owner=owner, is_sure=is_sure)
        self._work = self._make_work()
        self._rhythm = self._make_rhythm()
        self._heart = Heart(clock, self._rhythm.beat)

    def _alert_after(self) -> timedelta:
        """How long a database may be away before receivers are told; a standby leaves that to the leader, but not for ever."""
        after = self._wiring.settings.database_alert_after
        return STANDBY_PATIENCE * after if self._has_database and not self._leading.leads else after

    def _pages(self) -> Starlette:
        return create_app(
            metrics=self._publisher.render,
            health=self,
            latest=lambda: self._upkeep.latest,
            standing=self._leading.leadership.describe,
        )

    def _make_work(self) -> DaemonJobs:
        return DaemonJobs(
            store=self._store,
            clock=self._clock,
            runner=self._runner,
            ticker=Ticker(runner=self._runner, store=self._store, publisher=self._publisher, clock=self._clock),
            upkeep=self._upkeep,
            loops=self._loops,
            wiring=lambda: self._wiring,
            leads=lambda: self._leading.leads,
            is_stopping=self._stopping.is_set,
            hasten=self._hasten,
        )

    def _make_rhythm(self) -> Rhythm:
        watchdog = Watchdog(
            jobs=self._jobs,
            runs=self._store.runs,
            clock=self._clock,
            publisher=self._publisher,
            database=self._database,
            runner=self._runner,
            renew_sources=self._renew_sources,
            renew_store=self._store.database.renew,
            hasten=self._hasten,
        )
        return Rhythm(
            clock=self._clock,
            publisher=self._publisher,
            jobs=self._jobs,
            watchdog=watchdog,
            most=lambda: self._wiring.settings.concurrent_runs,
        )

    def stop(self) -> None:
        """Begin nothing new, let what runs end within STOP_S, give back the slots of what did not, and close everything.

        May be called twice, and without a start.
        """
        self._stopping.set()
        self._opened.close()
        log.info("rankwatch stopped")

    def reload(self) -> bool:
        """Read the configuration again; False, with the old one still in force, when the new one cannot be used."""
        with self._changing:
            try:
                settings = require_reloadable(load_settings(self._config), self._wiring.settings)
                access = open_web_access(settings, self._web.access)
                new = wire(settings, on_ping=self._publisher.pinged)
                if self._leading.leads:
                    settle(new, self._store, self._clock)
            except MonitorError as error:
                log.error("configuration not reloaded; the old one stays in force", reason=str(error))  # noqa: TRY400 - says all
                self._publisher.reloaded(ok=False, at=self._clock.now())
                return False
            except Exception:  # a defect ends no daemon that works
                log.exception("configuration not reloaded for a reason nobody thought of; the old one stays in force")
                self._publisher.reloaded(ok=False, at=self._clock.now())
                return False
            old, self._wiring = self._wiring, new
            self._web.follow(access)
            self._put_in_force()
        threading.Thread(target=old.close_sources, name="close-sources", daemon=True).start()
        threading.Thread(target=old.close_pings, name="close-pings", daemon=True).start()
        log.info("configuration reloaded", comparisons=len(new.watched))
        return True

    def _put_in_force(self) -> None:
        """Bring metrics, deliveries and the timetable in line with the wiring."""
        with self._changing:
            self._enforce(self._wiring)

    def _enforce(self, wiring: Wiring) -> None:
        self._runner.pings = wiring.pings
        settings = wiring.settings
        self._publisher.watch(
            tuple(wiring.watched),
            wiring.receiver_names,
            intervals=wiring.intervals,
            stale_after=wiring.stale_after,
            pings=tuple(each.name for each in settings.pings),
            max_series=settings.max_series,
        )
        self._publisher.reloaded(ok=True, at=self._clock.now())
        self._set_going()

    def _set_going(self) -> None:
        """Begin all that may be done now: without a database, and as a standby, that is little."""
        if self._has_database:
            self._work.refresh()
            self._loops.stop(STOP_S)
        if self._leading.leads:
            settle_quietly(self._wiring, self._store, self._clock)  # the old loops may have dropped by old routes meanwhile
            self._loops.start(self._wiring.receivers, self._wiring.policy)
        self._plan()

    def _plan(self) -> None:
        """Enter into the timetable what is to be done with this wiring."""
        calls = Calls(
            tick=self._work.tick,
            backfill=self._work.backfill,
            has_news=self._emergency.has_news,
            tell=self._emergency.tell,
            refresh=self._work.refresh,
            prune=self._work.prune,
            size=self._work.size,
            probe=self._probe,
            renew_loops=self._loops.renew_stalled,
            open=self._open,
        )
        tasks = tasks_of(self._wiring, calls, has_database=self._has_database, leads=self._leading.leads)
        self._rhythm.follow(tasks)
        self._rhythm.hasten(SIZING)  # an hour is long to wait for what a dashboard shows

    def _is_opened(self) -> bool:
        """Open the database, if it is there; DatabaseError when waiting for it would not help."""
        try:
            if not open_in_time(self._store, self._database):
                return False
            self._leading.begin(self._wiring)
        except DatabaseError as error:
            if error.permanent:
                raise
            log.warning("waiting for the database", reason=str(error))
            return False
        return True

    def _open(self) -> None:
        """Begin the work once the database that was away at the start is there."""
        with self._changing:
            try:
                self._has_database = not self._stopping.is_set() and self._is_opened()
            except DatabaseError as error:
                log.error("database cannot be used", reason=str(error))  # noqa: TRY400 - its text says all
            if self._has_database:
                self._put_in_force()

    def _follow_lease(self) -> None:
        """Stand down, or lead, with receivers that no earlier loop has closed."""
        with self._changing:
            if self._stopping.is_set() or not self._has_database or not self._leading.follow(self._wiring):
                return
            self._loops.stop(STOP_S)
            self._wiring = with_new_receivers(self._wiring)
            self._set_going()

    def _probe(self) -> None:
        ended = look_again(self._store, self._database)
        if ended is not None:
            self._hasten("-refresh")
        if ended is not None and ended.may_have_cost_runs:
            for name in self._wiring.watched:
                self._hasten(name)

    def _renew_sources(self, name: str) -> None:
        self._wiring.renew_sources(name)

    def _hasten(self, name: str) -> None:
        self._rhythm.hasten(name)
        self._wake()

    def _wake(self) -> None:
        self._heart.wake()

    def _stop_runs(self) -> None:
        ends_at = time.monotonic() + STOP_S
        while self._runner.claims and time.monotonic() < ends_at:
            time.sleep(0.05)
        self._jobs.stop()
        self._runner.give_back_all()

    def unhealthy(self) -> str | None:
        """Why the process ought to be restarted, None while its loops are alive."""
        if not self._heart.is_beating:
            return "the scheduler has stopped"
        return self._leading.unhealthy() if self._has_database else None

    def unready(self) -> str | None:
        """Why the service cannot do its work at this moment, None when it can."""
        outage = self._database.outage
        if outage is not None:
            return outage.reason
        try:
            self._store.maintenance.ping()
        except DatabaseError as error:
            return str(error)
        if trouble := self._leading.leadership.trouble:
            return trouble
        return None if self._upkeep.has_published else "nothing was read from the database yet"
