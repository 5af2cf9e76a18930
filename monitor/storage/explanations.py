"""Splits and explanations as rows and documents, and back as dataclasses; the briefing of a slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from monitor.model import (
    ALL,
    Briefing,
    EvidenceKind,
    ExampleLists,
    Explanation,
    PartMeans,
    RunResult,
    Split,
)
from monitor.storage.rows import from_row, to_row
from monitor.storage.run_results import evidence_of
from monitor.storage.tables import explanations, runs, splits

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def store_explanation(connection: Connection, result: RunResult) -> None:
    """Insert the run's split and explanation, those that it has."""
    run_id, split, explanation = result.claim.run_id, result.split, result.explanation
    if split is not None:
        about = {"run_id": run_id, "segment": ALL, "position": 0, "metric": split.metric, "asked": split.asked}
        connection.execute(splits.insert().values(to_row(split.means, splits, **about, kinds={_HABITS: split.habits})))
    if explanation is not None:
        details = {name: value for name, value in asdict(explanation).items() if name != "sentence"}
        connection.execute(explanations.insert().values(run_id=run_id, sentence=explanation.sentence, details=details))


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Explanations of those of the runs that have one which can be read."""
    found = connection.execute(select(explanations).where(explanations.c.run_id.in_(run_ids)))
    read = {row.run_id: _explanation(row.sentence, row.details) for row in found}
    return {run_id: explanation for run_id, explanation in read.items() if explanation is not None}


def splits_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Split]:
    """Splits of those of the runs that have one."""
    query = select(splits).where(splits.c.run_id.in_(run_ids), splits.c.segment == ALL, splits.c.n > 0)
    return {row.run_id: _split(row) for row in connection.execute(query)}


_HABITS = "habits"


def _split(row: Any) -> Split:  # noqa: ANN401 - a row of splits
    stored = (row.kinds or {}).get(_HABITS, {})
    habits = {arm: {habit: tuple(shares) for habit, shares in of_arm.items()} for arm, of_arm in stored.items()}
    return Split(metric=row.metric, asked=row.asked, means=from_row(PartMeans, row), habits=habits)


def _explanation(sentence: str, details: Any) -> Explanation | None:  # noqa: ANN401 - a document
    try:
        return _reader().validate_python({**details, "sentence": sentence})
    except (TypeError, ValueError):
        # A document of another version, which holds what this one does not know, or lacks what it needs.
        return None


@cache
def _reader() -> TypeAdapter[Explanation]:
    from pydantic import TypeAdapter

    return TypeAdapter(Explanation)


_EXAMPLES = 2


def read_briefing(connection: Connection, comparison: str, slot: datetime) -> Briefing:
    """The explanation and two users of the run of this slot, as far as they are stored.

    Users are those that the explanation shows, one of each leading group, else the two with the lowest scores.
    """
    is_it = (runs.c.comparison == comparison, runs.c.scheduled_for == slot)
    run_id = connection.execute(select(runs.c.id).where(*is_it)).scalar()
    if run_id is None:
        return Briefing()
    explanation = explanations_of(connection, [run_id]).get(run_id)
    shown = explanation.examples if explanation else ()
    if not shown:
        worst = [each for each in evidence_of(connection, run_id) if each.kind is EvidenceKind.WORST]
        shown = tuple(
            ExampleLists(user=each.user, baseline=each.baseline, candidate=each.candidate) for each in worst[:_EXAMPLES]
        )
    return Briefing(explanation=explanation, examples=shown)
