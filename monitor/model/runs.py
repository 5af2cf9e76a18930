"""Runs of a comparison, what one run found, and the leases on running them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from monitor.model.alerts import AlertState, Expectation, Standstill, Transition
from monitor.model.explanation import Explanation, Split
from monitor.model.id_mismatches import IdMismatch
from monitor.model.model_versions import Models
from monitor.model.rankings import Arm, Coverage, Panel, RankingTable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


KEPT_MARK = "@"
UNTRUSTED_FLOOR = (
    "noise_floor is untrusted"  # so the sentence of a run's reason begins that says why
)
RUN_MARK = ("id", "attempt", "status", "finished_at", "labelled_at")


class RunStatus(StrEnum):
    """How a run stands.

    ``insufficient``: too little of the panel could be paired to compare anything.
    """

    RUNNING = "running"
    OK = "ok"
    INSUFFICIENT = "insufficient"
    FAILED = "failed"
    ABANDONED = "abandoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullProgress:
    """How far the pull of ``what`` has come.

    ``kept`` answers are an earlier attempt's, ``trouble`` is why none can be.
    """

    what: str
    users: int
    answered: int
    failed: int
    kept: int
    elapsed_s: float
    trouble: str | None = None

    @property
    def words(self) -> str:
        """All this as people read it, and how long the others take if it goes on like that."""
        told = [f"{self.answered:,} of {self.users:,} users answered"]
        told += [f"{self.kept:,} of them before a restart"] if self.kept else []
        told += [f"{self.failed:,} failed"] if self.failed else []
        if a_second := (self.answered + self.failed - self.kept) / self.elapsed_s:
            minutes, seconds = divmod(
                round((self.users - self.answered - self.failed) / a_second), 60
            )
            told += [f"{a_second:,.3g} a second", f"{minutes:,} min {seconds} s left"]
        return ", ".join(
            told + ([f"which a restart would lose: {self.trouble}"] if self.trouble else [])
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """What an arm is asked for: these users' top k for this slot, answered within ``timeout_s`` seconds from now.

    ``what``: an arm, or the noise floor. A pull that lasts may ``tell`` how far it has come, and keep what it is answered in a
    file whose path begins as ``kept_at``, where it counts for ``kept_s``.
    ``together``: name of a run whose HTTP pulls ask for users in one random order that follows from it, at about the same
    moment; in the order given without one. ``is_uncached``: caches are told that what they hold is no answer.
    """

    users: pd.Index[str]
    k: int
    slot: datetime
    timeout_s: float
    what: str = ""
    tell: Callable[[PullProgress], object] = str
    kept_at: str | None = None
    kept_s: float = 0.0
    together: str = ""
    is_uncached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """What both arms are asked for at once: everybody's top k for this slot, read within ``timeout_s`` seconds from now.

    Of a segment dimension the ``max_segment_values`` most frequent values are segments of their own.
    """

    k: int
    slot: datetime
    timeout_s: float
    max_segment_values: int
    shows_examples: bool = True  # whether errors may quote a value that cannot be read


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to run one slot, held by ``owner`` until ``until``; ``attempt`` counts from 1."""

    run_id: int
    comparison: str
    slot: datetime
    owner: str
    attempt: int
    started_at: datetime
    until: datetime
    # The slot was run well before: only another ok run may take the place of what it found
    has_ok: bool = False
    # What an earlier attempt stored is not deleted but stays as a run of the name `kept_name`
    keeps_earlier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts of scores in equal bins from ``low`` to ``high``, both ends included."""

    low: float
    high: float
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One metric over the paired users of one segment."""

    segment: str
    metric: str
    n: int  # users with a defined score
    n_undefined: int
    mean: float | None  # None with n = 0
    standard_error: float | None  # None with n = 0 or 1
    statistics: Mapping[
        str, float
    ]  # names of Statistic (quantiles, shares) to values; empty with n = 0
    histogram: Histogram

    def value(self, statistic: str) -> float | None:
        """Value of the statistic of that canonical name, None where there is none."""
        return self.mean if statistic == "mean" else self.statistics.get(statistic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Per-user scores of the paired users: n strings and per metric n float64 (NaN where undefined)."""

    users: pd.Index[str]
    by_metric: Mapping[str, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmScore:
    """One arm-wide metric of one arm over one segment.

    None where undefined. ``n``: lists that it is about.
    """

    segment: str
    arm: Arm
    metric: str
    value: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLists:
    """The lists of the paired users as they were compared: cut to k, without duplicates, users in one order in both tables."""

    baseline: RankingTable
    candidate: RankingTable
    segments: Mapping[
        str, npt.NDArray[np.intp]
    ]  # rows of the tables, `all` first, without those too little compared

    @property
    def panel(self) -> Panel:
        """The users whose lists these are."""
        return Panel(users=self.baseline.users, segments=self.segments)


class EvidenceKind(StrEnum):
    """Why a user's lists were kept: among the lowest scores, or nearest to the median."""

    WORST = "worst"
    REPRESENTATIVE = "representative"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Both lists of one user, kept to be read by a person.

    ``position`` orders within a kind, from 0.
    """

    kind: EvidenceKind
    position: int
    user: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    scores: Mapping[str, float | None]


def items_of(users: Iterable[Evidence]) -> frozenset[str]:
    """All items in the lists of these users."""
    return frozenset(item for each in users for item in (*each.baseline, *each.candidate))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """What one run measured, as it is stored; nothing of a run that measured nothing."""

    coverage: Coverage | None = None
    summaries: tuple[Summary, ...] = ()
    scores: Iterable[Scores] | None = (
        None  # batches whose users ascend; None when nobody was compared, or none are kept
    )
    evidence: tuple[Evidence, ...] = ()
    arm_scores: tuple[ArmScore, ...] = ()
    catalogue_size: int | None = (
        None  # items that could be listed, as configured, and no fewer than either arm listed
    )
    lists: KeptLists | None = None  # as `scores`
    is_labelled: bool = False  # relevance was known
    split: Split | None = None  # None where no metric can be split; likewise the explanation
    explanation: Explanation | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    pull_seconds: Mapping[Arm, float] = field(
        default_factory=dict
    )  # each arm's time to answer: shown and not stored
    gap_seconds: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict
    )  # quantiles of `Answers.gaps`: not stored
    models: Models | None = None  # None as long as no version is known
    input_hash: str | None = None  # of all users' lists: equal in runs over the same lists
    id_mismatches: tuple[
        IdMismatch, ...
    ] = ()  # stored with the explanation, and in words in the reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a run found, as far as it got: all that rules judge it by."""

    slot: datetime
    status: RunStatus
    reason: str | None = None
    measured: MeasuredRun = field(default_factory=MeasuredRun)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(MeasuredRun):
    """Everything that a finished run stores, in one transaction: what it measured, and how it was judged."""

    claim: Claim
    status: RunStatus
    reason: str | None  # in words why a run is not ok, or what an ok one had to leave out
    finished_at: datetime
    config_hash: str
    k: int
    states: tuple[AlertState, ...] = ()  # those that the run judged
    transitions: tuple[Transition, ...] = ()  # those that it caused, in order
    expectations: tuple[Expectation, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    labels_until: datetime | None = (
        None  # until when relevance is waited for; None when none is wanted
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One stored run as lists and pages show it."""

    id: int
    comparison: str
    slot: datetime
    status: RunStatus
    reason: str | None
    attempt: int
    owner: str
    config_hash: str
    k: int | None
    asked: int | None
    paired: int | None
    started_at: datetime
    finished_at: datetime | None
    catalogue_size: int | None = None
    labels_until: datetime | None = (
        None  # until when relevance is waited for; None when none is wanted
    )
    labelled_at: datetime | None = None  # when it was measured
    models: Models | None = None
    input_hash: str | None = None

    @property
    def mark(self) -> tuple[object, ...]:
        """What distinguishes the run from others, and from itself before it was run anew or labelled."""
        return tuple(getattr(self, name) for name in RUN_MARK)


def untrusted_floor(reason: str | None) -> str | None:
    """The sentence of a run's reason that says why its noise floor, and what lies beyond it, is not judged."""
    return next(
        (each for each in (reason or "").split("; ") if each.startswith(UNTRUSTED_FLOOR)), None
    )


def kept_name(comparison: str, attempt: int) -> str:
    """The name under which an earlier attempt of a slot is kept as a run of its own.

    No configured comparison can have it.
    """
    return f"{comparison}{KEPT_MARK}{attempt}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One finished run with all that rules judge it by, and its explanation while that is kept."""

    run: Run
    coverage: Coverage | None  # None where it ended before anybody was asked
    summaries: tuple[Summary, ...]
    arm_scores: tuple[ArmScore, ...] = ()
    explanation: Explanation | None = None

    @property
    def leading_metric(self) -> str | None:
        """The metric that the explanation is about, else the first that was measured."""
        if self.explanation is not None:
            return self.explanation.metric
        return self.summaries[0].metric if self.summaries else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestRun(RunRecord):
    """A comparison's newest finished run with what it measured, the alert states, and when a run last ended ok."""

    states: tuple[AlertState, ...]
    last_ok_slot: datetime | None
    last_ok_at: datetime | None
    unlabelled: int = 0  # runs whose measures of relevance are missing and may still be made up for
    first_slot: datetime | None = None  # of the oldest run that is stored, whatever became of it
    expectations: tuple[Expectation, ...] = ()
    recent: tuple[
        tuple[datetime, float | None], ...
    ] = ()  # means of the leading metric, all users, in the newest ok runs
    ended: Transition | None = None  # the last end of a firing within the week before the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How far stored results were read: the `Run.mark` of each comparison's newest finished run, and the last transition."""

    runs: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    transition: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The lease, taken.

    ``epoch`` grows by one each time it is taken; ``before``: its last holder, None for nobody.
    """

    holder: str
    epoch: int
    before: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupied:
    """The lease is held by another daemon: its name and epoch, and how long the lease lasts unless it is renewed."""

    holder: str
    epoch: int
    free_in_s: float
