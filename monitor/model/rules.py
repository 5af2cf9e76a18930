"""Rules: what is watched, with which limit, and when it alerts.

A rule is one of four kinds, each with fields of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import ClassVar, Literal, NamedTuple, TypeAlias, TypeGuard

from monitor.model.rankings import Arm
from monitor.model.statistics import CoverageShare, Statistic

MEAN = Statistic()

MIN_HEALTHY_RUNS = (
    5  # healthy runs that must have been seen before a learned limit expects anything
)
# Changes of the other arm that an arm may always miss: two trainings rarely end in the same minute
ALWAYS_MISSED = 2


class Severity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Direction(StrEnum):
    """The side of the limit on which a rule is in breach.

    ``above`` is for statistics that grow as lists drift apart.
    """

    BELOW = "below"
    ABOVE = "above"


class Condition(StrEnum):
    """Why drift cannot be judged: the first three as the outcome of a rule, ``stale`` when no run succeeds for long."""

    ERROR = "error"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    STALE = "stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLimit:
    """A limit that somebody wrote down: in breach strictly on the ``direction`` side of ``value``."""

    direction: Direction
    value: float
    # A firing alert resolves once the statistic has reached it, at `value` or on the good side of
    # it
    resolve_at: float


class Learning(StrEnum):
    """Which change a learned limit finds: ``drop``, one run beyond what is to be expected, or ``trend``, a lasting change."""

    DROP = "drop"
    TREND = "trend"


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedLimit:
    """A limit that comes from the series' own past."""

    learning: Learning
    direction: Direction
    # Where the statistic ends on that side, shown as the limit while nothing is known yet
    value: float


Limit: TypeAlias = FixedLimit | LearnedLimit


class RuleKind(StrEnum):
    """What a rule watches."""

    SIMILARITY = "similarity"
    COVERAGE = "coverage"
    STANDSTILL = "standstill"
    CONDITION = "condition"


# The label `metric` of alerts that are about no metric.
METRIC_LABELS: Mapping[RuleKind, str] = {
    RuleKind.COVERAGE: "coverage",
    RuleKind.STANDSTILL: "frozen",
    RuleKind.CONDITION: "condition",
}
KIND_OF_LABEL = {label: kind for kind, label in METRIC_LABELS.items()}


class Subject(NamedTuple):
    """What an alert is about, as the labels ``metric`` and ``statistic`` that messages show and matchers select."""

    metric: str
    statistic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRule:
    """What rules of every kind have."""

    kind: ClassVar[RuleKind]

    alert: str
    # each: every segment, `all` included; named, of conditions: `all`, and those that rules or
    # firing alerts wait for
    segments: Literal["all", "each", "named"] | tuple[str, ...] = "all"
    for_runs: int = 1  # fires after so many breaches in a row
    resolve_after: int = 1  # and resolves after so many recovered runs
    min_users: int = 1
    severity: Severity = Severity.WARNING
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    is_dry_run: bool = False  # judged and recorded as any other, and nobody is notified
    limit: Limit | None = None

    @property
    def direction(self) -> Direction:
        """The side on which the rule is in breach."""
        return Direction.ABOVE if self.limit is None else self.limit.direction

    @property
    def threshold(self) -> float:
        """The limit that states and messages show where the run has learned none."""
        return 0.0 if self.limit is None else self.limit.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityRule(BaseRule):
    """Watches a statistic of a metric, or of a series that the noise floor derives from one."""

    kind: ClassVar[RuleKind] = RuleKind.SIMILARITY

    metric: str
    statistic: Statistic = MEAN
    limit: Limit
    scores: tuple[float, float] | None = (
        None  # lowest and highest that a user can have; None where nobody needs to know
    )

    @property
    def subject(self) -> Subject:
        """The metric and the statistic."""
        return Subject(self.metric, str(self.statistic))

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of users."""
        return self.statistic.floor is not None

    @property
    def thresholds(self) -> tuple[float, ...]:
        """Limits for a mean of bounded scores, whose side some users' scores can decide for all.

        None for other statistics.
        """
        has_range = self.is_share or (self.scores is not None and all(map(isfinite, self.scores)))
        if (
            not isinstance(self.limit, FixedLimit)
            or self.statistic.quantile is not None
            or not has_range
        ):
            return ()
        return self.limit.value, self.limit.resolve_at


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageRule(BaseRule):
    """Watches a share of the users for whom something is lacking, or whose lists have a trait."""

    kind: ClassVar[RuleKind] = RuleKind.COVERAGE
    is_share: ClassVar[bool] = True

    share: CoverageShare
    limit: Limit

    @property
    def subject(self) -> Subject:
        """The share of coverage."""
        return Subject(METRIC_LABELS[self.kind], str(self.share))


@dataclass(frozen=True, slots=True, kw_only=True)
class StandstillRule(BaseRule):
    """Watches that an arm's lists go on changing while those of the other arm do.

    How often is normal is learned.
    """

    kind: ClassVar[RuleKind] = RuleKind.STANDSTILL

    arm: Arm

    @property
    def subject(self) -> Subject:
        """The arm."""
        return Subject(METRIC_LABELS[self.kind], self.arm)

    @property
    def threshold(self) -> float:
        """Changes of the other arm that are always normal."""
        return float(ALWAYS_MISSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionRule(BaseRule):
    """Watches whether drift can be judged at all."""

    kind: ClassVar[RuleKind] = RuleKind.CONDITION

    condition: Condition

    @property
    def subject(self) -> Subject:
        """The condition."""
        return Subject(METRIC_LABELS[self.kind], self.condition)


SeriesRule: TypeAlias = (
    SimilarityRule | CoverageRule
)  # a rule that holds the value of a series, run after run, against a limit

Rule: TypeAlias = SeriesRule | StandstillRule | ConditionRule


def describe_series(rule: SeriesRule) -> str:
    """What the rule judges, in words that change with anything that changes the values, so that old lessons count no more."""
    segments = rule.segments if isinstance(rule.segments, str) else ", ".join(rule.segments)
    metric, statistic = rule.subject
    return f"{statistic} of {metric} in {segments} of {rule.min_users} users or more"


def is_learned(rule: Rule) -> TypeGuard[SeriesRule]:
    """Whether the rule's limit comes from the past of its series."""
    return isinstance(rule, SeriesRule) and isinstance(rule.limit, LearnedLimit)
