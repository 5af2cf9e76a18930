"""The daemon: schedule, loops, web server; start, reload, stop."""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

import structlog
from apscheduler.jobstores.base import JobLookupError
from starlette.applications import Starlette

from monitor import __version__
from monitor.errors import ConfigError, DatabaseError, MonitorError
from monitor.export import PrometheusPublisher
from monitor.ports import Clock
from monitor.service.clock import SystemClock
from monitor.service.delivering import DeliveryLoop, stop_loops
from monitor.service.following import Follower
from monitor.service.labelling import fill_quietly
from monitor.service.leadership import Leadership
from monitor.service.running import whoami
from monitor.service.scheduling import make_scheduler
from monitor.service.terms import Term, begin_term
from monitor.service.upkeep import Upkeep
from monitor.service.wiring import Wiring, settle, wire, with_new_receivers
from monitor.settings import Settings, load
from monitor.storage import SqlStore, open_leases, open_store
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
    """One process that watches all comparisons of one configuration file, or stands by while another does.

    As a standby it shows what the leader stores, and neither runs nor delivers anything.
    ``start`` raises MonitorError, and leaves nothing behind, when the configuration, the database or the address cannot be
    used; afterwards only ``stop`` ends it. ``reload`` keeps the old configuration when the new one cannot be used.
    """

    def __init__(self, config: Path, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._publisher = PrometheusPublisher(version=__version__)
        self._stopping = threading.Event()
        self._opened = ExitStack()
        self._changing = threading.RLock()
        self._term: Term | None = None
        self._loops: tuple[DeliveryLoop, ...] = ()
        self._scheduler = make_scheduler()
        self._wiring: Wiring
        self._store: SqlStore
        self._leadership: Leadership
        self._follower: Follower
        self._upkeep: Upkeep
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
            settings = self._wiring.settings
            self._store = open_store(settings.database, create=True)
            opened.callback(self._store.close)
            self._equip()
            opened.callback(self._leadership.stop)
            self._leadership.start()
            self._web = WebServer(self._pages(), *settings.listen_address)
            self._web.start()
            opened.callback(self._web.stop)
            self._begin_term()
            opened.callback(self._stop_loops)
            self._scheduler.start()
            opened.callback(self._stop_runs)
            self._put_in_force()
            self._follower.start()
            opened.callback(self._follower.stop, STOP_S)
            self._opened = opened.pop_all()
        log.info("rankwatch started", version=__version__, url=self.url, comparisons=len(self._wiring.watched))

    def _equip(self) -> None:
        lasts = self._wiring.settings.lease
        leases = open_leases(self._store.database, holder=whoami(), lasts=lasts)
        self._leadership = leadership = Leadership(leases, lasts=lasts)
        self._follower = Follower(changed=leadership.changed, act=self._change_term)
        self._publisher.led_by(lambda: (leadership.is_sure, leadership.epoch))
        self._upkeep = Upkeep(store=self._store, publisher=self._publisher, clock=self._clock)

    def _pages(self) -> Starlette:
        return create_app(
            metrics=self._publisher.render,
            health=self,
            latest=lambda: self._upkeep.latest,
            standing=self._leadership.describe,
        )

    def _change_term(self) -> None:
        """End the term whose lease is not held any more, begin the one whose lease is."""
        with self._changing:
            if self._stopping.is_set() or self._leadership.lease == (self._term.lease if self._term else None):
                return
            if self._term is not None:
                self._stand_down(self._term)
            self._begin_term()
            self._set_going()

    def _stand_down(self, term: Term) -> None:
        log.warning("standing down: runs under way are given up", epoch=term.lease.epoch)
        self._term = None
        self._scheduler.remove_all_jobs()
        self._stop_loops()
        self._wiring = with_new_receivers(self._wiring)

    def _begin_term(self) -> None:
        """Begin to lead, where the lease is held."""
        if (lease := self._leadership.lease) is None:
            return
        lasts = self._wiring.settings.lease
        term = begin_term(lease, self._store, lasts=lasts, clock=self._clock, publisher=self._publisher)
        settle(self._wiring, term.store, self._clock)
        self._term = term

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
                new = wire(self._reloadable(load(self._config)))
                if self._term is not None:
                    settle(new, self._term.store, self._clock)
            except MonitorError as error:
                log.error("configuration not reloaded; the old one stays in force", reason=str(error))  # noqa: TRY400 - says all
                self._publisher.reloaded(ok=False, at=self._clock.now())
                return False
            old, self._wiring = self._wiring, new
            self._put_in_force()
        threading.Thread(target=old.close_sources, name="close-sources", daemon=True).start()
        log.info("configuration reloaded", comparisons=len(new.watched))
        return True

    def _reloadable(self, new: Settings) -> Settings:
        old = self._wiring.settings
        unchanged = {
            "database": new.database.get_secret_value() == old.database.get_secret_value(),
            "listen": new.listen_address == old.listen_address,
            "lease": new.lease == old.lease,
        }
        if changed := [key for key, is_same in unchanged.items() if not is_same]:
            msg = f"{' and '.join(changed)} cannot change while the daemon runs: restart it, or put back the old value"
            raise ConfigError(msg)
        return new

    def _put_in_force(self) -> None:
        """Bring metrics, deliveries and the schedule in line with the wiring."""
        wiring = self._wiring
        intervals = {name: watched.schedule.longest for name, watched in wiring.watched.items()}
        self._publisher.watch(tuple(wiring.watched), wiring.receiver_names, intervals=intervals)
        self._publisher.reloaded(ok=True, at=self._clock.now())
        self._set_going()

    def _set_going(self) -> None:
        """Let loops and schedule do what the wiring says; as a standby none but the one that looks up what is stored."""
        self._refresh()
        self._stop_loops()
        term, leadership = self._term, self._leadership
        self._loops = term.start_loops(self._wiring.receivers, lambda: leadership.is_sure) if term else ()
        self._schedule()

    def _schedule(self) -> None:
        """One job a comparison and the housekeeping, in place of all earlier jobs."""
        self._scheduler.remove_all_jobs()
        self._scheduler.add_job(self._refresh, "interval", seconds=REFRESH.total_seconds(), id="-refresh")
        if self._term is None:
            return
        now = self._clock.now()
        for name, watched in self._wiring.watched.items():
            self._scheduler.add_job(self._tick, watched.schedule.trigger(), args=(name,), id=name, next_run_time=now)
        self._scheduler.add_job(self._prune, "interval", seconds=PRUNE.total_seconds(), id="-prune")
        for name, watched in self._wiring.watched.items():
            if watched.arms.relevance is not None:
                seconds = BACKFILL.total_seconds()
                self._scheduler.add_job(self._backfill, "interval", args=(name,), seconds=seconds, id=f"-backfill-{name}")

    def _tick(self, name: str) -> None:
        wiring, term = self._wiring, self._term
        watched = wiring.watched.get(name)
        if watched is None or term is None or self._stopping.is_set():
            return
        result = term.ticker.tick(watched, wiring.receiver_names)
        if result is None:
            return
        if wiring is not self._wiring:
            self._settle_after_reload(term)
        self._refresh()
        if any(transition.is_announced for transition in result.transitions):
            for loop in self._loops:
                loop.wake()
        self._backfill(name)

    def _backfill(self, name: str) -> None:
        """Measure relevance that has arrived since for this comparison's runs."""
        wiring, term = self._wiring, self._term
        watched = wiring.watched.get(name)
        if watched is None or term is None or self._stopping.is_set():
            return

        def is_over() -> bool:
            return self._stopping.is_set() or self._wiring is not wiring or self._term is not term

        if fill_quietly(watched, term.store, self._clock, should_stop=is_over):
            self._refresh()

    def _settle_after_reload(self, term: Term) -> None:
        """A run that began before a reload may have raised alerts of rules that are gone since."""
        try:
            settle(self._wiring, term.store, self._clock)
        except DatabaseError as error:
            log.error("alerts of removed rules not ended", reason=str(error))  # noqa: TRY400 - its text says all

    def _refresh(self) -> None:
        if self._upkeep.refresh(tuple(self._wiring.watched), self._term.store if self._term else None):
            self._run_soon()

    def _run_soon(self) -> None:
        """Let each comparison look at once whether its newest slot wants a run."""
        for name in self._wiring.watched:
            with suppress(JobLookupError):
                self._scheduler.modify_job(name, next_run_time=self._clock.now())

    def _prune(self) -> None:
        if self._term is not None:
            self._upkeep.prune(self._wiring.settings.retention, self._term.store)

    def _stop_loops(self) -> None:
        stop_loops(self._loops, STOP_S)

    def _stop_runs(self) -> None:
        self._scheduler.pause()
        if self._term is not None:
            self._term.end_runs(STOP_S)
        self._scheduler.shutdown(wait=False)

    def unhealthy(self) -> str | None:
        """Why the process ought to be restarted, None while its loops are alive."""
        if not self._scheduler.running:
            return "the scheduler has stopped"
        if not (self._leadership.is_alive and self._follower.is_alive):
            return "what keeps the lease has stopped"
        dead = [loop.receiver.name for loop in self._loops if not loop.is_alive]
        return f"delivery to {', '.join(dead)} has stopped" if dead else None

    def unready(self) -> str | None:
        """Why the service cannot do its work at this moment, None when it can."""
        try:
            self._store.ping()
        except DatabaseError as error:
            return str(error)
        if trouble := self._leadership.trouble:
            return trouble
        return None if self._upkeep.has_published else "nothing was read from the database yet"
