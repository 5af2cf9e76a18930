"""Expectations, verdicts, alert states and transitions."""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.rules import (
    ALWAYS_MISSED,
    KIND_OF_LABEL,
    Condition,
    Direction,
    RuleKind,
    Severity,
)

# Stored in place of an alert's name in the transition that accepts a new level
ACCEPTED = "(accepted)"
DATABASE_LABEL = "database"
"""The label `metric` of the alert about rankwatch's database."""
TEST_LABEL = "test"
"""The label `metric` of an alert that only tests a receiver."""
NEW_NORMAL = (
    "new normal since"  # in the reason of a verdict if nobody has accepted the new level yet
)
MIN_CHANGES = (
    2  # how many changes of an arm's lists must be seen to know how often the lists change
)


class Outcome(StrEnum):
    """The outcome of a rule in one run. Only ``ok`` and ``breach`` compare a value."""

    OK = "ok"
    BREACH = "breach"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    ERROR = "error"


class Removed(StrEnum):
    """What was removed from the configuration, so that an alert is no longer judged."""

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
    runs: int  # number of healthy runs before this run
    expected: float | None = None  # None if there are too few healthy runs
    # The last normal value on the side that the rule watches. For a trend: the value from which a
    # run adds evidence
    limit: float | None = None
    opposite: float | None = None  # the last normal value on the other side
    # Distance of the value from normal. Standard normal in healthy runs, large on the rule's side
    z: float | None = None
    fault: float | None = None  # the median z of the runs since the alert began to fire
    evidence: float | None = None  # for a trend so far; the rule fires at `evidence_limit`
    evidence_limit: float | None = None
    series: str = ""  # what was measured
    judged: float | None = None  # the value of this run, on the scale on which the rule judges
    error: float | None = None  # the sampling error of the value, on the same scale
    lost: float = 0.0  # share of the asked users that had no score
    # What this run adds to evidence: z, discounted by the correlation of runs known at that time
    steady: float | None = None
    usual_lost: float = 0.0  # share of users without a score in the healthy runs before
    # A note for people: since when a level is expected that nobody has accepted, or why nothing is
    # expected
    note: str = ""

    @property
    def is_suspicious(self) -> bool:
        """Whether a trend is halfway to firing, on a log scale. Such a run is not healthy."""
        if self.evidence is None or self.evidence_limit is None:
            return False
        return self.evidence >= math.sqrt(self.evidence_limit)


def normal_band(
    expected: float | None,
    limit: float | None,
    opposite: float | None,
) -> tuple[float | None, float | None]:
    """The lowest and the highest normal value of an expectation. None if a side has no limit."""
    if expected is None or limit is None:
        return None, None
    return (limit, opposite) if limit <= expected else (opposite, limit)


@immutable
class Standstill:
    """How long an arm's lists have not changed, counted in changes of the other arm.

    It is not measured in time, because there may be no training of either model.
    """

    alert: str
    arm: Arm
    missed: int = 0  # changes of the other arm since the last change of this arm
    longest: int = 0  # the largest ``missed`` of a standstill that ended without an alert
    changes: int = 0  # number of changes of the arm's lists so far

    @property
    def limit(self) -> int | None:
        """The largest normal value of ``missed``. None before `MIN_CHANGES` changes of the arm."""
        if self.changes < MIN_CHANGES:
            return None
        # 1.5 times the longest normal standstill, so that one late training raises no alert.
        return ALWAYS_MISSED + math.ceil(1.5 * self.longest)


@immutable
class RootCause:
    """Why no run succeeded for some time."""

    # How long rankwatch's own database was away; 0 if that is not the cause
    database_away_s: float = 0.0
    run_failure: str | None = None  # why the newest run in that time failed


@immutable
class Verdict:
    """A rule's conclusion about one segment in one run, with a reason for people."""

    outcome: Outcome
    reason: str
    value: float | None
    users: int
    # The value has reached `resolve_at`, so that a firing alert may resolve
    is_recovered: bool = False
    # There is no value because the rule is still learning, not because data is missing
    is_learning: bool = False
    is_ignored: bool = False  # there is no value because of a condition that is ignored
    is_new_normal: bool = False  # judged against a new level that nobody has accepted yet
    headline: str | None = None  # the cause in one clause; None if the reason is one clause


@immutable
class AlertState:
    """The state of one rule on one segment, the slot in which it began, and the last verdict."""

    comparison: str
    alert: str
    segment: str
    state: State
    since: datetime
    streak: int  # consecutive breaches while quiet or pending; recovered runs in a row while firing
    # The newest slot that was judged. Only a newer slot may change the state
    judged_slot: datetime
    outcome: Outcome
    reason: str
    value: float | None
    users: int
    threshold: float
    severity: Severity
    dedup_key: str | None  # identifies the current firing
    incident: str | None = None
    acknowledged_by: str | None = None


@immutable
class Transition:
    """One change of state, with all that a message about it shows. A stored one never changes."""

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
    since: datetime  # slot in which the breach began; for an end, in which the firing began
    # Shared by the start and the end of one firing only; None for a change of no firing
    dedup_key: str | None = None
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    # The explanation of the run in which the alert began; None for ends and for alerts on coverage
    explanation: str | None = None
    interval: tuple[float, float] | None = None  # the value's 95 % interval over users
    normal: float | None = None  # the expected value, learned from healthy runs before
    # Key of the incident: firings of one comparison and severity that are notified together. Set
    # when the transition is stored
    incident: str | None = None
    # Whether the firing ended at a new level, which somebody has to accept or roll back
    is_new_normal: bool = False
    headline: str | None = None  # the cause in one clause; None if the reason is one clause
    removed: Removed | None = None  # for an end: why the alert is no longer judged

    @property
    def kind(self) -> RuleKind:
        """What the rule watches. No metric is named like the label of another kind."""
        return KIND_OF_LABEL.get(self.metric, RuleKind.SIMILARITY)

    @property
    def is_about_rankwatch(self) -> bool:
        """Whether the alert is about rankwatch itself: no comparison and no run has it."""
        return self.metric in (DATABASE_LABEL, TEST_LABEL)

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
        """Whether the slot has a run. Changes by people and starts of stale alerts have no run."""
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
    """A record that the level since the slot is normal. It belongs to no alert and is not sent."""
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
