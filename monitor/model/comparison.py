"""A comparison: what is watched, measured and judged. Immutable configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.model.rules import Condition, Rule, SimilarityRule
from monitor.model.statistics import NoiseFloor


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """The number of users of a panel."""

    fixed: int = 0  # the same each run
    rotating: int = 0  # fresh each run
    minimum: int = 0  # of every segment; users added for it are the same in each run
    stops_early: bool = False  # stops asking users once the rules' verdicts are certain


class Keep(StrEnum):
    """The users whose scores or lists a run stores.

    A number instead means so many users, the same in each run.
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
    catalogue_size: int | None = None  # items that could be listed, where configured
    # How long after its slot a run waits for relevance; None without a source
    relevance_within: timedelta | None = None
    relevance_after: timedelta = timedelta(0)  # how long after its slot it is asked for first
    keep_scores: Keep | int
    keep_lists: Keep | int = (
        Keep.NONE
    )  # of all for relevance that arrives later, and to compare an arm with its own last run
    evidence_users: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingPlan:
    """How runs are judged, and which alerts belong together."""

    rules: tuple[Rule, ...]
    min_paired_share: float  # of which share of the users asked both lists are needed
    # How many runs may bring one false page by the rules that learn what is normal
    runs_a_false_page: float = 90.0
    ignored: frozenset[Condition] = (
        frozenset()
    )  # alerts wait for no verdict then: pending and firing ones end
    stale_after: int = 3  # runs that may be due in a row without one that succeeds
    group_for: timedelta = timedelta(days=1)  # how long after its last one firings join an incident
    shows_items: bool = True  # whether the texts of alerts name items
    # Whether what is learned to be normal is that of each version of the arms' models
    by_model: bool = False
    # Matchers of routes and windows for its alerts
    selectors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # Begin and end of days on which nothing is learned or judged by it
    holidays: tuple[tuple[datetime, datetime], ...] = ()

    def is_holiday(self, slot: datetime) -> bool:
        """Whether rules that learn leave out the run of the slot."""
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
    # Name in the configuration, by which the panel of each of several candidates is drawn
    family: str | None = None
    arms: tuple[str, str] = (
        "baseline",
        "candidate",
    )  # each by its own name in the family: one of several is NAME.KEY
    item_url: str | None = None  # page of an item, with ``{item}`` for the id
