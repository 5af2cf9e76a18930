"""Expectations, verdicts, alert states and transitions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.model.rankings import Arm
from monitor.model.rules import (
    ALWAYS_MISSED,
    KIND_OF_LABEL,
    Condition,
    Direction,
    RuleKind,
    Severity,
)

# In place of an alert in the transition that says that somebody accepted a level, from its slot on
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
    """Why nothing watches an alert any more: the whole reason of its end."""

    COMPARISON = "comparison removed from the configuration"
    RULE = "rule removed from the configuration"
    SEGMENT = "segment removed from the rule in the configuration"


class State(StrEnum):
    """Where an alert stands."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a rule with a learned limit expected of one segment's run.

    From ``series`` on it is what later runs learn from.
    """

    alert: str
    segment: str
    runs: int  # healthy ones before it
    expected: float | None = None  # None where ``runs`` are too few
    limit: float | None = (
        # The last value on the rule's side that is normal, or from which one counts for a trend
        None
    )
    opposite: float | None = None  # the last one on the other side that is as normal
    z: float | None = (
        # How far out this run's value lies, standard normal in healthy runs, large on the rule's
        # side
        None
    )
    fault: float | None = None  # the median z of the runs since which its alert fires
    evidence: float | None = None  # of a trend so far, which fires at `evidence_limit`
    evidence_limit: float | None = None
    series: str = ""  # what was measured
    judged: float | None = None  # its value on the scale that is judged
    error: float | None = None  # its sampling error there
    lost: float = 0.0  # share of the users asked who had no score
    steady: float | None = (
        None  # what it adds to evidence over runs: z discounted by the runs' correlation known then
    )
    usual_lost: float = 0.0  # share without a score in the healthy runs before
    # What people need to know: since when a level that nobody has accepted is expected, or why
    # nothing is
    note: str = ""

    @property
    def is_suspicious(self) -> bool:
        """Whether a trend has gone half the way to firing, on the scale of logarithms: no run to call healthy."""
        if self.evidence is None or self.evidence_limit is None:
            return False
        return self.evidence >= math.sqrt(self.evidence_limit)


def normal_band(
    expected: float | None, limit: float | None, opposite: float | None
) -> tuple[float | None, float | None]:
    """The lowest and the highest value that are normal, of an expectation's limits on either side; None where it is open."""
    if expected is None or limit is None:
        return None, None
    return (limit, opposite) if limit <= expected else (opposite, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """How long an arm's lists have stood still, in changes of the other arm, not in time: neither may be trained."""

    alert: str
    arm: Arm
    missed: int = 0  # changes of the other arm since the arm's own last one
    longest: int = 0  # the most in a standstill that ended by itself
    changes: int = 0  # of the arm's lists, seen so far

    @property
    def limit(self) -> int | None:
        """The most missed changes that are normal; None while too few changes were seen to know."""
        # Half as much again as the longest normal standstill, so that one late training is no
        # alert.
        return None if self.changes < MIN_CHANGES else ALWAYS_MISSED + math.ceil(1.5 * self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule concludes about one segment in one run, with a reason that a person can read."""

    outcome: Outcome
    reason: str
    value: float | None
    users: int
    is_recovered: bool = (
        False  # the value has reached `resolve_at`: only then does a firing alert resolve
    )
    is_learning: bool = (
        False  # there is no value for what the rule has not learned, not for want of data
    )
    is_ignored: bool = False  # there is no value for a condition that the configuration ignores
    is_new_normal: bool = False  # judged by a new level that nobody has accepted yet


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """One rule on one segment: where it stands since which slot, and the last verdict."""

    comparison: str
    alert: str
    segment: str
    state: State
    since: datetime
    streak: int  # consecutive breaches while quiet or pending; recovered runs in a row while firing
    # The newest slot that moved this state: an older or equal one never moves it again
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of state, and all that a message about it contains. Never changed once stored."""

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
    dedup_key: str | None = (
        # Shared by a firing and its resolve and by nothing else; None where no firing is concerned
        None
    )
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    explanation: str | None = (
        None  # found in the run in which it began; None for ends and for alerts on coverage
    )
    interval: tuple[float, float] | None = None  # the value's 95 % interval over users
    normal: float | None = None  # what was expected of the healthy runs before
    incident: str | None = (
        # Names firings of one comparison and severity that are notified as one; given when stored
        None
    )
    # Whether it ended at a new level, which somebody has to accept, or else to roll back
    is_new_normal: bool = False

    @property
    def kind(self) -> RuleKind:
        """What its rule watches: a metric's own name is no label of another kind."""
        return KIND_OF_LABEL.get(self.metric, RuleKind.SIMILARITY)

    @property
    def is_announced(self) -> bool:
        """Whether receivers are notified of it: the start, the acknowledgement and the end of a firing."""
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
    def removed(self) -> Removed | None:
        """Why it ended although nobody saw it recover: nothing watches it any more."""
        return Removed(self.reason) if self.is_end and self.reason in tuple(Removed) else None

    @property
    def has_run(self) -> bool:
        """Whether its slot is that of a run: what people change, or what time alone changes, has none."""
        is_stale = (
            self.is_start and self.kind is RuleKind.CONDITION and self.statistic == Condition.STALE
        )
        return self.slot != self.at and not is_stale

    @property
    def is_acknowledgement(self) -> bool:
        """Whether somebody acknowledged a firing; ``reason`` names them."""
        return self.from_state is State.FIRING and self.to_state is State.FIRING


def accepted_level(comparison: str, slot: datetime, reason: str, at: datetime) -> Transition:
    """The record that what is measured since the slot is normal: a transition of no alert, which nobody is sent."""
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
