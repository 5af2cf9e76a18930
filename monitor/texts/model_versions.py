"""Writes which models changed, and what else changed, between two runs."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from monitor.model.instants import format_instant
from monitor.model.model_versions import Models
from monitor.model.pages import SeriesPoint
from monitor.model.runs import Run


def write_model_changes(models: Models | None, slot: datetime, after: datetime) -> list[str]:
    """Write one clause for each arm whose model changed after ``after``, but not after ``slot``."""
    clauses = []
    for arm, model in (models or {}).items():
        if model.since is not None and model.since > after:
            run = "this run"
            if model.since != slot:
                run = f"the run of {format_instant(model.since)}"
            clauses.append(f"the {arm}'s model changed with {run}, {model.before} → {model.now}")
    return clauses


def write_models(models: Models | None, slot: datetime) -> tuple[str, ...]:
    """For messages, write a sentence for each model that changed in this run or the week before."""
    return tuple(
        f"T{part[1:]}." for part in write_model_changes(models, slot, slot - timedelta(days=7))
    )


def write_changes(
    before: Run | SeriesPoint,
    slot: datetime,
    config_hash: str,
    k: int | None,
    models: Models | None,
) -> Iterator[str]:
    """Write clauses that say what changed between the run ``before`` and the run of ``slot``."""
    if before.config_hash != config_hash:
        clause = "the configuration of the measurement changed"
        if before.k and k and before.k != k:
            clause += f": k {before.k} → {k}"
        yield clause
    yield from write_model_changes(models, slot, before.slot)
