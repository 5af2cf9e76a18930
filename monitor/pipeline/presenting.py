"""What is shown beside the figures of a run: what chance alone would give, and both arms side by side."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from monitor.errors import MetricError
from monitor.metrics import expected_by_chance, parse
from monitor.model import Arm, ArmScore, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm-wide metric over one segment in both arms, None where undefined; ``n``: lists that it speaks of, at most."""

    segment: str
    metric: str
    baseline: float | None
    candidate: float | None
    n: int


def by_chance(metric: str, run: Run) -> float | None:
    """Score to expect of two random lists of the run's k items from its catalogue; None where that is not known."""
    return None if run.k is None or run.catalogue_size is None else _expected(metric, run.k, run.catalogue_size)


def both_arms(scores: Iterable[ArmScore]) -> tuple[ArmRow, ...]:
    """One row a segment and metric, in the order of the scores."""
    pairs: dict[tuple[str, str], dict[Arm, ArmScore]] = {}
    for score in scores:
        pairs.setdefault((score.segment, score.metric), {})[score.arm] = score
    return tuple(
        ArmRow(
            segment=segment,
            metric=metric,
            baseline=arms[Arm.BASELINE].value if Arm.BASELINE in arms else None,
            candidate=arms[Arm.CANDIDATE].value if Arm.CANDIDATE in arms else None,
            n=max(score.n for score in arms.values()),
        )
        for (segment, metric), arms in pairs.items()
    )


@lru_cache(maxsize=4096)
def _expected(metric: str, k: int, catalogue: int) -> float | None:
    """None also for a metric that only a newer version knows, and for a catalogue of fewer than k items."""
    try:
        return expected_by_chance(parse(metric), k, catalogue)
    except MetricError:
        return None
