"""The state of a daemon, as its pages show it."""

from datetime import datetime
from enum import StrEnum

from monitor.model.immutable import immutable


class RoleKind(StrEnum):
    """The role of a daemon among the daemons on one database."""

    LEADER = "leader"
    UNSURE = "leader without a renewed lease"  # another daemon may have taken over
    STANDBY = "standby"


@immutable
class Role:
    """The role of this daemon. ``leader`` is the host and process of the last known leader."""

    kind: RoleKind
    leader: str | None
    epoch: int | None


@immutable
class DatabaseAway:
    """The database cannot be read. If ``reason`` is None, the cause is unknown."""

    since: datetime
    reason: str | None
    read_at: datetime | None  # when the states on the pages were read; None if never


class Refused(StrEnum):
    """The kinds of files that a daemon reloads while it runs."""

    CONFIGURATION = "configuration"
    CERTIFICATE = "certificate"


@immutable
class ReloadRefusal:
    """A file that could not be reloaded. Its earlier content stays in use."""

    file: Refused
    at: datetime
    reason: str


@immutable
class DaemonState:
    """The role of a daemon, and its problems."""

    role: Role
    away: DatabaseAway | None = None
    refusals: tuple[ReloadRefusal, ...] = ()
