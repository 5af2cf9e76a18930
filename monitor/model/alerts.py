"""Expectations, verdicts, alert states and transitions."""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from monitor.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.rules import (
    ALWAYS_MISSED,
    KIND_OF_LABEL,
    Condition,
    Direction,
    RuleKind,
    Severity,
)

# Replaces the alert's name in the transition that accepts a level from its slot on
ACCEPTED = "(accepted)"
NEW_NORMAL = (
    "new normal since"  # in the reason of a verdict by a level that nobody has accepted yet
)
MIN_CHANGES = (
    2  # changes of an arm's lists that must have been seen before it is known how often they change
)


class Outcome(StrEnum):
    """The outcome of a rule in one run. Only ``ok`` and ``breach`` compare a value."""

    OK = "ok"
    BREACH = "breach"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    ERROR = "error"


class Removed(StrEnum):
    """What was removed from the configuration, so that nothing watches an alert any more."""

    COMPARISON = "comparison"
    RULE = "rule"
    SEGMENT = "segment"


class State(StrEnum):
    """The state of an alert."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"


@immutable
class Expectation:
    """What a rule with a learned limit expected of one segment in one run.

    Later runs learn from ``series`` and the fields after it.
    """

    alert: str
    segment: str
    runs: int  # healthy ones before it
    expected: float | None = None  # None where ``runs`` are too few
    # The last value on the rule's side that is normal, or from which one counts for a trend
    limit: float | None = None
    opposite: float | None = None  # the last one on the other side that is as normal
    # How far out this run's value lies, standard normal in healthy runs, large on the rule's side
    z: float | None = None
    fault: float | None = None  # the median z of the runs since which its alert fires
    evidence: float | None = None  # of a trend so far, which fires at `evidence_limit`
    evidence_limit: float | None = None
    series: str = ""  # what was measured
    judged: float | None = None  # its value on the scale that is judged
    error: float | None = None  # its sampling error there
    lost: float = 0.0  # share of the users asked who had no score
    # What it adds to evidence over runs: z discounted by the runs' correlation known then
    steady: float | None = None
    usual_lost: float = 0.0  # share without a score in the healthy runs before
    # What people need to know: since when a level that nobody has accepted is expected, or why
    # nothing is
    note: str = ""

    @property
    def is_suspicious(self) -> bool:
        """Whether a trend is halfway to firing on a log scale, so that the run is not healthy."""
        if self.evidence is None or self.evidence_limit is None:
            return False
        return self.evidence >= math.sqrt(self.evidence_limit)


def normal_band(
    expected: float | None,
    limit: float | None,
    opposite: float | None,
) -> tuple[float | None, float | None]:
    """The lowest and the highest normal value of an expectation. None on a side without limit."""
    if expected is None or limit is None:
        return None, None
    return (limit, opposite) if limit <= expected else (opposite, limit)


@immutable
class Standstill:
    """How long an arm's lists have not changed, counted in changes of the other arm.

    Time does not count, because both models may simply not be trained.
    """

    alert: str
    arm: Arm
    missed: int = 0  # changes of the other arm since the arm's own last one
    longest: int = 0  # the most in a standstill that ended without an alert
    changes: int = 0  # of the arm's lists, seen so far

    @property
    def limit(self) -> int | None:
        """The most missed changes that are normal. None before `MIN_CHANGES` changes were seen."""
        if self.changes < MIN_CHANGES:
            return None
        # 1.5 times the longest normal standstill, so that one late training raises no alert.
        return ALWAYS_MISSED + math.ceil(1.5 * self.longest)


@immutable
class Verdict:
    """A rule's conclusion about one segment in one run, with a reason for people."""

    outcome: Outcome
    reason: str
    value: float | None
    users: int
    # The value has reached `resolve_at`: only then does a firing alert resolve
    is_recovered: bool = False
    # There is no value for what the rule has not learned, not for want of data
    is_learning: bool = False
    is_ignored: bool = False  # there is no value for a condition that the configuration ignores
    is_new_normal: bool = False  # judged by a new level that nobody has accepted yet
    headline: str | None = None  # the cause in one clause; None if the reason is one clause


@immutable
class AlertState:
    """One rule on one segment: its state, the slot since when, and the last verdict."""

    comparison: str
    alert: str
    segment: str
    state: State
    since: datetime
    streak: int  # consecutive breaches while quiet or pending; recovered runs in a row while firing
    # The newest slot that changed this state; no older or equal slot changes it again
    judged_slot: datetime
    outcome: Outcome
    reason: str
    value: float | None
    users: int
    threshold: float
    severity: Severity
    dedup_key: str | None  # names the firing while it lasts
    incident: str | None = None
    acknowledged_by: str | None = None


@immutable
class Transition:
    """One change of state, with everything that a message about it shows. Immutable when stored."""

    comparison: str
    alert: str
    segment: str
    slot: datetime
    at: datetime
    from_state: State
    to_state: State
    reason: str
    value: float | None = None
    direction: Direction = Direction.BELOW
    threshold: float = 0.0
    users: int = 0
    metric: str
    statistic: str
    severity: Severity = Severity.INFO
    since: datetime  # slot of the breach that began it; for a resolve, of the firing
    # Shared by a firing and its resolve and by nothing else; None where no firing is concerned
    dedup_key: str | None = None
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    # Found in the run in which it began; None for ends and for alerts on coverage
    explanation: str | None = None
    interval: tuple[float, float] | None = None  # the value's 95 % interval over users
    normal: float | None = None  # what was expected of the healthy runs before
    # Names firings of one comparison and severity that are notified as one; given when stored
    incident: str | None = None
    # Whether it ended at a new level, which somebody has to accept or roll back
    is_new_normal: bool = False
    headline: str | None = None  # the cause in one clause; None if the reason is one clause
    removed: Removed | None = None  # of an end: why nothing watches the alert any more

    @property
    def kind(self) -> RuleKind:
        """What its rule watches. No metric has the label of another kind as its name."""
        return KIND_OF_LABEL.get(self.metric, RuleKind.SIMILARITY)

    @property
    def is_announced(self) -> bool:
        """Whether receivers are notified: the start, acknowledgement or end of a firing."""
        return State.FIRING in (self.from_state, self.to_state)

    @property
    def is_start(self) -> bool:
        """Whether a firing begins."""
        return self.to_state is State.FIRING and self.from_state is not State.FIRING

    @property
    def is_end(self) -> bool:
        """Whether a firing ends."""
        return self.from_state is State.FIRING and self.to_state is not State.FIRING

    @property
    def has_run(self) -> bool:
        """Whether its slot has a run. Changes by people, and stale alerts, have no run."""
        is_stale = (
            self.is_start and self.kind is RuleKind.CONDITION and self.statistic == Condition.STALE
        )
        return self.slot != self.at and not is_stale

    @property
    def is_acknowledgement(self) -> bool:
        """Whether somebody acknowledged a firing. ``reason`` names them."""
        return self.from_state is State.FIRING and self.to_state is State.FIRING


def accepted_level(
    comparison: str,
    slot: datetime,
    reason: str,
    at: datetime,
) -> Transition:
    """The record that the level since the slot is normal: a transition of no alert, not sent."""
    return Transition(
        comparison=comparison,
        alert=ACCEPTED,
        segment="all",
        slot=slot,
        at=at,
        from_state=State.QUIET,
        to_state=State.QUIET,
        reason=reason,
        metric="level",
        statistic=ACCEPTED,
        since=slot,
    )
