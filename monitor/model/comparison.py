"""A comparison: what rankwatch watches, measures and judges. It is immutable configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.model.rules import Condition, Rule, SimilarityRule
from monitor.model.statistics import NoiseFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """The number of users of a panel."""

    fixed: int = 0  # users that are the same in each run
    rotating: int = 0  # users that are new in each run
    minimum: int = 0  # least users of every segment; added users are the same in each run
    stops_early: bool = False  # whether a run stops asking once the rules' verdicts are certain


class Keep(StrEnum):
    """The users whose scores or lists a run stores.

    A number means that many users, the same in each run.
    """

    ALL = "all"
    PANEL = "panel"  # the fixed users
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
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
    keep_lists: Keep | int = (
        Keep.NONE
    )  # all users if relevance arrives later, or if an arm is compared with its last run
    evidence_users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingPlan:
    """How runs are judged, and which alerts belong together."""

    rules: tuple[Rule, ...]
    min_paired_share: float  # least share of the asked users that must have both lists
    # In this many runs, the rules that learn what is normal may together cause one false page
    runs_a_false_page: float = 90.0
    ignored: frozenset[Condition] = (
        frozenset()
    )  # under these conditions alerts do not wait for a verdict: pending and firing alerts end
    stale_after: int = 3  # how many runs in a row may be due without a success
    # Firings join an incident until seven times this duration after its first lasting firing
    group_for: timedelta = timedelta(days=1)
    shows_items: bool = True  # whether the texts of alerts name items
    # Whether rules learn what is normal separately for each version of the arms' models
    by_model: bool = False
    # The matchers of routes and maintenance windows that may select alerts of the comparison
    selectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Begin and end of holidays. Rules that learn leave out the runs of these days
    holidays: tuple[tuple[datetime, datetime], ...] = ()

    def is_holiday(self, slot: datetime) -> bool:
        """Whether the slot is on a holiday, so that rules that learn leave out its run."""
        return any(start <= slot < end for start, end in self.holidays)

    @property
    def similarity_rules(self) -> tuple[SimilarityRule, ...]:
        """The rules on similarity, in their order."""
        return tuple(rule for rule in self.rules if isinstance(rule, SimilarityRule))


@dataclass(frozen=True, slots=True, kw_only=True)
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
    arms: tuple[str, str] = (
        "baseline",
        "candidate",
    )  # the name of each arm within the family, such as the key of one of several candidates
    item_url: str | None = None  # page of an item, with ``{item}`` for the id
