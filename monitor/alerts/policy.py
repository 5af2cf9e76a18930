"""What the configuration says of telling: who hears of what, and what nobody is to hear of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from monitor.alerts.matching import Matcher, is_meant
from monitor.model import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Alerts that all matchers match are told to these receivers; with ``goes_on`` later routes are looked at too."""

    matchers: tuple[Matcher, ...]
    receivers: frozenset[str]
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time of maintenance: while it is open, alerts that all matchers match are not told. ``ends_at``: None while closed."""

    name: str
    matchers: tuple[Matcher, ...]
    ends_at: Callable[[datetime], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How alerts are told. ``muted``: (comparison, alert) of rules that only record what they would have sent.

    ``fallbacks``: by receiver, who is told in its place what it refuses for good.
    """

    routes: tuple[Route, ...] = ()
    windows: tuple[Window, ...] = ()
    muted: frozenset[tuple[str, str]] = frozenset()
    fallbacks: Mapping[str, str] = field(default_factory=dict)

    def is_addressed(self, transition: Transition, receiver: str) -> bool:
        """Whether the receiver hears of it by the first route that matches (and further ones if that goes on).

        Without routes everybody hears of everything, and so of what no route matches: nothing is lost between routes.
        """
        chosen: set[str] = set()
        for route in self.routes:
            if is_meant(route.matchers, transition):
                chosen |= route.receivers
                if not route.goes_on:
                    break
        return not chosen or receiver in chosen

    def in_maintenance(self, transition: Transition, now: datetime) -> str | None:
        """Why it is not told at this time, None when no window that is open means it."""
        for window in self.windows:
            ends_at = window.ends_at(now)
            if ends_at is not None and is_meant(window.matchers, transition):
                return f"maintenance {window.name} until {ends_at:%Y-%m-%d %H:%M} UTC"
        return None

    def is_muted(self, transition: Transition) -> bool:
        """Whether its rule only records what it would have sent."""
        return (transition.comparison, transition.alert) in self.muted
