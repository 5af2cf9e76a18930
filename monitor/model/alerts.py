"""Expectations, verdicts, alert states and transitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from monitor.model.rankings import Arm
from monitor.model.rules import ALWAYS_MISSED, Direction, RuleKind, Severity, kind_of_label

MIN_CHANGES = 2
"""Changes of an arm's lists that must have been seen before it is known how often they change."""


class Outcome(StrEnum):
    """The outcome of a rule in one run. Only ``ok`` and ``breach`` compare a value."""

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
class Expectation:
    """What a rule with a learned limit expected of one segment's run, from the ``runs`` healthy ones before it.

    None where these are too few: ``expected``, the value; ``limit``, the last one on the rule's side that is still normal, or
    where a trend is the one that counts against it; ``opposite``, the last one on the other side that is as normal; ``z``, how
    far out this run's value lies, standard normal in healthy runs, large on the rule's side; ``evidence`` of a trend so far,
    which fires at ``evidence_limit``.

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
class Standstill:
    """How long the lists of one arm have stood still as of one run, counted in changes of the other arm.

    Counted is not time, so that nothing is missed where neither arm is trained. ``missed``: changes of the other arm since the
    arm's own last one; ``longest``: the most in a standstill that ended by itself; ``changes`` of the arm's lists seen so far.
    """

    alert: str
    arm: Arm
    missed: int = 0
    longest: int = 0
    changes: int = 0

    @property
    def limit(self) -> int | None:
        """The most missed changes that are normal; None while too few changes were seen to know."""
        # Half as much again as the longest normal standstill, so that one late training is no alert.
        return None if self.changes < MIN_CHANGES else ALWAYS_MISSED + math.ceil(1.5 * self.longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a rule concludes about one segment in one run, with a reason that a person can read.

    ``is_recovered``: the value has reached ``resolve_at``; only then does a firing alert resolve. ``bounds``: lowest and
    highest value that the users without a score could make of it, None where all that count have one. ``is_learning``:
    without a value for what the rule has not learned, not for want of data. ``is_ignored``: without a value for a condition
    that the configuration ignores.
    """

    outcome: Outcome
    reason: str
    value: float | None
    users: int
    is_recovered: bool = False
    bounds: tuple[float, float] | None = None
    is_learning: bool = False
    is_ignored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertState:
    """One rule on one segment: where it stands since which slot, and the last verdict.

    ``streak`` counts consecutive breaches while quiet or pending, and recovered runs in a row while firing. ``judged_slot`` is
    the newest slot that moved this state: an older or equal slot never moves it again. ``dedup_key`` names the firing while it
    lasts, ``incident`` the incident that it belongs to, ``acknowledged_by`` who acknowledged it.
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
    """One change of state, and all that a message about it contains. Never changed once stored.

    ``since`` is the slot of the breach that began it (for a resolve: of the firing). ``dedup_key`` is shared by a firing and
    its resolve and by nothing else; it is None for changes that concern no firing. ``incident`` names the firings of one
    comparison and severity that are notified as one; it is given when the transition is stored. ``explanation``: the reasons
    found in the run in which it began; None for ends, for alerts on coverage, and where nothing could be explained.
    ``interval``: the value's 95 % interval over users; ``normal``: what was expected of the healthy runs before; None where
    not known.
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
    def kind(self) -> RuleKind:
        """What its rule watches."""
        return kind_of_label(self.metric)

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
    def is_acknowledgement(self) -> bool:
        """Whether somebody acknowledged a firing; ``reason`` names them."""
        return self.from_state is State.FIRING and self.to_state is State.FIRING
