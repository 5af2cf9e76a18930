"""What people must know of a daemon when they look at its pages."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RoleKind(StrEnum):
    """The part of a daemon among those on one database."""

    LEADER = "leader"
    UNSURE = "leader without a renewed lease"  # another daemon may lead since
    STANDBY = "standby"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The part of this daemon. ``leader``: host and process of the daemon that led when last seen."""

    kind: RoleKind
    leader: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAway:
    """The database cannot be read; without a ``reason`` it was not read, for whatever reason."""

    since: datetime
    reason: str | None
    read_at: datetime | None  # when the states on the pages were read; None before the first time


class Refused(StrEnum):
    """What a daemon reads again while it runs."""

    CONFIGURATION = "configuration"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A file that could not be used when it was read again: what was read before stays in force."""

    what: Refused
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """What people must know of a daemon when they look at its pages."""

    role: Role
    away: DatabaseAway | None = None
    refusals: tuple[Refusal, ...] = ()
