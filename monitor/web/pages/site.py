"""What pages are made from, and how they are addressed."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn
from urllib.parse import quote, urlencode

from monitor.alerts.notification_policy import NotificationPolicy
from monitor.errors import InputError
from monitor.model.comparison import Comparison
from monitor.model.instants import format_instant, read_instant
from monitor.model.notifications import Message
from monitor.model.runs import LatestRun, PullProgress, Run
from monitor.ports import Clock, Store

Titles = Callable[[str, datetime, Collection[str]], Mapping[str, str]]
"""Titles of items of a comparison as their source has them for a slot.

None where it has none, or does not answer.
"""


class AbsentPageError(InputError):
    """There is nothing at this address.

    The text says what is not there, and where to look instead.
    """


class UnanswerableError(InputError):
    """A question that can be read, but that this comparison cannot answer."""


def _no_daemon(*_: object) -> NoReturn:
    raise AbsentPageError("there is no daemon here")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRun:
    """When a job is due next, and for how long it has been under way; None where it is not."""

    name: str
    next_at: datetime | None
    running_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the daemon says of itself, from memory; ``configuration`` is YAML without secrets."""

    version: str
    started_at: datetime
    role: str
    unready: str | None
    database: str
    schedule: tuple[ScheduledRun, ...]
    receivers: tuple[str, ...]
    configuration: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What pages are made from, by default without a daemon.

    All but ``store``, ``titles``, ``judge`` answer from memory.
    """

    store: Store
    clock: Clock
    comparisons: Callable[[], Mapping[str, Comparison]]
    latest: Callable[[], Sequence[LatestRun]] = tuple
    notice: Callable[[], str | None] = lambda: None
    titles: Titles = lambda *_: {}
    status: Callable[[], Status] = _no_daemon
    progress: Callable[[str], tuple[PullProgress, ...]] = lambda _: ()
    policy: Callable[[], NotificationPolicy] = NotificationPolicy
    message_text: Callable[[Message], str] = _no_daemon
    judge: Callable[[Mapping[str, Comparison], str, Mapping[str, Any]], Mapping[str, object]] = (
        _no_daemon
    )
    """The certificate, as JSON has it, of the gate on one of the comparisons, asked with the options of `rankwatch gate`."""
    find_user: Callable[[str], str] = str
    """What a user goes by in all that is stored, of the id that a person asks for."""
    prefix: str = ""
    """Path below which the pages lie, where a proxy adds one."""
    rows: dict[str, tuple[LatestRun, Comparison | None, Any]] = field(default_factory=dict)
    """Rows of the overview, each with what it was made of."""

    def comparison(self, name: str) -> Comparison | None:
        """The comparison as it is configured; None where only runs of it are left."""
        return self.comparisons().get(name)

    def item_urls(self, name: str, items: Collection[str]) -> Mapping[str, str]:
        """Addresses of the items' own pages.

        None where the comparison does not say where they are.
        """
        found = self.comparison(name)
        template = None if found is None else found.item_url
        return (
            {}
            if template is None
            else {item: template.replace("{item}", _part(item)) for item in items}
        )

    def latest_of(self, name: str) -> LatestRun | None:
        """What was last published of the comparison."""
        return next((each for each in self.latest() if each.run.comparison == name), None)

    def require(self, name: str) -> None:
        """AbsentPageError unless the comparison is configured or was run."""
        if self.latest_of(name) is None and not any(
            name in (key, each.family) for key, each in self.comparisons().items()
        ):
            raise AbsentPageError(
                f"no comparison named {name}: the overview lists those that there are"
            )

    def run_at(self, name: str, slot: datetime) -> Run:
        """The run of a slot; AbsentPageError where there is none."""
        found = self.store.history.runs(comparison=name, since=slot, until=slot, limit=1)
        if not found:
            raise AbsentPageError(
                (
                    f"no run of {name} has the slot {format_instant(slot)}: it was never run, or "
                    "is deleted"
                )
            )
        return found[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One request for a page: the parts of its path and what was chosen."""

    path: Mapping[str, str]
    chosen: Mapping[str, str]


def require_slot(text: str) -> datetime:
    """The slot that an address names; AbsentPageError where it is none."""
    try:
        return read_instant(text)
    except ValueError:
        raise AbsentPageError(f"{text} is no slot: write it as 2024-01-08T00:00:00Z") from None


def comparison_url(name: str, **chosen: object) -> str:
    """The page of a comparison."""
    return f"/c/{_part(name)}{_query(chosen)}"


@lru_cache(maxsize=4096)
def run_url(name: str, slot: datetime, **chosen: object) -> str:
    """The page of a run."""
    return f"/c/{_part(name)}/runs/{format_instant(slot)}{_query(chosen)}"


@lru_cache(maxsize=4096)
def user_url(name: str, user: str, slot: datetime | None = None) -> str:
    """The page of a user, in the newest run where no slot is given."""
    chosen = {} if slot is None else {"slot": format_instant(slot)}
    if user in {"", ".", ".."} or "/" in user or "\\" in user:
        # Browsers take such a path apart.
        return f"/c/{_part(name)}/users{_query({'id': user, **chosen})}"
    return f"/c/{_part(name)}/users/{_part(user)}{_query(chosen)}"


def alert_url(key: str) -> str:
    """The page of an incident."""
    return f"/alerts/{_part(key)}"


def _part(text: str) -> str:
    return quote(text, safe="")


def _query(chosen: Mapping[str, object]) -> str:
    given = {key: value for key, value in chosen.items() if value not in (None, "")}
    return f"?{urlencode(given)}" if given else ""
