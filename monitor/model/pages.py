"""What pages show in addition to single runs: series, users, and deliveries of incidents."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from monitor.model.alerts import Transition
from monitor.model.immutable import immutable
from monitor.model.model_versions import Models
from monitor.model.notifications import DeliveryStatus
from monitor.model.rules import Severity
from monitor.model.runs import RunStatus


class SeriesKey(NamedTuple):
    """A series over runs: one metric in one segment of a comparison."""

    comparison: str
    metric: str
    segment: str


@immutable
class SeriesPoint:
    """One finished run of a series, with what a learning rule expected."""

    run_id: int
    slot: datetime
    status: RunStatus
    mean: float | None  # None if no user was compared
    standard_error: float | None
    n: int
    expected: float | None = None
    # The ends of the normal range. None if that side has no end, or is not known yet
    low: float | None = None
    high: float | None = None
    config_hash: str
    k: int | None
    models: Models | None = None


@immutable
class SegmentMeans:
    """One segment's mean in each of the newest runs, oldest first. None if a run had no users."""

    segment: str
    n: int  # number of compared users in the newest run
    means: tuple[float | None, ...]


@immutable
class UserRun:
    """One user's scores in one run, by metric. None if undefined."""

    slot: datetime
    scores: Mapping[str, float | None]


@immutable
class UserLists:
    """Both lists of one user in one run, best first."""

    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@immutable
class ReceiverAnswer:
    """What a receiver answered at one time, or why nothing was sent.

    ``positions`` says which transitions of the incident were sent, counted from 0.
    """

    receiver: str
    at: datetime
    status: DeliveryStatus
    reason: str | None
    positions: tuple[int, ...]


@immutable
class IncidentHistory:
    """The transitions of one incident in the order of storing, and the answers of receivers."""

    transitions: tuple[Transition, ...]
    answers: tuple[ReceiverAnswer, ...]


@immutable
class IncidentFilter:
    """Selects incidents. None, or an empty text, selects all."""

    comparison: str | None = None
    severity: Severity | None = None  # severity of the incident's most severe firing
    text: str = ""  # a part of an alert, segment, reason or explanation; case is ignored


@immutable
class IncidentStart:
    """The first firing of an incident. ``number`` orders incidents by the time of storing."""

    number: int
    key: str
    at: datetime


@immutable
class ReceiverHealth:
    """The last results of a receiver's deliveries.

    A field is None if there is no such result, or if it was deleted.
    """

    last_success_at: datetime | None = None
    # If the same error occurred several times in a row, the first of these times
    last_error_at: datetime | None = None
    reason: str | None = None  # the text of the last error

    @property
    def is_failing(self) -> bool:
        """Whether the last delivery failed."""
        if self.last_error_at is None:
            return False
        return self.last_success_at is None or self.last_error_at > self.last_success_at
