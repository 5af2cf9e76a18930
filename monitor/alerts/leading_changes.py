"""Chooses the most important change of an incident, and what to do first about it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter

from monitor.alerts.incidents import Symptom, find_leads, find_symptom, reports_fault
from monitor.model.alerts import Transition
from monitor.model.explanation import FaultKind, Finding
from monitor.model.rankings import ALL
from monitor.model.rules import RuleKind, Severity
from monitor.model.statistics import GAPS, ListTrait, parse_derived
from monitor.model.urgency import Impact
from monitor.texts.actions import (
    BOTH_FROZEN_STEP,
    NOT_SERVED_STEP,
    write_condition_step,
    write_first_step,
    write_gap_step,
)
from monitor.texts.explanations import has_duplicates


def sort_leads(changes: Iterable[Transition], finding: Finding | None) -> list[Transition]:
    """Select the changes that represent these changes, most important first. See `find_leads`.

    A start that reports the fault of the run comes before all others, because its runbook is the
    right one.
    """
    leads = sorted(find_leads(changes), key=weight_of)
    if finding is None:
        return leads
    return sorted(leads, key=lambda lead: not (lead.is_start and reports_fault(lead, finding)))


def find_lead(starts: Iterable[Transition], finding: Finding | None) -> Transition:
    """Return the start that reports the fault of the run, or else the first one of the incident.

    ``starts`` are those of the firing alerts of one incident, at least one. ``finding`` is None if
    the run found no fault.
    """
    leads = sort_leads(starts, finding)
    if finding is not None and reports_fault(leads[0], finding):
        return leads[0]
    return min(leads, key=attrgetter("slot"))


def weight_of(change: Transition) -> tuple[object, ...]:
    """The sort key of changes, most important first: starts, then acknowledgements, then ends."""
    kind = 2
    if change.is_start:
        kind = 0
    elif change.is_acknowledgement:
        kind = 1
    return (
        kind,
        not change.is_new_normal,
        change.segment != ALL,
        list(Severity).index(change.severity),
        -_distance_from_threshold(change),
        change.alert,
        change.segment,
    )


def _distance_from_threshold(change: Transition) -> float:
    """Return how far the value is from its threshold.

    The distance is divided by half the width of the value's interval. Without an interval it is
    divided by the threshold.
    """
    if change.value is None:
        return 0.0
    half_width = 0.0
    if change.interval is not None:
        half_width = (change.interval[1] - change.interval[0]) / 2
    unit = half_width or abs(change.threshold) or 1.0
    return abs(change.value - change.threshold) / unit


def find_first_step(lead: Transition, impact: Impact | None, finding: Finding | None) -> str | None:
    """Write what to do first about the fault that begins. None if no fault is known."""
    if not lead.is_start:
        return None
    step = None
    if lead.kind is RuleKind.CONDITION:
        step = write_condition_step(lead.statistic)
    elif lead.is_about_both_arms:
        step = BOTH_FROZEN_STEP
    elif lead.kind is RuleKind.COVERAGE and lead.statistic.startswith(ListTrait.NOT_SERVED):
        step = NOT_SERVED_STEP
    if step is not None:
        return step
    if finding is not None:
        return write_first_step(finding.kind, finding.arms, has_duplicates=has_duplicates(finding))
    if parse_derived(lead.metric).derived in GAPS:
        return write_gap_step(lead.direction)
    symptom = find_symptom(lead.kind, lead.statistic)
    has_no_list = symptom in (Symptom.NO_LIST, Symptom.OUTAGE, Symptom.CONDITION)
    if impact is None or not impact.arms or not has_no_list:
        return None
    return write_first_step(FaultKind.MISSING, impact.arms)


def find_first_bad_slot(
    lead: Transition, starts: Sequence[Transition], finding: Finding | None
) -> datetime | None:
    """Return the slot from which the change can be accepted.

    None if nobody can have wanted the change. Then `find_first_step` does not say to accept it.
    ``starts`` are the starts with the same cause. If ``lead`` is not one of them, it is None too.
    """
    if lead.kind is RuleKind.CONDITION or lead not in starts:
        return None
    may_be_wanted = parse_derived(lead.metric).derived in GAPS
    if finding is not None:
        may_be_wanted = finding.kind.facts.is_model_change
    if not may_be_wanted:
        return None
    return min(start.since for start in starts if start.kind is lead.kind)
