"""The state of a daemon, as its pages show it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class RoleKind(StrEnum):
    """The role of a daemon among the daemons on one database."""

    LEADER = "leader"
    UNSURE = "leader without a renewed lease"  # another daemon may have taken over
    STANDBY = "standby"


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The role of this daemon. ``leader``: host and process of the last leader seen."""

    kind: RoleKind
    leader: str | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAway:
    """The database cannot be read. Without ``reason`` the cause is unknown."""

    since: datetime
    reason: str | None
    read_at: datetime | None  # when the states on the pages were read; None if never


class Refused(StrEnum):
    """Files that a daemon reloads while it runs."""

    CONFIGURATION = "configuration"
    CERTIFICATE = "certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A file that could not be reloaded. Its earlier content stays in use."""

    file: Refused
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonState:
    """The role of a daemon, and its problems."""

    role: Role
    away: DatabaseAway | None = None
    refusals: tuple[Refusal, ...] = ()
