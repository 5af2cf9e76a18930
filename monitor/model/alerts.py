"""Expectations, verdicts, alert states and transitions."""

import math
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from monitor.model.immutable import immutable
from monitor.model.rankings import Arm
from monitor.model.rules import (
    ALWAYS_MISSED,
    BOTH_ARMS,
    UNPAIRED_CONDITIONS,
    Condition,
    Direction,
    JudgedSeries,
    RuleKind,
    Severity,
)

# A transition that accepts a new level has this text in place of an alert's name.
ACCEPTED_LEVEL = "(accepted)"
# The reason of a verdict contains this text if nobody has accepted the new level yet.
NEW_NORMAL = "new normal since"
# How many changes of an arm's lists rankwatch must see before it knows how often they change.
MIN_CHANGES = 2
# So long after their first change, rankwatch has seen the longest pause of a week, such as a weekend
# without trainings. One day is added, because the change after this pause may be late.
LEAST_HISTORY = timedelta(days=8)


class Outcome(StrEnum):
    """The outcome of a rule in one run. A value was judged only for ``ok`` and ``breach``."""

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

    Later runs learn from ``series`` and from the fields after ``series``.
    """

    alert: str
    segment: str
    runs: int  # number of healthy runs before this run
    expected: float | None = None  # None if there are too few healthy runs
    # The most extreme normal value on the side that alerts. For a trend, a run adds evidence
    # from this value on.
    limit: float | None = None
    opposite: float | None = None  # the most extreme normal value on the other side
    # How far the value is from normal. It is large if the value is on the side that alerts. In
    # healthy runs it has a standard normal distribution.
    z: float | None = None
    fault_z: float | None = None  # the median z of the runs since the alert began to fire
    # The evidence for a trend so far; the rule fires when it reaches `evidence_limit`
    evidence: float | None = None
    evidence_limit: float | None = None
    series: JudgedSeries | None = None  # what was measured
    judged: float | None = None  # the value of this run, on the scale on which the rule judges
    error: float | None = None  # the sampling error of the value, on the same scale
    lost: float = 0.0  # share of the asked users that had no score
    # What this run adds to the evidence. It is z, reduced by the correlation between runs that was
    # known at the time of this run.
    trend_z: float | None = None
    # Usual share of users without a score, learned from earlier healthy runs
    usual_lost: float = 0.0
    # A note for people. It says since when a level is expected that nobody has accepted, or why no
    # value is expected.
    note: str = ""


def is_halfway(evidence: float, limit: float) -> bool:
    """Return whether the evidence of a trend is halfway to its limit, on a log scale."""
    return evidence >= math.sqrt(limit)


def normal_band(
    expected: float | None,
    limit: float | None,
    opposite: float | None,
) -> tuple[float | None, float | None]:
    """Return the lowest and the highest normal value of an expectation.

    A value is None if this side has no limit.

    """
    if expected is None or limit is None:
        return None, None
    return (limit, opposite) if limit <= expected else (opposite, limit)


@immutable
class Standstill:
    """How long the lists of an arm, or of both arms, have not changed.

    For one arm it is counted in changes of the other arm, and not measured in time, because
    possibly neither model was trained in that time. For both arms it is counted in runs.
    """

    alert: str
    arm: Arm | None  # None for both arms
    # Changes of the other arm since the last change of this arm. For both arms: runs since the last
    # change of either arm.
    missed: int = 0
    longest: int = 0  # the largest ``missed`` of a standstill that ended without an alert
    changes: int = 0  # number of changes of the lists so far
    churn: float = 0.0  # share of items that the newest change replaced, in the arm with more
    first_change: datetime | None = None  # slot of the first of these changes
    slot: datetime | None = None  # of the newest run that was counted

    @property
    def history(self) -> timedelta:
        """The time from the first change to the newest run."""
        if self.slot is None or self.first_change is None:
            return timedelta(0)
        return self.slot - self.first_change

    @property
    def limit(self) -> int | None:
        """The largest normal value of ``missed``.

        None before `MIN_CHANGES` changes. None too if this is about both arms, and the first change
        was less than `LEAST_HISTORY` ago.
        """
        if self.changes < MIN_CHANGES:
            return None
        if self.arm is None and self.history < LEAST_HISTORY:
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
    value: float | None = None  # None if there is no value, or if it must not be compared
    users: int = 0
    # The value has reached `resolve_at`, so a firing alert may resolve.
    is_recovered: bool = False
    # There is no value because the rule is still learning. Data is not missing.
    is_learning: bool = False
    is_ignored: bool = False  # there is no value because of a condition that is ignored
    is_new_normal: bool = False  # judged against a new level that nobody has accepted yet
    headline: str | None = None  # the cause in one clause; None if `reason` is only one clause


class AlertNames(NamedTuple):
    """The labels of an alert that every state of an alert has."""

    comparison: str
    alert: str
    segment: str
    severity: Severity


@immutable
class AlertState:
    """The state of one rule on one segment, the slot in which it began, and the last verdict."""

    comparison: str
    alert: str
    segment: str
    state: State
    since: datetime
    streak: int  # consecutive breaches while quiet or pending; recovered runs in a row while firing
    # The newest slot that was judged. Runs of older slots do not change the state
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

    @property
    def is_judged(self) -> bool:
        """Whether the newest run judged a value. Otherwise ``reason`` says why it did not."""
        return self.outcome in (Outcome.OK, Outcome.BREACH)


@immutable
class Transition:
    """One change of state, with everything that messages show about it.

    A stored transition never changes.
    """

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
    kind: RuleKind
    metric: str
    statistic: str
    severity: Severity = Severity.INFO
    since: datetime  # slot in which the breach began; for an end, slot in which the firing began
    # Identifies one firing. All its transitions have this key, and no others. None if the change
    # belongs to no firing.
    dedup_key: str | None = None
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    # The explanation of the run in which the alert began. None for ends and for alerts on coverage.
    explanation: str | None = None
    interval: tuple[float, float] | None = None  # the value's 95 % interval over users
    normal: float | None = None  # the expected value, learned from earlier healthy runs
    # Key of the incident, which consists of firings of one comparison and severity that are
    # notified together. It is set when the transition is stored.
    incident: str | None = None
    # Whether the firing ended at a new level. Somebody has to accept this level or roll back the
    # model.
    is_new_normal: bool = False
    headline: str | None = None  # the cause in one clause; None if `reason` is only one clause
    # For a start: number of users with the fault of the run. None if the fault is unknown.
    concerned: int | None = None
    removed: Removed | None = None  # for an end: what was removed, if the alert is no longer judged

    @property
    def is_about_rankwatch(self) -> bool:
        """Whether the alert is about rankwatch itself.

        Such an alert has no comparison and no run.
        """
        return self.kind in (RuleKind.DATABASE, RuleKind.TEST)

    @property
    def is_about_test(self) -> bool:
        """Whether the alert says that the users of an A/B test cannot be trusted.

        Lists of a run neither explain it nor say whom it concerns.
        """
        return self.kind is RuleKind.CONDITION and self.statistic in UNPAIRED_CONDITIONS

    @property
    def is_about_both_arms(self) -> bool:
        """Whether the alert says that the lists of both arms stopped changing."""
        return self.kind is RuleKind.STANDSTILL and self.statistic == BOTH_ARMS

    @property
    def is_announced(self) -> bool:
        """Whether receivers are notified.

        They are when a firing starts, ends or is acknowledged.
        """
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
        return self.slot != self.at and not self.is_stale_start

    @property
    def is_stale_start(self) -> bool:
        """Whether a stale alert starts. Its `since` is the slot of the last good run, if any."""
        is_stale = self.kind is RuleKind.CONDITION and self.statistic == Condition.STALE
        return self.is_start and is_stale

    @property
    def is_acknowledgement(self) -> bool:
        """Whether somebody acknowledged a firing. ``reason`` names the person."""
        return self.from_state is State.FIRING and self.to_state is State.FIRING


def accepted_level(
    comparison: str,
    slot: datetime,
    reason: str,
    at: datetime,
) -> Transition:
    """Return the transition that accepts the level since this slot as normal.

    The transition belongs to no alert and is never sent.
    """
    return Transition(
        comparison=comparison,
        alert=ACCEPTED_LEVEL,
        segment="all",
        slot=slot,
        at=at,
        from_state=State.QUIET,
        to_state=State.QUIET,
        reason=reason,
        kind=RuleKind.SIMILARITY,
        metric="level",
        statistic=ACCEPTED_LEVEL,
        since=slot,
    )
