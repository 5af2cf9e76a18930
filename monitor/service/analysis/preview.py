"""Preview of a configured comparison: a few users asked of both arms. Stores and sends nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from monitor.errors import MonitorError
from monitor.model.comparison import Comparison, SampleSize
from monitor.model.memory import Memory
from monitor.model.rankings import Arm, Coverage, CoverageReason
from monitor.model.runs import Evidence, items_of
from monitor.pipeline.pull import pull_titles
from monitor.pipeline.run_measurement import Stopwatch, measure_slot
from monitor.service.clock import SystemClock
from monitor.service.runner import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a handful of users got from both arms, or why they got nothing."""

    comparison: Comparison
    slot: datetime
    coverage: Coverage | None
    evidence: tuple[Evidence, ...]
    troubles: tuple[str, ...]
    notes: Mapping[tuple[Arm, CoverageReason], str]
    titles: Mapping[str, str] = field(default_factory=dict)


def preview_users(watched: Watched, count: int) -> Preview:
    """Ask both arms of a comparison for a handful of its users."""
    whole = watched.comparison
    measuring = replace(whole.measuring, sample=SampleSize(rotating=count), evidence_users=count)
    few = replace(whole, measuring=measuring)
    slot = watched.schedule.latest(SystemClock().now())
    try:
        found = measure_slot(few, watched.arms, slot, Memory(), Stopwatch(SystemClock()))
    except MonitorError as error:
        return Preview(comparison=few, slot=slot, coverage=None, evidence=(), troubles=(str(error),), notes={})
    titles, untitled = pull_titles(watched.arms.titles, slot, items_of(found.run.evidence))
    return Preview(
        comparison=few,
        slot=slot,
        coverage=found.coverage,
        evidence=found.run.evidence,
        troubles=tuple(filter(None, [untitled])),
        notes=found.notes,
        titles=titles,
    )
