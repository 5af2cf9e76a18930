"""Comparisons and their rules: what is watched, with which limit, and when it alerts."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum
from math import isfinite
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeGuard

from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm
from monitor.model.statistics import CoverageShare, NoiseFloor, Statistic
from monitor.model.unpaired import UnpairedPlan

MEAN = Statistic()

MIN_HEALTHY_RUNS = 5  # how many healthy runs a learned limit needs before it expects a value
# How many changes of the other arm an arm may always miss. It may miss one, because two trainings
# rarely end at the same time. With `every: 1h` and daily trainings, a run between both is normal.
# It may miss another one, because a training may be late. Nothing explains a third one, so the
# alert begins then. For the same reasons, both arms may always stay the same in this many runs.
ALWAYS_MISSED = 2
BOTH_ARMS = "both"
"""The statistic of an alert on a standstill of both arms, in place of the name of an arm."""


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

    @property
    def opposite(self) -> "Direction":
        """The other side."""
        return Direction.ABOVE if self is Direction.BELOW else Direction.BELOW


class Condition(StrEnum):
    """Why drift cannot be judged.

    ``stale``: no run has succeeded for a long time. The last two are for unpaired comparisons. The
    users are not split as planned, or the arms' users differed before the test began.
    """

    ERROR = "error"
    NO_DATA = "no_data"
    TOO_FEW = "too_few"
    STALE = "stale"
    SPLIT_OFF = "split_off"
    ARMS_DIFFERED = "arms_differed"


UNPAIRED_CONDITIONS = frozenset({Condition.SPLIT_OFF, Condition.ARMS_DIFFERED})
"""The conditions that only unpaired comparisons have."""


@immutable
class FixedLimit:
    """A configured limit. Values strictly on the ``direction`` side of ``value`` are in breach."""

    direction: Direction
    value: float
    # A firing alert resolves when the statistic reaches this. It is `value` or better
    resolve_at: float


class Learning(StrEnum):
    """The change that a learned limit detects.

    ``drop`` is one unexpected run. ``trend`` is a lasting change over several runs.
    """

    DROP = "drop"
    TREND = "trend"


@immutable
class LearnedLimit:
    """A limit learned from earlier runs of the series."""

    learning: Learning
    direction: Direction
    # The end of the statistic's range on the ``direction`` side. It is shown until a limit is
    # learned.
    value: float


Limit: TypeAlias = FixedLimit | LearnedLimit


class RuleKind(StrEnum):
    """What an alert is about. It is also the label `metric` of alerts that judge no metric.

    ``database`` and ``test`` have no rule. They are about rankwatch itself: about its database, and
    about a receiver that is tested.
    """

    SIMILARITY = "similarity"
    COVERAGE = "coverage"
    STANDSTILL = "frozen"
    CONDITION = "condition"
    DATABASE = "database"
    TEST = "test"


class Subject(NamedTuple):
    """What an alert is about: the labels ``metric`` and ``statistic`` of messages and matchers."""

    metric: str
    statistic: str


@immutable
class BaseRule:
    """The fields of all rules."""

    kind: ClassVar[RuleKind]

    alert: str
    # `each` means every segment, including `all`. `named` is for conditions. It means `all`, the
    # segments that a rule names, and the segments in which an alert fires.
    segments: Literal["all", "each", "named"] | tuple[str, ...] = "all"
    for_runs: int = 1  # the alert fires after this many breaches in a row
    resolve_after: int = 1  # a firing alert resolves after this many recovered runs in a row
    min_users: int = 1
    severity: Severity = Severity.WARNING
    runbook_url: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    is_dry_run: bool = False  # judged and stored like other rules, without notifications
    limit: Limit | None = None

    def may_judge(self, segment: str) -> bool:
        """Whether the rule judges the segment if a run has data on it."""
        if self.segments == "all":
            return segment == ALL
        return isinstance(self.segments, str) or segment in self.segments

    @property
    def direction(self) -> Direction:
        """The side on which the rule is in breach."""
        return Direction.ABOVE if self.limit is None else self.limit.direction

    @property
    def threshold(self) -> float:
        """The limit that states and messages show if the run has no learned limit."""
        return 0.0 if self.limit is None else self.limit.value


@immutable
class SimilarityRule(BaseRule):
    """Judges a statistic of a metric, or of a series derived from a metric by the noise floor."""

    kind: ClassVar[RuleKind] = RuleKind.SIMILARITY

    metric: str
    statistic: Statistic = MEAN
    limit: Limit
    # The lowest and highest possible score of a user; None if no check needs them
    score_range: tuple[float, float] | None = None

    @property
    def subject(self) -> Subject:
        """The metric and the statistic."""
        return Subject(self.metric, str(self.statistic))

    @property
    def is_share(self) -> bool:
        """Whether the value is a share of users."""
        return self.statistic.below is not None

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The limits of a rule with fixed limits on a mean of bounded scores. Else empty.

        If scores are bounded, the scores of some users may already decide on which side of a limit
        the mean is.
        """
        if not isinstance(self.limit, FixedLimit) or self.statistic.quantile is not None:
            return ()
        if self.is_share or (self.score_range is not None and all(map(isfinite, self.score_range))):
            return self.limit.value, self.limit.resolve_at
        return ()


@immutable
class CoverageRule(BaseRule):
    """Judges the share of users whose list has a certain fault or trait."""

    kind: ClassVar[RuleKind] = RuleKind.COVERAGE
    is_share: ClassVar[bool] = True

    share: CoverageShare
    limit: Limit

    @property
    def subject(self) -> Subject:
        """The share of coverage."""
        return Subject(self.kind, str(self.share))


@immutable
class StandstillRule(BaseRule):
    """Alerts if an arm's lists stop changing while the lists of the other arm change.

    If ``arm`` is None, it alerts if the lists of both arms stop changing. The rule learns how often
    lists normally change.
    """

    kind: ClassVar[RuleKind] = RuleKind.STANDSTILL

    arm: Arm | None

    @property
    def subject(self) -> Subject:
        """The arm, or the word for both arms."""
        return Subject(self.kind, self.arm or BOTH_ARMS)

    @property
    def threshold(self) -> float:
        """How many missed changes of the other arm, or unchanged runs, are always normal."""
        return float(ALWAYS_MISSED)


@immutable
class ConditionRule(BaseRule):
    """Judges whether drift can be judged at all."""

    kind: ClassVar[RuleKind] = RuleKind.CONDITION

    condition: Condition

    @property
    def subject(self) -> Subject:
        """The condition."""
        return Subject(self.kind, self.condition)


def frozen_arms(statistic: str) -> tuple[Arm, ...]:
    """Return the arms that an alert on a standstill is about.

    Empty if another version stored the alert.
    """
    return tuple(arm for arm in Arm if statistic in (arm, BOTH_ARMS))


# A rule that compares the value of a series with a limit in each run
SeriesRule: TypeAlias = SimilarityRule | CoverageRule

Rule: TypeAlias = SeriesRule | StandstillRule | ConditionRule


class JudgedSeries(NamedTuple):
    """What the values of a rule mean. Lessons about another series are not used."""

    metric: str
    statistic: str
    segments: str | tuple[str, ...]
    min_users: int


def judged_series(rule: SeriesRule) -> JudgedSeries:
    """Return what the values of the rule mean."""
    return JudgedSeries(*rule.subject, segments=rule.segments, min_users=rule.min_users)


def is_learned(rule: Rule) -> TypeGuard[SeriesRule]:
    """Return whether the rule's limit is learned from earlier runs."""
    return isinstance(rule, SeriesRule) and isinstance(rule.limit, LearnedLimit)


class SampleSize(Protocol):
    """The number of users of a panel."""

    fixed: int  # users that are the same in each run
    rotating: int  # users that are new in each run
    # Least number of users in every segment; users added for it are the same in each run
    minimum: int | None

    @property
    def stops_early(self) -> bool:
        """Whether a run stops asking as soon as the rules' verdicts are certain."""


class Keep(StrEnum):
    """The users whose scores or lists a run stores.

    A number means that many users, the same in each run.
    """

    ALL = "all"
    PANEL = "panel"  # the fixed users
    NONE = "none"


@immutable
class MeasuringPlan:
    """What a run measures and stores, and for which users."""

    k: int
    metrics: tuple[str, ...]
    arm_metrics: tuple[str, ...] = ()
    sample: SampleSize | None  # None asks all users
    seed: int
    max_segment_values: int
    deadline: timedelta
    noise_floor: NoiseFloor | None = None
    catalogue_size: int | None = None  # number of items that could be listed, if configured
    # How long after its slot a run waits for relevance. None if there is no source of relevance
    relevance_within: timedelta | None = None
    relevance_after: timedelta = timedelta(0)  # how long after its slot a run first asks for it
    keep_scores: Keep | int
    # All users if relevance arrives later, or if an arm is compared with its last run
    keep_lists: Keep | int = Keep.NONE
    evidence_users: int
    unpaired: UnpairedPlan | None = None  # None asks both arms for the same users


@immutable
class JudgingPlan:
    """How runs are judged, and which alerts belong together."""

    rules: tuple[Rule, ...]
    min_paired_share: float  # least share of the asked users that must have both lists
    # In this many runs, the rules that learn what is normal may together cause one false alert
    runs_per_false_alert: float = 90.0
    # Under these conditions, pending and firing alerts end and do not wait for a verdict
    ignored: frozenset[Condition] = frozenset()
    stale_after: int = 3  # how many runs in a row may be due without a success
    # A firing joins an incident if it begins at most seven times this duration after the incident's
    # first lasting firing.
    group_for: timedelta = timedelta(days=1)
    shows_items: bool = True  # whether the texts of alerts name items
    # Whether rules learn what is normal separately for each version of the arms' models
    by_model: bool = False
    # The matchers of routes and maintenance windows that may select alerts of the comparison
    selectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Begin and end of holidays. Rules that learn leave out the runs of these days
    holidays: tuple[tuple[datetime, datetime], ...] = ()

    def is_holiday(self, slot: datetime) -> bool:
        """Return whether the slot is on a holiday, so that rules that learn leave out its run."""
        return any(start <= slot < end for start, end in self.holidays)

    @property
    def similarity_rules(self) -> tuple[SimilarityRule, ...]:
        """The rules on similarity, in their order."""
        return tuple(rule for rule in self.rules if isinstance(rule, SimilarityRule))


@immutable
class Comparison:
    """What is watched, without its sources.

    ``config_hash`` covers everything that changes the meaning of a score.
    """

    name: str
    config_hash: str
    measuring: MeasuringPlan
    judging: JudgingPlan
    # Name in the configuration. All candidates of this name get the same panel
    family: str | None = None
    # The name of each arm within the family, such as the key of one of several candidates
    arms: tuple[str, str] = ("baseline", "candidate")
    item_url: str | None = None  # page of an item, with ``{item}`` for the id
