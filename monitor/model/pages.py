"""What pages show beyond one run: series over runs, one user over runs, and how an incident was notified."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from monitor.model.alerts import Transition
from monitor.model.model_versions import Models, tell_models
from monitor.model.notifications import DeliveryStatus
from monitor.model.runs import Run, RunStatus


class SeriesKey(NamedTuple):
    """What is followed over runs: one metric over one segment of a comparison."""

    comparison: str
    metric: str
    segment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One finished run of a series: what was measured of one segment, and what a learning rule expected of it."""

    run_id: int
    slot: datetime
    status: RunStatus
    mean: float | None  # None where nobody was compared
    standard_error: float | None
    n: int
    expected: float | None = None
    low: float | None = (
        None  # the ends of what was normal, None where that side is open or not known yet
    )
    high: float | None = None
    config_hash: str
    k: int | None
    models: Models | None = None


def tell_changes(
    before: Run | SeriesPoint,
    slot: datetime,
    config_hash: str,
    k: int | None,
    models: Models | None,
) -> Iterator[str]:
    """In words, what keeps a run of the slot from being held against one before as if nothing else had changed."""
    if before.config_hash != config_hash:
        yield "measured differently from here" + (
            f": k {before.k} → {k}" if before.k and k and before.k != k else ""
        )
    yield from tell_models(models, slot, before.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class FiringChange:
    """In the run of a slot a firing began, or it ended; ``key``: of its incident."""

    alert: str
    segment: str
    slot: datetime
    is_start: bool
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMeans:
    """One segment's mean in each of the newest ok runs, oldest first.

    None where nobody was compared.
    """

    segment: str
    users: int  # compared in the newest run
    means: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRun:
    """One user's scores in one run, by metric; None where a score is undefined."""

    slot: datetime
    scores: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserLists:
    """Both lists of one user in one run, best first."""

    baseline: tuple[str, ...]
    candidate: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a receiver answered at one time, or why it was not sent.

    ``changes``: positions among the incident's transitions.
    """

    receiver: str
    at: datetime
    status: DeliveryStatus
    reason: str | None
    changes: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentHistory:
    """The transitions of one incident in the order they were stored, and what was sent of them to whom."""

    transitions: tuple[Transition, ...]
    attempts: tuple[Attempt, ...] = field(default_factory=tuple)
