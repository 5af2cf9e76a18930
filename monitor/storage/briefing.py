"""What is stored of a run beside its figures, for the message about what began to fire in it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, select

from monitor.model import Briefing, EvidenceKind, ExampleLists
from monitor.storage.explaining import explanations_of
from monitor.storage.results import evidence_of
from monitor.storage.tables import runs

_EXAMPLES = 2


def of_slot(connection: Connection, comparison: str, slot: datetime) -> Briefing:
    """The explanation and two users of the run of this slot, as far as they are stored.

    Users are those that the explanation shows, of the leading groups one each; without it the two who are least alike.
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
