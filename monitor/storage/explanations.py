"""Splits and explanations as rows and documents, and back as dataclasses; the briefing of a slot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, select

from monitor.model import (
    Briefing,
    Change,
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
    if split is not None and split.means:
        rows = [{"run_id": run_id, **_split_row(split, position, row)} for position, row in enumerate(split.means)]
        connection.execute(splits.insert(), rows)
    if explanation is not None:
        details = {name: value for name, value in asdict(explanation).items() if name != "sentence"}
        connection.execute(explanations.insert().values(run_id=run_id, sentence=explanation.sentence, details=details))


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Explanations of those of the runs that have one which can be read."""
    found = connection.execute(select(explanations).where(explanations.c.run_id.in_(run_ids)))
    read = {row.run_id: _explanation(row.sentence, row.details) for row in found}
    return {run_id: explanation for run_id, explanation in read.items() if explanation is not None}


def _split_row(split: Split, position: int, row: PartMeans) -> dict[str, Any]:
    kinds: Any = split.kinds.get(row.segment)
    # Habits are of all users, and stand beside their kinds of change.
    if position == 0 and split.habits:
        kinds = {**(kinds or {}), _HABITS: split.habits}
    return to_row(row, splits, position=position, metric=split.metric, kinds=kinds)


def splits_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Split]:
    """Splits of those of the runs that have one."""
    rows: dict[int, list[Any]] = defaultdict(list)
    query = select(splits).where(splits.c.run_id.in_(run_ids)).order_by(splits.c.position)
    for row in connection.execute(query):
        rows[row.run_id].append(row)
    return {run_id: _split(of_run) for run_id, of_run in rows.items()}


def _split(rows: Sequence[Any]) -> Split:
    # Shares of the kinds that this version knows.
    kinds = {
        row.segment: {change: row.kinds[change] for change in Change if change in row.kinds}
        for row in rows
        if row.kinds is not None
    }
    stored = (rows[0].kinds or {}).get(_HABITS, {})
    habits = {arm: {habit: tuple(shares) for habit, shares in of_arm.items()} for arm, of_arm in stored.items()}
    return Split(metric=rows[0].metric, means=tuple(_means(row) for row in rows), kinds=kinds, habits=habits)


_HABITS = "habits"


def _means(row: Any) -> PartMeans:  # noqa: ANN401 - a row of splits
    found = from_row(PartMeans, row)
    return found if found.n else replace(found, membership=math.nan, order=math.nan, length=math.nan, spread=math.nan)


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
    shown = [group.examples[0] for group in explanation.groups if group.examples] if explanation else []
    if not shown:
        worst = [each for each in evidence_of(connection, run_id) if each.kind is EvidenceKind.WORST]
        shown = [ExampleLists(user=each.user, baseline=each.baseline, candidate=each.candidate) for each in worst]
    return Briefing(explanation=explanation, examples=tuple(shown[:_EXAMPLES]))
