"""The data for the pages, and the pages' addresses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode

from monitor.alerts.notification_policy import NotificationPolicy
from monitor.model.daemon_state import DaemonState
from monitor.model.errors import InputError
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant, read_instant
from monitor.model.notifications import Message
from monitor.model.ports import Clock
from monitor.model.rules import Comparison
from monitor.model.runs import LatestRun, PullProgress, Run

if TYPE_CHECKING:
    from monitor.storage import SqlStore

Titles = Callable[[str, datetime, Collection[str]], Mapping[str, str]]
"""Returns titles of items of a comparison at a slot. Items without a title are left out."""


class AbsentPageError(InputError):
    """Nothing exists at this address. The text says what is missing, and where to look."""


class UnanswerableError(InputError):
    """The question is valid, but this comparison cannot answer it."""


class ForbiddenError(InputError):
    """This client may not change anything, or not by this request."""


class SlowPageError(InputError):
    """The data of the page could not be read in time."""


def _find_no_titles(*_: object) -> Mapping[str, str]:
    return {}


def _no_daemon(*_: object) -> NoReturn:
    raise AbsentPageError("this page needs a running daemon, but none is running here")


@immutable
class ScheduledRun:
    """When the next run of a comparison is due. ``running_s`` is the age of a run in progress."""

    comparison: str
    next_at: datetime | None
    running_s: float | None


@immutable
class Status:
    """The state of the daemon, read from memory. ``configuration`` is YAML without secrets."""

    version: str
    started_at: datetime
    daemon: DaemonState
    unready: str | None
    database: str
    schedule: tuple[ScheduledRun, ...]
    receivers: tuple[str, ...]
    configuration: str


class CachedRow(NamedTuple):
    """A row of the overview, and the values from which it was computed."""

    latest: LatestRun
    configured: Comparison | None
    row: Any


@immutable
class Site:
    """The data for one request for a page. The defaults are for processes without a daemon.

    ``store``, ``titles``, ``status`` and ``judge`` may wait for a database or a source. All other
    data is in memory.
    """

    store: SqlStore
    clock: Clock
    comparisons: Mapping[str, Comparison]
    latest: Sequence[LatestRun] = ()
    daemon: DaemonState | None = None
    titles: Titles = _find_no_titles
    status: Callable[[], Status] = _no_daemon
    receivers: Sequence[str] = ()  # the names of the configured receivers
    # How far the pulls of present runs are, by comparison
    progress: Mapping[str, Mapping[str, PullProgress]] = field(default_factory=dict)
    policy: NotificationPolicy = field(default_factory=NotificationPolicy)
    message_text: Callable[[Message], str] = _no_daemon
    judge: Callable[[str, Mapping[str, Any]], Mapping[str, object]] = _no_daemon
    """Returns the gate's certificate for the named comparison as JSON.

    The last argument has the options of `rankwatch gate`.
    """
    find_user: Callable[[str], str] = str
    """Returns the name under which the user with this id is stored, such as a pseudonym."""
    is_reachable: bool = True
    """Whether links to the daemon's own URL lead to it, for everyone who reads the pages."""
    prefix: str = ""
    """A proxy serves the pages under this path."""
    rows: dict[str, CachedRow] = field(default_factory=dict)
    """Cached rows of the overview, by comparison. All requests share them."""

    def comparison(self, name: str) -> Comparison | None:
        """Return the configured comparison. None if only stored runs of it exist."""
        return self.comparisons.get(name)

    def item_urls(self, name: str, items: Collection[str]) -> Mapping[str, str]:
        """Return the addresses of the items' pages. Empty if the comparison has no `item_url`."""
        comparison = self.comparison(name)
        if comparison is None or comparison.item_url is None:
            return {}
        return {item: comparison.item_url.replace("{item}", _quote(item)) for item in items}

    def latest_of(self, name: str) -> LatestRun | None:
        """Return the newest finished run of the comparison, which may have failed, or None."""
        for latest in self.latest:
            if latest.comparison == name:
                return latest
        return None

    def pulls_of(self, name: str) -> tuple[PullProgress, ...]:
        """Return how far the pulls of the comparison's present run are, in a fixed order."""
        pulls = self.progress.get(name, {})
        return tuple(pulls[what] for what in sorted(pulls))

    def require(self, name: str) -> None:
        """Raise AbsentPageError if this comparison or family is neither configured nor stored."""
        families = {comparison.family for comparison in self.comparisons.values()}
        if name not in self.comparisons and name not in families and self.latest_of(name) is None:
            raise AbsentPageError(f"no comparison named {name}: the overview lists all comparisons")

    def run_at(self, name: str, slot: datetime) -> Run:
        """Return the run of a slot, or raise AbsentPageError."""
        runs = self.store.history.runs(comparison=name, since=slot, until=slot, limit=1)
        if not runs:
            raise AbsentPageError(
                f"no run of {name} has the slot {format_instant(slot)}: it was never run, or its "
                "run was deleted"
            )
        return runs[0]


@immutable
class PageRequest:
    """A request for a page: the parts of its path, and the parameters of its query."""

    path: Mapping[str, str]
    chosen: Mapping[str, Any]  # the parameters in the address, by name


def require_slot(part: str) -> datetime:
    """Return the slot in this part of an address. Raises AbsentPageError if it is not a time."""
    try:
        return read_instant(part)
    except ValueError:
        raise AbsentPageError(f"{part} is not a slot: write it as 2024-01-08T00:00:00Z") from None


def comparison_url(name: str, **chosen: object) -> str:
    """Return the address of a comparison's page."""
    return f"/c/{_quote(name)}{_query(chosen)}"


@lru_cache(maxsize=4096)
def run_url(name: str, slot: datetime) -> str:
    """Return the address of a run's page."""
    return f"/c/{_quote(name)}/runs/{format_instant(slot)}"


@lru_cache(maxsize=4096)
def user_url(name: str, user: str, slot: datetime | None = None) -> str:
    """Return the address of a user's page. Without a slot it shows the newest run."""
    chosen = {} if slot is None else {"slot": format_instant(slot)}
    if user in {"", ".", ".."} or "/" in user or "\\" in user:
        # Browsers would change a path with such an id, so the id is a parameter of the query.
        return f"/c/{_quote(name)}/users?{urlencode({'id': user, **chosen})}"
    return f"/c/{_quote(name)}/users/{_quote(user)}{_query(chosen)}"


def alert_url(key: str) -> str:
    """Return the address of an incident's page."""
    return f"/alerts/{_quote(key)}"


def alerts_url(**chosen: object) -> str:
    """Return the address of the page of incidents with these filters."""
    return f"/alerts{_query(chosen)}"


def _quote(name: str) -> str:
    return quote(name, safe="")


def _query(chosen: Mapping[str, object]) -> str:
    parameters = {key: value for key, value in chosen.items() if value not in (None, "")}
    query = urlencode(parameters)
    return f"?{query}" if query else ""
