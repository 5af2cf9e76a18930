"""Splits and explanations as rows and documents, and back as dataclasses; the briefing of a slot."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from monitor.model import (
    Briefing,
    Cause,
    Change,
    EvidenceKind,
    ExampleLists,
    Explanation,
    ExposedItem,
    Part,
    PartMeans,
    RunResult,
    SegmentFall,
    ShareRise,
    Split,
    UserGroup,
)
from monitor.storage.run_results import evidence_of, finite_or_none
from monitor.storage.tables import explanations, runs, splits


def store_explanation(connection: Connection, result: RunResult) -> None:
    """Insert the run's split and explanation, those that it has."""
    run_id, split, explanation = result.claim.run_id, result.split, result.explanation
    if split is not None and split.means:
        rows = [{"run_id": run_id, **_split_row(split, position, row)} for position, row in enumerate(split.means)]
        connection.execute(splits.insert(), rows)
    if explanation is not None:
        details = _finite({name: value for name, value in asdict(explanation).items() if name != "sentence"})
        connection.execute(explanations.insert().values(run_id=run_id, sentence=explanation.sentence, details=details))


def explanations_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Explanation]:
    """Explanations of those of the runs that have one which can be read."""
    found = connection.execute(select(explanations).where(explanations.c.run_id.in_(run_ids)))
    read = {row.run_id: _explanation(row.sentence, row.details) for row in found}
    return {run_id: explanation for run_id, explanation in read.items() if explanation is not None}


def _split_row(split: Split, position: int, row: PartMeans) -> dict[str, Any]:
    kinds = split.kinds.get(row.segment)
    return {
        "segment": row.segment,
        "position": position,
        "metric": split.metric,
        "asked": int(row.asked),
        "n": int(row.n),
        "by_membership": finite_or_none(row.membership),
        "by_order": finite_or_none(row.order),
        "by_length": finite_or_none(row.length),
        "spread": finite_or_none(row.spread),
        "kinds": None if kinds is None else {change.value: float(share) for change, share in kinds.items()},
    }


def splits_of(connection: Connection, run_ids: Sequence[int]) -> dict[int, Split]:
    """Splits of those of the runs that have one."""
    rows: dict[int, list[Any]] = defaultdict(list)
    query = select(splits).where(splits.c.run_id.in_(run_ids)).order_by(splits.c.position)
    for row in connection.execute(query):
        rows[row.run_id].append(row)
    return {run_id: _split(of_run) for run_id, of_run in rows.items()}


def _split(rows: Sequence[Any]) -> Split:
    return Split(
        metric=rows[0].metric,
        means=tuple(_means(row) for row in rows),
        kinds={row.segment: _kinds(row.kinds) for row in rows if row.kinds is not None},
    )


def _means(row: Any) -> PartMeans:  # noqa: ANN401 - a row of splits
    parts = (row.by_membership, row.by_order, row.by_length, row.spread)
    membership, order, length, spread = (math.nan if value is None else value for value in parts)
    return PartMeans(
        segment=row.segment, asked=row.asked, n=row.n, membership=membership, order=order, length=length, spread=spread
    )


def _kinds(shares: Mapping[str, float]) -> dict[Change, float]:
    """Shares of the kinds that this version knows."""
    return {change: float(shares[change]) for change in Change if change in shares}


def _finite(value: Any) -> Any:  # noqa: ANN401 - a document
    """The document with null for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _explanation(sentence: str, details: Any) -> Explanation | None:  # noqa: ANN401 - a document
    """None for a document of another version that holds what this one does not know, or lacks what it needs."""
    try:
        return _read(sentence, details)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _read(sentence: str, details: Mapping[str, Any]) -> Explanation:
    known = {field.name: details[field.name] for field in fields(Explanation) if field.name != "sentence"}
    read = {
        "gained": tuple(ExposedItem(**each) for each in details["gained"]),
        "lost": tuple(ExposedItem(**each) for each in details["lost"]),
        "groups": tuple(_group(each) for each in details["groups"]),
        "causes": tuple(Cause(**each | {"part": Part(each["part"])}) for each in details["causes"]),
        "falls": tuple(_fall(each) for each in details["falls"]),
        "rises": tuple(ShareRise(**each | {"change": each["change"] and Change(each["change"])}) for each in details["rises"]),
    }
    return Explanation(**known | read | {"sentence": sentence})


def _fall(row: Mapping[str, Any]) -> SegmentFall:
    return SegmentFall(**{**row, "parts": {Part(name): amount for name, amount in row["parts"].items()}})


def _group(row: Mapping[str, Any]) -> UserGroup:
    return UserGroup(**{**row, "change": Change(row["change"]), "examples": tuple(_example(each) for each in row["examples"])})


def _example(row: Mapping[str, Any]) -> ExampleLists:
    return ExampleLists(user=row["user"], baseline=tuple(row["baseline"]), candidate=tuple(row["candidate"]))


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
