"""Rules, verdicts, states and transitions, and the record of what was sent."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

COVERAGE = "coverage"
"""What stands for the metric in rules on coverage; their statistic is a CoverageShare."""


class Severity(StrEnum):
    """How loudly a rule speaks."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Direction(StrEnum):
    """The side of the threshold on which a rule is in breach. ``above`` is for statistics that grow as lists drift apart."""

    BELOW = "below"
    ABOVE = "above"


FROZEN = "frozen"
"""What stands for the metric in rules on an arm that no longer changes; their statistic is the arm."""

CONDITION = "condition"
"""What stands for the metric in rules on conditions that are no drift; their statistic is the condition."""

UNMEASURED = frozenset({COVERAGE, FROZEN, CONDITION})
"""What stands for a metric and is measured on no pair of lists."""

MIN_HEALTHY_RUNS = 5
"""Healthy runs that must have been seen before a rule that learns expects anything."""


class RuleKind(StrEnum):
    """What a rule holds a value against: a threshold that somebody wrote down, or what was normal so far.

    ``drop``: one run beyond what is to be expected; ``trend``: runs that add up to a lasting change; ``frozen``: an arm's lists
    stay as they are for longer than they used to, while those of the other arm change; ``condition``: nothing, for the rule
    asks whether anything could be said of drift at all.
    """

    THRESHOLD = "threshold"
    DROP = "drop"
    TREND = "trend"
    FROZEN = "frozen"
    CONDITION = "condition"


class Condition(StrEnum):
    """Why nothing can be said of drift: the first three as the outcome of a rule, ``stale`` when no run succeeds for long."""

    ERROR = "error"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    STALE = "stale"


class Outcome(StrEnum):
    """What a rule found in one run. Only ``ok`` and ``breach`` speak of similarity."""

    OK = "ok"
    BREACH = "breach"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    ERROR = "error"


class State(StrEnum):
    """Where an alert stands."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A condition on one statistic of one metric, on a share of coverage, on an arm's standstill, or that there is no verdict.

    ``metric`` is `COVERAGE`, `FROZEN` or `CONDITION` for the last three, with the share, the arm or the Condition in place of
    the statistic.

    In breach when the value is strictly ``direction`` (below, above) of ``threshold``; fires after ``for_runs`` consecutive
    breaches; resolves once the value has reached ``resolve_at``, which is the threshold or lies beyond it on the good side, in
    ``resolve_after`` consecutive runs. ``is_dry_run``: it is judged and recorded as any other, and nobody is told.
    ``segments``: ``all``, ``each`` (every segment, ``all`` included) or named ones. A ``kind`` other than threshold has its
    limit from the series' own past, and ``threshold`` is the value that it never passes, shown while nothing is known yet.
    ``scores``: lowest and highest score that a user can have, None where nobody needs to know.
    """

    alert: str
    metric: str
    statistic: str
    direction: Direction
    threshold: float
    resolve_at: float
    segments: Literal["all", "each"] | tuple[str, ...] = "all"
    for_runs: int = 1
    min_users: int = 1
    severity: Severity = Severity.WARNING
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: RuleKind = RuleKind.THRESHOLD
    scores: tuple[float, float] | None = None
    resolve_after: int = 1
    is_dry_run: bool = False

    @property
    def series(self) -> str:
        """What it looks at, in words that change with anything that changes the values: earlier ones then speak no more."""
        segments = self.segments if isinstance(self.segments, str) else ", ".join(self.segments)
        return f"{self.statistic} of {self.metric} in {segments} of {self.min_users} users or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What one rule expected of one segment's run from the ``runs`` healthy ones before it, None where these are too few.

    ``expected``: the value; ``limit``: the last one on the rule's side that is still normal, or where a trend is the one that
    counts against it; ``opposite``: the last one on the other side that is as normal; ``z``: how far out this run's value lies,
    standard normal in healthy runs, large on the rule's side; ``evidence`` of a trend so far, which fires at
    ``evidence_limit``. For an arm that may be frozen ``runs`` are the changes of its lists that were seen, ``evidence`` the
    changes of the other arm's lists since the last of them, and ``limit`` the most that is normal, None while that is being
    learned.

    For later runs to learn from: what was measured (``series``), its value on the scale that is judged and its sampling error
    there (``judged``, ``error``), the share of the users asked who had no score (``lost``), and what it adds to evidence over
    runs (``steady``: z discounted by the correlation of runs that was known then). ``usual_lost``: the share without a score in
    the healthy runs before.
    """

    alert: str
    segment: str
    runs: int
    expected: float | None = None
    limit: float | None = None
    opposite: float | None = None
    z: float | None = None
    evidence: float | None = None
    evidence_limit: float | None = None
    series: str = ""
    judged: float | None = None
    error: float | None = None
    lost: float = 0.0
    steady: float | None = None
    usual_lost: float = 0.0

    @property
    def is_suspicious(self) -> bool:
        """Whether a trend has gone half the way to firing, on the scale of logarithms: no run to call healthy."""
        if self.evidence is None or self.evidence_limit is None:
            return False
        return self.evidence >= math.sqrt(self.evidence_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule says of one segment in one run, with a reason that a person can read.

    ``is_recovered``: the value has reached ``resolve_at``; only then does a firing alert resolve. ``bounds``: lowest and
    highest value that the users without a score could make of it, None where all that count have one. ``is_learning``: silent
    for what the rule has not learned, not for want of data. ``is_given_up``: silent, and the configuration asks for no wait.
    """

    outcome: Outcome
    reason: str
    value: float | None
    users: int
    is_recovered: bool = False
    bounds: tuple[float, float] | None = None
    is_learning: bool = False
    is_given_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """One rule on one segment: where it stands since which slot, and the last verdict.

    ``streak`` counts consecutive breaches while quiet or pending, and recovered runs in a row while firing. ``judged_slot`` is
    the newest slot that moved this state: an older or equal slot never moves it again. ``dedup_key`` names the firing while it
    lasts, ``incident`` what it is told as a part of, ``acknowledged_by`` who looks after it.
    """

    comparison: str
    alert: str
    segment: str
    state: State
    since: datetime
    streak: int
    judged_slot: datetime
    outcome: Outcome
    reason: str
    value: float | None
    users: int
    threshold: float
    severity: Severity
    dedup_key: str | None
    incident: str | None = None
    acknowledged_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One change of state, and all that a message about it must say. Never changed once stored.

    ``since`` is the slot of the breach that began it (for a resolve: of the firing). ``dedup_key`` is shared by a firing and
    its resolve and by nothing else; it is None for changes that concern no firing. ``incident`` names the firings of one
    comparison and severity that are told as one; it is given when the transition is stored. ``explanation``: what the run that
    it began in had to say of why; None for ends, for alerts on coverage, and where nothing could be explained. ``interval``:
    the value's 95 % interval over users; ``normal``: what was expected of the healthy runs before; None where not known.
    """

    comparison: str
    alert: str
    segment: str
    slot: datetime
    at: datetime
    from_state: State
    to_state: State
    reason: str
    value: float | None
    direction: Direction
    threshold: float
    users: int
    metric: str
    statistic: str
    severity: Severity
    since: datetime
    dedup_key: str | None
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    explanation: str | None = None
    interval: tuple[float, float] | None = None
    normal: float | None = None
    incident: str | None = None

    @property
    def is_announced(self) -> bool:
        """Whether receivers hear of it: the start, the acknowledgement and the end of a firing."""
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
    def is_acknowledgement(self) -> bool:
        """Whether somebody has said that they look after a firing; ``reason`` says who."""
        return self.from_state is State.FIRING and self.to_state is State.FIRING
