"""Explains alerts: finds the cause of alerts that begin, and writes it into their transitions."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter

from monitor.alerts.incidents import find_leads, reports_fault
from monitor.model.alerts import State, Transition
from monitor.model.explanation import SIMILAR_FAULTS, Explanation, FaultKind, Finding
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition, RuleKind
from monitor.model.run_reasons import RunReasonKind, find_reason
from monitor.model.runs import MeasuredRun, RunStatus
from monitor.model.statistics import (
    ABOUT_ORDER,
    OF_SIMILARITY,
    SIMILAR_LISTS,
    TRAITS_OF_LISTS_BEFORE_ALERTS,
    CoverageShare,
    ListTrait,
    parse_derived,
)
from monitor.pipeline.score import means_too_similar
from monitor.statistics.attribution.faults import find_missing
from monitor.texts.explanations import (
    write_alert_text,
    write_cause,
    write_finding_alone,
    write_no_cause,
    write_recalled,
)
from monitor.texts.model_versions import write_models

_CAUSE_SHARE = 0.5
"""A fault is the cause of a drop if it explains at least this share of the drop."""
_LEAST_CAUSE_SHARE = 0.1
"""A fault of few users that explains less than this share of the drop is not its cause."""
_CAUSE_USERS = 0.05
"""If there is no drop, a fault is a cause if at least this share of the users has it."""
_SIMILAR_FAULT_OF_TRAIT = {kind.facts.traits[0]: kind for kind in SIMILAR_FAULTS}


def choose_explanation(
    current: Explanation | None,
    earlier: Sequence[tuple[datetime, Explanation]],
    starts: Sequence[Transition],
) -> Explanation | None:
    """Return the explanation for a run in which alerts begin (``starts``).

    ``current`` is the explanation of this run. ``earlier`` are the explanations of earlier runs,
    the newest first, with the slots of their runs. Some alerts begin days after their cause, such
    as alerts on trends. The lists of the last run have the same fault then, so only an earlier run
    shows it. The first of these explanations is returned:

    1. The current one, if its fault began in this run, or if the fault can be the cause of the
       alerts (`_is_cause`).
    2. The newest earlier one with a fault that can be the cause.
    3. If this run found no fault, the newest earlier one with a fault that cannot be mistaken for a
       new training of a model.
    4. The current one.

    If all alerts are about a change since the lists that this run is compared with, only the runs
    since then can have the cause.

    `_recall_order` chooses if all alerts are about the order of items. If an earlier explanation is
    returned, it says so (``is_recalled``).
    """
    if current is None:
        return None
    finding = current.finding
    if finding is None and all(_is_about(start, TRAITS_OF_LISTS_BEFORE_ALERTS) for start in starts):
        since = current.since
        earlier = [(slot, explanation) for slot, explanation in earlier if since and slot > since]
    all_are_about_order = all(_is_about(start, ABOUT_ORDER) for start in starts)
    may_be_training = finding is None or finding.kind.facts.looks_like_training
    if all_are_about_order and may_be_training:
        return _recall_order(current, earlier)
    if finding is not None:
        # If an earlier fault ends, lists get many new items again. This may look like a fault that
        # brings new items and explains a drop. Any other fault began in this run.
        may_be_end_of_fault = finding.explained is not None and finding.kind.facts.brings_new_items
        if not may_be_end_of_fault or _is_cause(finding, starts):
            return current
    for slot, explanation in earlier:
        if _is_cause(explanation.finding, starts):
            return _mark_recalled(explanation, slot)
    if finding is not None:
        return current
    return _recall_small_fault(earlier) or current


def _recall_small_fault(earlier: Iterable[tuple[datetime, Explanation]]) -> Explanation | None:
    """Return the first explanation with a fault of enough users that cannot be a new training.

    None if there is none.
    """
    for slot, explanation in earlier:
        finding = explanation.finding
        if finding is None or finding.kind.facts.looks_like_training:
            continue
        # Only a fault gives several users the same list, so few users are enough.
        if finding.share >= _CAUSE_USERS or finding.kind is FaultKind.SHARED_LIST:
            return _mark_recalled(explanation, slot)
    return None


def prefer_similarity_finding(
    explanation: Explanation | None, starts: Sequence[Transition]
) -> Explanation | None:
    """Replace the explanation's finding if alerts on too similar lists found twice as many users.

    Such alerts find smaller faults, because their rules have learned how much the share of users
    with such lists usually varies. ``starts`` are the transitions of all alerts that begin. The
    finding is not replaced in these cases:

    - No alert on too similar lists begins, or an alert on less similar lists begins too.
    - The finding is about a fault of another kind.
    - The finding has more than half as many users as these alerts found.
    """
    on_similar_lists = [start for start in starts if _is_about(start, SIMILAR_LISTS)]
    if explanation is None or not on_similar_lists:
        return explanation
    if any(map(_says_less_similar, starts)):
        return explanation
    # An alert may begin in many segments. `find_leads` selects those that represent all of them.
    leads = find_leads(on_similar_lists)
    findings = [_make_similarity_finding(lead, explanation.paired) for lead in leads]
    finding = max(findings, key=attrgetter("users"))
    current = explanation.finding
    if current is not None:
        is_other_fault = not current.kind.facts.is_similarity
        has_found_enough = current.users > finding.users / 2
        if is_other_fault or has_found_enough:
            return explanation
    sentence = write_finding_alone(finding)
    return replace(explanation, finding=finding, segment=finding.segment, sentence=sentence)


def leave_out_weak_cause(
    explanation: Explanation | None, starts: Sequence[Transition]
) -> Explanation | None:
    """Return the explanation without its finding, if the finding is no cause of the alerts.

    ``starts`` are the transitions of the alerts that begin. The finding is left out if it has few
    users and hardly explains the drop, although an alert on a drop begins. It is kept if an alert
    that begins counts its users. A small change of all lists is left out too, unless an alert on a
    mean or a gap begins.
    """
    finding = None if explanation is None else explanation.finding
    if explanation is None or finding is None or explanation.is_recalled:
        return explanation
    if any(reports_fault(start, finding) for start in starts):
        return explanation
    if "is_general" in finding.detail:
        is_cause = any(start.kind is RuleKind.SIMILARITY for start in starts)
    else:
        explains_enough = finding.explained is None or finding.explained >= _LEAST_CAUSE_SHARE
        has_many_users = finding.share >= _CAUSE_USERS
        is_cause = explains_enough or has_many_users or not any(map(_says_less_similar, starts))
    if is_cause:
        return explanation
    return replace(explanation, finding=None, sentence=write_no_cause(explanation))


def _make_similarity_finding(start: Transition, compared: int) -> Finding:
    """Make a finding from ``start``, with which an alert on too similar lists begins.

    ``start.value`` is the share of users with too similar lists, and ``start.normal`` is the usual
    share. ``compared`` is the number of compared users in all segments.
    """
    usual_share = start.normal or 0.0
    share_now = start.value or 0.0
    # The usual share of users has too similar lists even without the fault. The fault is visible
    # only in the lists of the other users. So
    # share_now = usual_share + affected_share * (1 - usual_share).
    affected_share = (share_now - usual_share) / (1 - usual_share)
    trait = CoverageShare.parse(start.statistic).trait
    return Finding(
        kind=_SIMILAR_FAULT_OF_TRAIT[trait],
        arms=(Arm.CANDIDATE,),
        segment=start.segment,
        segment_share=affected_share,
        users=round(affected_share * start.users),
        compared=compared,
    )


def _recall_order(
    current: Explanation, earlier: Iterable[tuple[datetime, Explanation]]
) -> Explanation:
    """Return the explanation whose fault changed the first items of the largest number of users.

    Usually this is the first run with the fault, because later runs are compared with lists that
    have the fault too. The fault need not explain a drop, because the order of the first items
    hardly changes similarity.
    """
    selected = current
    most_users = _count_users_with_moved_first_items(current)
    for slot, explanation in earlier:
        users = _count_users_with_moved_first_items(explanation)
        if users > most_users:
            selected = _mark_recalled(explanation, slot)
            most_users = users
    return selected


def _count_users_with_moved_first_items(explanation: Explanation) -> int:
    """Return the number of users whose first items a fault changed."""
    finding = explanation.finding
    if finding is None or not finding.kind.facts.moves_first_items:
        return 0
    return finding.users


def _mark_recalled(explanation: Explanation, slot: datetime) -> Explanation:
    """Say in the explanation that it explains the earlier run of this slot."""
    if explanation.is_recalled:
        return explanation
    sentence = write_recalled(explanation.sentence, slot)
    return replace(explanation, sentence=sentence, is_recalled=True)


def _is_cause(finding: Finding | None, starts: Sequence[Transition]) -> bool:
    """Return whether the finding can be the cause of the alerts that begin."""
    if finding is None:
        return False
    if finding.kind.facts.is_similarity:
        return any(_is_about(start, OF_SIMILARITY) or _says_too_similar(start) for start in starts)
    if finding.explained is not None:
        return finding.explained >= _CAUSE_SHARE
    # There is no drop. Then new items are no cause, because a training may bring them too.
    return finding.kind is not FaultKind.REPLACED and finding.share >= _CAUSE_USERS


def _is_about(start: Transition, traits: tuple[ListTrait, ...]) -> bool:
    """Return whether the alert is on the share of users whose lists have one of these traits."""
    return start.kind is RuleKind.COVERAGE and start.statistic.startswith(traits)


def _says_too_similar(start: Transition) -> bool:
    """Return whether the alert says that lists are too similar."""
    return start.kind is RuleKind.SIMILARITY and means_too_similar(
        start.metric, start.statistic, start.direction
    )


def _says_less_similar(start: Transition) -> bool:
    """Return whether the alert says that lists are less similar."""
    return start.kind is RuleKind.SIMILARITY and not _says_too_similar(start)


def _find_missing_lists(measured: MeasuredRun) -> Finding | None:
    """Return a finding about users without a list, for a run that could not be judged.

    Return None if the run is ok, or if hardly any users lack a list.
    """
    coverage = measured.coverage
    if measured.status is RunStatus.OK or coverage is None:
        return None
    if coverage.all.paired and measured.unpaired is not None:
        # An arm of a test does not serve all its users in each run.
        return None
    finding = find_missing(coverage.rows, usual_share=None)
    if finding is None:
        return None
    loss = find_reason(measured.reasons, RunReasonKind.LOST_LISTS, finding.arms[0])
    if loss is None:
        return finding
    for cause in loss.causes:
        if cause.text:
            return replace(finding, note=cause.text)
    return finding


def add_explanations(
    transitions: Iterable[Transition], explanation: Explanation | None, measured: MeasuredRun
) -> tuple[Transition, ...]:
    """Add the explanation and the changes of models to the transitions with which alerts begin.

    An alert begins if its new state is pending or firing. Alerts on similarity always get the
    explanation. Other alerts get it if its finding says more than the alert's reason. If there is
    no explanation, the finding is about users without a list.
    """
    finding = _find_missing_lists(measured) if explanation is None else explanation.finding
    explained = []
    for transition in transitions:
        text = None
        begins = transition.to_state is not State.QUIET
        is_on_similarity = transition.kind is RuleKind.SIMILARITY
        if begins and (is_on_similarity or _says_more_than(finding, transition)):
            text = _explain_alert(transition, explanation, finding)
        if text is None:
            explained.append(transition)
            continue
        if finding is not None:
            transition = replace(  # noqa: PLW2901
                transition, headline=write_cause(finding), concerned=finding.users
            )
        text = " ".join((text, *write_models(measured.models, measured.slot)))
        explained.append(replace(transition, explanation=text))
    return tuple(explained)


def _explain_alert(
    transition: Transition,
    explanation: Explanation | None,
    finding: Finding | None,
) -> str | None:
    """Return the text that explains this alert, or that says which users have no list.

    Alerts on similarity get the explanation if there is one. None if there is nothing to say.
    """
    is_explained = explanation is not None and transition.kind is RuleKind.SIMILARITY
    if finding is not None and finding.kind is FaultKind.MISSING and not is_explained:
        return write_finding_alone(finding)
    if explanation is None:
        return None
    return write_alert_text(
        explanation, parse_derived(transition.metric).metric, transition.segment
    )


def _says_more_than(finding: Finding | None, transition: Transition) -> bool:
    """Return whether the finding says more than the reason of this transition."""
    if finding is None or transition.is_about_test or transition.is_about_both_arms:
        return False
    if finding.kind is not FaultKind.MISSING:
        return True
    if finding.segment != ALL or transition.segment != ALL or len(finding.arms) > 1:
        return True
    # The reason of an alert on coverage already counts all users without a list of one arm, and the
    # reason of an alert on a failed run already names the cause.
    return transition.kind is RuleKind.CONDITION and transition.statistic != Condition.ERROR
