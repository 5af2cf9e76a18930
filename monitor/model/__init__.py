"""The words of rankwatch as frozen dataclasses. No logic, no I/O."""

from monitor.model.alerts import (
    MIN_CHANGES,
    AlertState,
    Expectation,
    Outcome,
    Standstill,
    State,
    Transition,
    Verdict,
)
from monitor.model.comparison import Comparison, JudgingPlan, MeasuringPlan, SampleSize
from monitor.model.derived_metrics import DerivedMetric, NoiseFloor, parse_derived
from monitor.model.explanation import (
    Cause,
    Change,
    ExampleLists,
    Explanation,
    ExposedItem,
    Part,
    PartMeans,
    SegmentFall,
    ShareRise,
    Split,
    UserGroup,
)
from monitor.model.instants import format_instant
from monitor.model.lease import Lease, Occupied
from monitor.model.memory import PARTS, Lesson, Memory, MemoryRequest, PastRun, to_lessons
from monitor.model.notifications import (
    Briefing,
    Delivery,
    DeliveryCounts,
    DeliveryRecord,
    DeliveryStatus,
    FiringSnapshot,
    Message,
    MessageStatus,
    Notification,
    Silence,
    Treatment,
)
from monitor.model.rankings import (
    ALL,
    LEAST_WEIGHT,
    MOST_WEIGHT,
    Arm,
    ByArm,
    Coverage,
    CoverageReason,
    CoverageRow,
    ItemWeights,
    Labels,
    PairBatch,
    Pairing,
    Panel,
    Pull,
    RankingTable,
    RelevanceTable,
    UserTable,
)
from monitor.model.retention import Cutoffs, DatabaseSize, DataKind, KindSize, Pruned
from monitor.model.rules import (
    ALWAYS_MISSED,
    MEAN,
    METRIC_LABELS,
    MIN_HEALTHY_RUNS,
    BaseRule,
    Condition,
    ConditionRule,
    CoverageRule,
    Direction,
    FixedLimit,
    LearnedLimit,
    Learning,
    Limit,
    Rule,
    RuleKind,
    SeriesRule,
    Severity,
    SimilarityRule,
    StandstillRule,
    Subject,
    describe_series,
    is_learned,
    kind_of_label,
)
from monitor.model.runs import (
    ArmScore,
    Claim,
    Evidence,
    EvidenceKind,
    Findings,
    Histogram,
    KeptLists,
    LatestRun,
    MeasuredRun,
    PullRequest,
    Run,
    RunRecord,
    RunResult,
    RunStatus,
    Scores,
    Summary,
    UserScore,
)
from monitor.model.statistics import CoverageShare, Lack, Statistic
