"""The daemon: it starts, reloads and stops the scheduler and the web server."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import structlog
import yaml

from monitor import __version__
from monitor.export.publisher import PrometheusPublisher
from monitor.model.daemon_state import DaemonState, Refused, ReloadRefusal
from monitor.model.errors import DatabaseError, MonitorError, describe_fault
from monitor.model.notifications import Message
from monitor.model.ports import Clock, Receiver, do_nothing
from monitor.pipeline.delivery import OutboxSender
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.service.clock import SystemClock
from monitor.service.composition import (
    Wiring,
    adapt_store,
    open_wiring,
    require_reloadable,
    set_known_names,
)
from monitor.service.daemon.jobs import LEASE_JOB, DaemonJobs
from monitor.service.daemon.leadership import DaemonRole
from monitor.service.daemon.outage import (
    DATABASE_AWAY,
    OutageAlert,
    OutageMonitor,
    database_away,
    open_in_time,
)
from monitor.service.daemon.scheduler import JobScheduler
from monitor.service.daemon.threads import Places
from monitor.service.gate.decision import GateAnswers
from monitor.service.logs import errors_logged
from monitor.service.message_pictures import MessagePictures
from monitor.service.runner import Runner
from monitor.service.title_cache import TitleCache
from monitor.settings.configuration import Settings
from monitor.settings.loader import load_settings
from monitor.storage import unopened_store
from monitor.web.access import Access, read_access
from monitor.web.app import create_app
from monitor.web.pages import Site
from monitor.web.pages.site import CachedRow, ScheduledRun, Status
from monitor.web.server import WebServer

# With ANSWER_S and PINGS_S a stop takes less than 30 s. Container platforms often kill after 30 s.
STOP_S = 10.0
"""How long runs and deliveries may continue during a stop. Then their slots are released.
"""
WEB_S = 5.0
"""How long the web server finishes its answers when the daemon stops."""

STANDBY_PATIENCE = 3
"""A standby reports an outage after this many times `database_alert_after`."""

log = structlog.get_logger(__name__)


def _read_access(settings: Settings, old: Access | None) -> Access:
    """Read the web configuration file of the settings. ``old`` is the access in use, if any."""
    return read_access(
        settings.access, file_name=settings.web_config_file, hosts=settings.host_names, old=old
    )


class Daemon:
    """One process that watches all comparisons of one configuration file, or is a standby.

    The constructor opens the sources and receivers of the configuration, and makes all parts.
    ``start`` starts them. Both raise MonitorError if the configuration, the database or the address
    cannot be used, and close what is open before that. If the database does not answer, ``start``
    succeeds, and a job opens the database later.

    ``reload`` keeps the old configuration if the new one cannot be used. Otherwise it calls
    ``on_reload``. APScheduler does not use ``clock``, so a test must also set the clock of
    APScheduler.
    """

    def __init__(
        self,
        config: Path,
        *,
        clock: Clock | None = None,
        on_reload: Callable[[Settings], object] = do_nothing,
    ) -> None:
        self._config = config
        self._on_reload = on_reload
        self._clock = clock or SystemClock()
        self._publisher = PrometheusPublisher(version=__version__, clock=self._clock)
        self._stopping = threading.Event()
        self._has_database = False
        self._changing = threading.RLock()
        self._started_at = self._clock.now()
        self._refusal: ReloadRefusal | None = None
        settings = load_settings(config)
        access = _read_access(settings, old=None)
        with ExitStack() as opened:
            self._wiring = self._open_wiring(settings)
            opened.callback(self._close_wiring)
            self.store = unopened_store(settings.database)
            opened.callback(self.store.close)
            self._make_parts(settings, access)
            # From here on, `stop` closes all these parts in reverse order.
            self._opened = opened.pop_all()

    def _open_wiring(self, settings: Settings) -> Wiring:
        return open_wiring(settings, on_ping=partial(self._publisher.count, "pings_total"))

    def _close_wiring(self) -> None:
        self._wiring.close()

    def _renew_sources(self, comparison: str) -> None:
        self._wiring.renew_sources(comparison)

    def _make_parts(self, settings: Settings, access: Access) -> None:
        """Make the parts of the daemon. Each part gets the parts that are made before it.

        Only the scheduler gets a later part: it reports hung jobs to the jobs. No part keeps the
        wiring, because a reload replaces it.
        """
        store = self.store
        clock = self._clock
        publisher = self._publisher
        self._database = OutageMonitor(clock=clock, publisher=publisher)
        store.database.on_error = self._database.failed
        self._pictures = MessagePictures(store)
        self._titles = TitleCache()
        self._gate = GateAnswers(store.history, clock)
        self._rows: dict[str, CachedRow] = {}  # the cached rows of the overview
        self._runner = Runner(
            store=store,
            clock=clock,
            publisher=publisher,
            renew_sources=self._renew_sources,
        )
        self._places = Places(settings.concurrent_runs, clock.monotonic)
        publisher.show("runs_waiting", self._places.count_waiting)
        self._scheduler = JobScheduler(clock, publisher, on_look=self._places.look_again)
        self._role = DaemonRole(
            store,
            clock,
            publisher,
            lasts=settings.lease,
            on_change=partial(self._scheduler.run_now, LEASE_JOB),
        )
        self._outage_alert = OutageAlert(
            database=self._database, location=store.location, alert_after=self._alert_after
        )
        self._jobs = DaemonJobs(
            store=store,
            clock=clock,
            publisher=publisher,
            runner=self._runner,
            sender_of=self._sender_of,
            outage_alert=self._outage_alert,
            places=self._places,
            wiring=self._wiring_in_force,
            role=self._role,
            scheduler=self._scheduler,
            is_stopping=self._stopping.is_set,
            open=self._open_database_again,
            follow_lease=self._follow_lease,
        )
        self._scheduler.on_hung = self._jobs.rescue
        app = create_app(site=self._site, metrics=publisher.render, health=self, reload=self.reload)
        self._web = WebServer(app, *settings.listen_address, access=access)
        publisher.show("certificate_expiry_timestamp_seconds", self._certificate_ends_at)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The address of the web server, without a slash at the end."""
        return self._web.url

    @property
    def settings(self) -> Settings:
        """The configuration in force."""
        return self._wiring.settings

    def _wiring_in_force(self) -> Wiring:
        return self._wiring

    def start(self) -> None:
        """Start all parts.

        The first run of each comparison starts at once, unless its slot was already run.
        """
        with ExitStack() as opened:
            opened.push(self._opened.pop_all())
            opened.callback(self._role.leadership.stop)
            self._web.start()
            opened.callback(self._web.stop, WEB_S)
            # Start the web server first. Opening the database can take long, and probes should get
            # the reason.
            self._has_database = self._open_database()
            self._scheduler.start()
            opened.callback(self._runner.give_back_all)
            opened.callback(self._scheduler.stop, STOP_S)
            self._put_in_force()
            self._opened = opened.pop_all()
        log.info(
            "rankwatch started",
            version=__version__,
            url=self.url,
            external_url=self.settings.external_url,
            comparisons=len(self._wiring.watched),
        )

    def _certificate_ends_at(self) -> float | None:
        certificates = self._web.access.certificates
        return None if certificates is None else certificates.ends_at

    def _sender_of(self, receiver: Receiver) -> OutboxSender:
        """Return what sends the deliveries of one receiver, by the policy in force now."""
        return OutboxSender(
            outbox=self.store.outbox,
            receiver=receiver,
            clock=self._clock,
            publisher=self._publisher,
            owner=self._runner.owner,
            policy=self._wiring.policy,
            picture_of=partial(self._pictures.draw, self._wiring.comparisons),
            is_sole_sender=self._role.is_sure,
        )

    def _alert_after(self) -> timedelta:
        """Return how long an outage must last before this daemon sends an alert about it."""
        after = self.settings.database_alert_after
        # A standby waits longer, so that usually only the leader sends the alert.
        if self._has_database and not self._role.leads:
            return STANDBY_PATIENCE * after
        return after

    def _site(self) -> Site:
        """Return the data of pages by the wiring in force now."""
        wiring = self._wiring
        settings = wiring.settings
        return Site(
            store=self.store,
            clock=self._clock,
            latest=self._jobs.latest.all or (),
            comparisons=wiring.comparisons,
            daemon=self._state(),
            titles=partial(self._titles.find, wiring.watched),
            status=self._status,
            receivers=wiring.receiver_names,
            progress=self._runner.progress,
            policy=wiring.policy,
            message_text=self._message_text,
            judge=partial(self._gate.answer, settings, wiring.comparisons),
            find_user=wiring.find_user,
            prefix=urlsplit(settings.external_url or "").path.rstrip("/"),
            rows=self._rows,
        )

    def _message_text(self, message: Message) -> str:
        return plain_text(content_of(message, self.settings.external_url))

    def _state(self) -> DaemonState:
        """Return the state that every page shows."""
        refusals = [self._refusal]
        certificates = self._web.access.certificates
        if certificates is not None:
            refusals.append(certificates.refusal)
        return DaemonState(
            role=self._role.leadership.role,
            away=database_away(self._database.outage, self._jobs.latest.read_at, self._clock.now()),
            refusals=tuple(refusal for refusal in refusals if refusal is not None),
        )

    def _status(self) -> Status:
        """Return the state that the daemon's page shows."""
        wiring = self._wiring
        configuration = wiring.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return Status(
            version=__version__,
            started_at=self._started_at,
            daemon=self._state(),
            unready=self.unready(),
            database=self.store.location,
            schedule=self._schedule(),
            receivers=wiring.receiver_names,
            configuration=yaml.safe_dump(configuration, sort_keys=False),
        )

    def _schedule(self) -> tuple[ScheduledRun, ...]:
        runs = []
        for name in self._wiring.watched:
            run = ScheduledRun(
                comparison=name,
                next_at=self._scheduler.next_at(name),
                running_s=self._places.running_s(name),
            )
            runs.append(run)
        return tuple(runs)

    def stop(self) -> None:
        """Wait at most STOP_S for runs to end, and close everything.

        The slots of runs that have not ended are released.

        May be called twice, and without a start.
        """
        self._stopping.set()
        self._opened.close()
        log.info("rankwatch stopped")

    def reload(self) -> bool:
        """Read the configuration again.

        Returns False if the new configuration cannot be used. In this case the old one stays in
        force.
        """
        with self._changing:
            try:
                settings = require_reloadable(load_settings(self._config), self.settings)
                access = _read_access(settings, old=self._web.access)
                new = self._open_wiring(settings)
                if self._role.leads:
                    adapt_store(new, self.store, self._clock)
            except Exception as error:  # a bug must not end the daemon
                reason = str(error)
                if not isinstance(error, MonitorError):
                    log.exception("configuration not reloaded because of a bug")
                    reason = f"rankwatch has a bug: {describe_fault(error)}. See the log"
                self._report_refusal(reason)
                return False
            # All parts of the new configuration are open now, so it replaces the old one.
            old = self._wiring
            self._wiring = new
            self._web.use_access(access)
            self._put_in_force()
            self._refusal = None
        self._on_reload(new.settings)
        # Closing sends the pings that still wait, which may take some seconds.
        threading.Thread(target=old.close, name="close-pings", daemon=True).start()
        log.info("configuration reloaded", comparisons=len(new.watched))
        return True

    def _report_refusal(self, reason: str) -> None:
        """Log, show and export that the new configuration is refused."""
        log.error("configuration not reloaded; the old one stays in force", reason=reason)
        now = self._clock.now()
        self._refusal = ReloadRefusal(file=Refused.CONFIGURATION, at=now, reason=reason)
        self._publisher.reloaded(ok=False, at=now)

    def _put_in_force(self) -> None:
        """Let all parts use the present wiring, after the start and after a reload."""
        with self._changing:
            wiring = self._wiring
            settings = wiring.settings
            self._runner.pings = wiring.pings
            self._runner.comparisons = wiring.comparisons
            self._places.most = settings.concurrent_runs
            self._outage_alert.installation = settings.installation
            self._outage_alert.runbook_url = settings.runbook_url(DATABASE_AWAY)
            pings = tuple(ping.name for ping in settings.pings)
            set_known_names(self._publisher, wiring, pings=pings)
            self._begin_work()
            self._publisher.reloaded(ok=True, at=self._clock.now())

    def _begin_work(self) -> None:
        """Adapt the stored alerts and the scheduler's jobs to the wiring and to the role."""
        if self._has_database:
            self._jobs.refresh()
        if self._role.leads:
            with errors_logged("alerts of removed rules were not ended"):
                adapt_store(self._wiring, self.store, self._clock)
        self._scheduler.follow(self._jobs.plans(has_database=self._has_database))

    def _open_database(self) -> bool:
        """Open the database, and become the leader or a standby. Returns False if this failed.

        Raises DatabaseError if waiting does not help.
        """
        try:
            if not open_in_time(self.store, self._database):
                return False
            self._role.leadership.start()
            self._role.follow(self._wiring)
        except DatabaseError as error:
            if error.permanent:
                raise
            log.warning("waiting for the database", reason=str(error))
            return False
        return True

    def _open_database_again(self) -> None:
        """Try again to open a database that did not answer at the start."""
        with self._changing:
            if self._stopping.is_set():
                return
            with errors_logged("database cannot be used"):
                self._has_database = self._open_database()
            if self._has_database:
                self._put_in_force()

    def _follow_lease(self) -> None:
        """Change the role of this daemon, and its work, if the lease was won or lost."""
        with self._changing, errors_logged("this daemon's role not changed yet"):
            if not self._stopping.is_set() and self._role.follow(self._wiring):
                self._begin_work()

    def unhealthy(self) -> str | None:
        """Return why the process must be restarted, or None while its loops are alive."""
        if not self._scheduler.is_alive:
            return "the scheduler has stopped"
        if not self._has_database:
            return None
        return self._role.unhealthy()

    def unready(self) -> str | None:
        """Return why the service cannot work now, or None if it can."""
        outage = self._database.outage
        if outage is not None:
            return outage.reason
        try:
            self.store.maintenance.ping()
        except DatabaseError as error:
            return str(error)
        database_error = self._role.leadership.database_error
        if database_error is not None:
            return database_error
        if self._jobs.latest.all is None:
            return "nothing has been read from the database yet"
        return None
