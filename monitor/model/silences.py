"""Who does not want to be told of what, and what stands when something is to be told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from monitor.model.alerts import Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Alerts that all ``matchers`` match are not told from ``starts_at`` until ``ends_at``."""

    id: int
    matchers: tuple[str, ...]
    author: str
    comment: str
    created_at: datetime
    starts_at: datetime
    ends_at: datetime

    def is_active(self, now: datetime) -> bool:
        """Whether it holds at this time."""
        return self.starts_at <= now < self.ends_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What stands in one comparison when one receiver is to be told.

    ``firing``: the starts of all firings that last, oldest first. ``told``: the keys of those firings, ended ones too, of which
    the receiver was told or may know. ``acknowledged``: keys of firings that somebody looks after. ``silences``: active ones.
    ``refused``: receivers, others too, that refused for good to be told of a firing, each with its key.
    """

    firing: tuple[Transition, ...]
    told: frozenset[str]
    acknowledged: frozenset[str] = frozenset()
    silences: tuple[Silence, ...] = ()
    refused: frozenset[tuple[str, str]] = frozenset()
