"""A comparison: what is watched, as the configuration says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from monitor.model.derived_metrics import NoiseFloor
from monitor.model.rules import Condition, Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSize:
    """How many users a panel holds: ``fixed`` ones, the same each run, and ``rotating`` ones, fresh each run."""

    fixed: int = 0
    rotating: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is watched, without its sources: immutable, with a hash over everything that changes what a score means.

    ``catalogue_size``: items that could be listed, where configured. ``keep_lists``: both arms' lists are stored with the run,
    for relevance that arrives later and for what compares an arm with its own last run. ``relevance_within``: how long after
    its slot a run still waits for relevance; None without a source of it. ``relevance_after``: how long after its slot it is
    asked for first. ``runs_a_false_page``: how many runs may bring one false page by the rules that learn what is normal.
    ``group_for``: how long after its last one firings join an incident.
    ``ignored``: conditions under which alerts wait for no verdict, so that what stands ends. ``stale_after``: runs that may be
    due in a row without one that succeeds.
    """

    name: str
    k: int
    metrics: tuple[str, ...]
    rules: tuple[Rule, ...]
    sample: SampleSize | None
    seed: int
    deadline: timedelta
    min_paired_share: float
    max_segment_values: int
    evidence_users: int
    keep_scores: bool
    config_hash: str
    arm_metrics: tuple[str, ...] = ()
    catalogue_size: int | None = None
    keep_lists: bool = False
    relevance_within: timedelta | None = None
    relevance_after: timedelta = timedelta(0)
    runs_a_false_page: float = 90.0
    noise_floor: NoiseFloor | None = None
    group_for: timedelta = timedelta(days=1)
    ignored: frozenset[Condition] = frozenset()
    stale_after: int = 3
