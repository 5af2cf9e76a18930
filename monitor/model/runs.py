"""Runs of a comparison, their results, and the claims to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from monitor.model.alerts import AlertState, Expectation, Standstill, Transition
from monitor.model.explanation import ExampleLists, Explanation, Split
from monitor.model.immutable import immutable
from monitor.model.model_versions import Models
from monitor.model.rankings import Arm, Coverage, Panel, RankingTable
from monitor.model.run_reasons import IdMismatch, RunReasonKind, RunReasons
from monitor.model.unpaired import UnpairedResults

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd


KEPT_MARK = "@"
RUN_MARK = ("id", "attempt", "status", "finished_at", "labelled_at")


class RunStatus(StrEnum):
    """The status of a run. ``insufficient``: too few users of the panel could be paired."""

    RUNNING = "running"
    OK = "ok"
    INSUFFICIENT = "insufficient"
    FAILED = "failed"
    ABANDONED = "abandoned"


@immutable
class PullProgress:
    """Progress of a pull. ``what`` is the arm or the noise floor from which lists are pulled.

    ``stored_answers`` counts the answers of an earlier attempt. ``reason`` says why answers cannot
    be stored.
    """

    what: str
    users: int
    answered: int
    failed: int
    stored_answers: int
    elapsed_s: float
    reason: str | None

    @property
    def words(self) -> str:
        """The progress for people, with the time left at the current rate."""
        clauses = [f"{self.answered:,} of {self.users:,} users answered"]
        if self.stored_answers:
            clauses.append(f"{self.stored_answers:,} of them before a restart")
        if self.failed:
            clauses.append(f"{self.failed:,} failed")
        a_second = (self.answered + self.failed - self.stored_answers) / self.elapsed_s
        if a_second:
            waiting = self.users - self.answered - self.failed
            minutes, seconds = divmod(round(waiting / a_second), 60)
            clauses += [f"{a_second:,.3g} a second", f"{minutes:,} min {seconds} s left"]
        if self.reason:
            clauses.append(f"a restart would lose these answers: {self.reason}")
        return ", ".join(clauses)


@immutable
class PullRequest:
    """Requests the top k lists of users for a slot from one arm, within ``timeout_s`` seconds.

    - ``what`` names the pull in its progress. It is an arm or the noise floor.
    - ``on_progress`` is called with the progress of a long pull. The default has no effect.
    - ``answers_path`` is the start of the path of the file that stores answers. None stores
      nothing. Stored answers are valid for ``answers_valid_s``.
    - ``together`` is a seed for the random order in which users are requested. All HTTP pulls of
      one run get the same seed. Without a seed, users are requested in the given order.
    - ``is_uncached`` asks caches not to answer.
    """

    users: pd.Index[str]
    k: int
    slot: datetime
    timeout_s: float
    what: str = ""
    on_progress: Callable[[PullProgress], object] = str
    answers_path: str | None = None
    answers_valid_s: float = 0.0
    together: str = ""
    is_uncached: bool = False


@immutable
class JoinRequest:
    """Requests the top k lists of all users from both arms, within ``timeout_s`` seconds.

    In each dimension, the most frequent values become segments, at most ``max_segment_values``.
    """

    k: int
    slot: datetime
    timeout_s: float
    max_segment_values: int
    shows_examples: bool = True  # whether errors may quote a value that cannot be read


@immutable
class Claim:
    """The right of ``owner`` to run one slot until ``until``. ``attempt`` counts from 1."""

    run_id: int
    comparison: str
    slot: datetime
    owner: str
    attempt: int
    started_at: datetime
    until: datetime
    # The slot has an ok run, which only another ok run may replace
    has_ok_run: bool = False
    # The result of an earlier attempt is kept. It becomes a run with the name that `kept_name`
    # returns.
    keeps_earlier: bool = False


@immutable
class Histogram:
    """Counts of scores in bins of equal width from ``low`` to ``high``, both ends included."""

    low: float
    high: float
    counts: tuple[int, ...]


@immutable
class Summary:
    """The results of one metric for the paired users of one segment."""

    segment: str
    metric: str
    n: int  # number of users with a defined score
    n_undefined: int
    mean: float | None  # None if n is 0
    standard_error: float | None  # None if n is 0 or 1
    # Quantiles and shares by the name of their `Statistic`; empty if n is 0
    statistics: Mapping[str, float]
    histogram: Histogram

    def value(self, statistic: str) -> float | None:
        """Return the value of the statistic with this canonical name.

        Returns None if there is none.
        """
        return self.mean if statistic == "mean" else self.statistics.get(statistic)


@immutable
class Scores:
    """Scores of n paired users: the users' ids, and n float64 for each metric, NaN if undefined."""

    users: pd.Index[str]
    by_metric: Mapping[str, npt.NDArray[np.float64]]


@immutable
class ArmScore:
    """The value of one metric of one arm in one segment. None if undefined. ``n`` counts lists."""

    segment: str
    arm: Arm
    metric: str
    value: float | None
    n: int


@immutable
class KeptLists:
    """The compared lists of paired users, cut to k and without duplicates.

    Both tables have the same users in the same order.
    """

    baseline: RankingTable
    candidate: RankingTable
    # The rows of each segment, `all` first. Segments with too few compared users are left out
    segments: Mapping[str, npt.NDArray[np.intp]]

    @property
    def panel(self) -> Panel:
        """The users whose lists these are."""
        return Panel(users=self.baseline.users, segments=self.segments)


class EvidenceKind(StrEnum):
    """Why a user's lists were stored: the score is among the lowest, or nearest to the median."""

    WORST = "worst"
    REPRESENTATIVE = "representative"


@immutable
class Evidence:
    """Both lists of one user, for people. ``position`` counts within a kind from 0."""

    kind: EvidenceKind
    position: int
    user: str
    baseline: tuple[str, ...]
    candidate: tuple[str, ...]
    scores: Mapping[str, float | None]


EXAMPLE_USERS = 2
"""A message shows the lists of at most this many users."""


def worst_examples(evidence: Sequence[Evidence]) -> tuple[ExampleLists, ...]:
    """Return the lists that messages show if the explanation has no examples.

    These are the users with the least similar lists, who come first in the evidence of a run.
    """
    return tuple(
        ExampleLists(user=lists.user, baseline=lists.baseline, candidate=lists.candidate)
        for lists in evidence[:EXAMPLE_USERS]
        if lists.kind is EvidenceKind.WORST
    )


def items_of(users: Iterable[Evidence]) -> frozenset[str]:
    """Return all items in the lists of these users."""
    items: set[str] = set()
    for user in users:
        items.update(user.baseline, user.candidate)
    return frozenset(items)


@immutable
class RunFacts:
    """Facts about a run. They have the same names in classes, tables and pages."""

    slot: datetime
    status: RunStatus = RunStatus.RUNNING  # until the run is assessed
    reasons: RunReasons = ()  # why the run is not ok, or what an ok run had to leave out
    # The configured number of items that could be listed. If an arm listed more items, their
    # number.
    catalogue_size: int | None = None
    models: Models | None = None  # None until a version is known
    input_hash: str | None = None  # a hash of all users' lists: equal lists have equal hashes
    unpaired: UnpairedResults | None = None  # None if the comparison is paired

    @property
    def is_split_off(self) -> bool:
        """Whether the users are not split as planned, so that no other value can be used."""
        return any(reason.kind is RunReasonKind.SPLIT_OFF for reason in self.reasons)


@immutable
class MeasuredRun(RunFacts):
    """What one run measured, as it is stored and judged."""

    coverage: Coverage | None = None
    summaries: tuple[Summary, ...] = ()
    # Batches with ascending users; None if no user was compared or no scores are stored
    scores: Iterable[Scores] | None = None
    evidence: tuple[Evidence, ...] = ()
    arm_scores: tuple[ArmScore, ...] = ()
    lists: KeptLists | None = None  # None if no user was compared or no lists are stored
    is_labelled: bool = False  # whether relevance was known
    split: Split | None = None  # None if no metric can be split; then ``explanation`` is None too
    explanation: Explanation | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    # Each arm's time to answer. It is shown but not stored
    pull_seconds: Mapping[Arm, float] = field(default_factory=dict)
    # Quantiles of `SourceAnswers.arrival_gaps`. They are not stored
    gap_s: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    # Mismatches are stored with the explanation. The reason describes them in words.
    id_mismatches: tuple[IdMismatch, ...] = ()


@immutable
class RunResult(MeasuredRun):
    """Everything that a finished run stores in one transaction: what was measured and judged."""

    claim: Claim
    reason: str | None  # the reasons as a text
    finished_at: datetime
    config_hash: str
    k: int
    states: tuple[AlertState, ...] = ()  # the states that the run judged
    transitions: tuple[Transition, ...] = ()  # the transitions that the run caused, in order
    expectations: tuple[Expectation, ...] = ()
    standstills: tuple[Standstill, ...] = ()
    # Until when the run waits for relevance; None if no relevance is wanted
    labels_until: datetime | None = None


@immutable
class Run(RunFacts):
    """One stored run as lists and pages show it."""

    id: int
    comparison: str
    reason: str | None  # the reasons as a text
    attempt: int
    owner: str
    config_hash: str
    k: int | None
    asked: int | None
    paired: int | None
    started_at: datetime
    finished_at: datetime | None
    # Until when the run waits for relevance; None if no relevance is wanted
    labels_until: datetime | None = None
    labelled_at: datetime | None = None  # when metrics of relevance were measured

    @property
    def mark(self) -> tuple[object, ...]:
        """A value that differs from run to run, and changes with a new attempt or with labels."""
        return tuple(getattr(self, name) for name in RUN_MARK)

    def has_input_of(self, other: Run | None) -> bool:
        """Return whether this run and the other run got the same lists."""
        if other is None or self.input_hash is None:
            return False
        return self.input_hash == other.input_hash


def kept_name(comparison: str, attempt: int) -> str:
    """Return the name under which an earlier attempt of a slot is stored.

    No comparison can have it.
    """
    return f"{comparison}{KEPT_MARK}{attempt}"


@immutable
class FinishedRun(Run):
    """One finished run with all values that rules judge, and its explanation if still stored."""

    coverage: Coverage | None = None  # None if the run ended before any user was asked
    summaries: tuple[Summary, ...] = ()
    arm_scores: tuple[ArmScore, ...] = ()
    explanation: Explanation | None = None

    @property
    def leading_metric(self) -> str | None:
        """The metric of the explanation, else the first measured metric."""
        if self.explanation is not None:
            return self.explanation.metric
        return self.summaries[0].metric if self.summaries else None


@immutable
class LatestRun(FinishedRun):
    """A comparison's newest finished run, its alert states, and the time of the last ok run."""

    states: tuple[AlertState, ...]
    last_ok_slot: datetime | None
    last_ok_at: datetime | None
    unlabelled: int = 0  # number of runs that still wait for metrics of relevance
    first_slot: datetime | None = None  # slot of the oldest stored run, with any status
    expectations: tuple[Expectation, ...] = ()
    # Slot and mean of the leading metric over all users, in the newest runs with status ok
    recent: tuple[tuple[datetime, float | None], ...] = ()
    last_end: Transition | None = None  # the last end of a firing in the week before the run


@immutable
class Watermark:
    """Which results were read: `Run.mark` of each comparison's newest run, and a transition id."""

    runs: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    transition: int = 0


@immutable
class Lease:
    """An acquired lease.

    ``epoch`` grows by one with each acquisition. ``last_holder`` is the holder of the lease before
    this acquisition, if there was one.
    """

    holder: str
    epoch: int
    last_holder: str | None


@immutable
class Occupied:
    """Another daemon has the lease.

    The lease ends in ``free_in_s`` seconds unless it is renewed.
    """

    holder: str
    epoch: int
    free_in_s: float
