"""Pings a URL when a run starts and ends. Services such as Healthchecks offer such URLs."""

import queue
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated
from urllib.parse import urlsplit, urlunsplit

import structlog
from pydantic import Field

from monitor.model.errors import DeliveryError
from monitor.model.instants import format_instant, utc_now
from monitor.model.ports import do_nothing
from monitor.model.runs import Claim
from monitor.receivers.http_client import HttpClient, require_accepted
from monitor.receivers.message.safe_text import clean
from monitor.receivers.receiver_options import HttpReceiverEntry, ReceiverName, SecretUrl

_Name = Annotated[str, Field(min_length=1)]

RETRY_WAITS_S = (1.0, 5.0)
"""How long to wait before the second and the third attempt to send a ping."""
# The largest number of waiting pings. If there are more, the oldest pings are dropped.
_MOST_WAITING_PINGS = 64
_LONGEST_REASON = 1000
log = structlog.get_logger(__name__)


class PingOptions(HttpReceiverEntry):
    """Ping a URL when a run starts, succeeds or fails.

    The service behind the URL sends an alert if it receives no pings.
    """

    url: SecretUrl
    """The URL to ping. rankwatch appends `/start` or `/fail` to the path of the URL, as
    Healthchecks expects. The URL is a secret and is never shown."""
    comparisons: tuple[_Name, ...] | None = Field(None, min_length=1, max_length=1000)
    """The comparisons whose runs send pings (default: all comparisons)."""
    name: ReceiverName = "ping"
    """The name of the ping in metrics and in the log."""


class RunPings:
    """Pings one URL about each run, from its own thread. It never blocks a run or makes it fail.

    ``rest`` waits for some seconds, and returns True if the wait was cancelled. ``on_outcome`` gets
    the name of the ping and the outcome of each ping: ``sent``, ``failed`` (after the last attempt)
    or ``dropped`` (too many pings were waiting).
    """

    def __init__(
        self,
        options: PingOptions,
        *,
        rest: Callable[[float], bool] | None = None,
        on_outcome: Callable[[str, str], None] = do_nothing,
    ) -> None:
        self._options = options
        self._on_outcome = on_outcome
        self._waiting: queue.Queue[tuple[str, str] | None] = queue.Queue()
        self._adding = threading.Lock()
        self._is_closing = False
        self._closed = threading.Event()
        self._rest = rest or self._closed.wait
        self._thread = threading.Thread(target=self._work, name=f"ping-{options.name}", daemon=True)

    def run_started(self, claim: Claim) -> None:
        """Ping ``/start``."""
        self._add(claim, "/start")

    def run_finished(self, claim: Claim, failure: str | None) -> None:
        """Ping the URL itself after a success, or ``/fail`` with the reason after a failure."""
        self._add(claim, "" if failure is None else "/fail", clean(failure or "", _LONGEST_REASON))

    def close(self, timeout_s: float) -> None:
        """Send the waiting pings within this time. Ignore pings that are added later."""
        with self._adding:
            self._is_closing = True
            self._waiting.put(None)
        if self._thread.ident is not None:
            self._thread.join(max(timeout_s, 0.0))
        self._closed.set()

    def _add(self, claim: Claim, suffix: str, body: str = "") -> None:
        """Queue a ping for the thread. If too many pings are waiting, the oldest one is dropped."""
        options = self._options
        if options.comparisons is not None and claim.comparison not in options.comparisons:
            return
        url = ping_url(options.url.get_secret_value(), suffix, run_uuid(claim))
        with self._adding:
            if self._is_closing:
                return
            if self._thread.ident is None:
                self._thread.start()
            if self._waiting.qsize() == _MOST_WAITING_PINGS:
                with suppress(queue.Empty):  # the thread may have just taken the last ping
                    self._waiting.get_nowait()
                    log.warning("ping dropped: too many pings are waiting", ping=options.name)
                    self._on_outcome(options.name, "dropped")
            self._waiting.put((url, body))

    def _work(self) -> None:
        while (ping := self._waiting.get()) and not self._closed.is_set():
            try:
                self._send(*ping)
            except Exception:
                log.exception("ping not sent; later pings will be sent", ping=self._options.name)
                self._on_outcome(self._options.name, "failed")

    def _send(self, url: str, body: str) -> None:
        """Send the ping. After a temporary failure, try again a few times."""
        # None marks the last attempt, because no wait follows it.
        name = self._options.name
        for rest_s in (*RETRY_WAITS_S, None):
            try:
                self._post(url, body)
            except DeliveryError as error:
                if error.permanent or rest_s is None or self._rest(rest_s):
                    log.warning("ping not sent", ping=name, reason=str(error))
                    self._on_outcome(name, "failed")
                    return
            else:
                self._on_outcome(name, "sent")
                return

    def _post(self, url: str, body: str) -> None:
        options = self._options
        client = HttpClient(
            url,
            who=options.name,
            timeout_s=options.timeout.total_seconds(),
            ca_file=options.ca_file,
            proxy=options.proxy,
        )
        answer = client.post(body.encode(), {"Content-Type": "text/plain; charset=utf-8"})
        require_accepted(answer, who=client.who, now=utc_now())


def run_uuid(claim: Claim) -> uuid.UUID:
    """The UUID of a run. Its start and end have the same UUID, and each attempt has a new one."""
    slot = format_instant(claim.slot)
    started_at = format_instant(claim.started_at)
    name = f"{claim.comparison}\n{slot}\n{claim.attempt}\n{started_at}"
    return uuid.uuid5(uuid.NAMESPACE_OID, name)


def ping_url(url: str, suffix: str, rid: uuid.UUID) -> str:
    """Return ``url`` with the suffix in its path and the run's UUID in its query."""
    parts = urlsplit(url)
    query = f"{parts.query}&" if parts.query else ""
    return urlunsplit(
        parts._replace(path=parts.path.rstrip("/") + suffix, query=f"{query}rid={rid}")
    )
