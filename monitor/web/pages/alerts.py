"""The pages of all incidents and of one incident."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from operator import attrgetter
from typing import Any

from monitor.alerts.leading_changes import find_first_bad_slot, find_first_step, find_lead
from monitor.alerts.notification_policy import compose_messages, is_silenced, propose_matchers
from monitor.alerts.unmatched_names import find_unmatched_silences
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.immutable import immutable
from monitor.model.notifications import DeliveryStatus, FiringSnapshot, Message, Silence
from monitor.model.pages import IncidentFilter, IncidentHistory, IncidentStart, ReceiverAnswer
from monitor.model.rules import Severity
from monitor.model.run_reasons import UnmatchedName
from monitor.model.runs import LatestRun
from monitor.model.urgency import Impact, find_impact
from monitor.pipeline.briefings import brief_message
from monitor.texts.actions import (
    accept_command,
    acknowledge_command,
    show_command,
    silence_command,
    write_urgency,
)
from monitor.texts.unmatched_names import write_unmatched
from monitor.web.pages.site import AbsentPageError, PageRequest, Site

MOST_ENDED_INCIDENTS = 50
"""One page shows at most this many ended incidents."""
_MOST_FIRING = 500
_MOST_MESSAGES = 10


@immutable
class Incident:
    """An incident: the alerts of one comparison that belong together."""

    incident: str
    comparison: str
    severity: str
    alerts: tuple[str, ...]
    segments: tuple[str, ...]
    started_at: datetime
    slot: datetime  # the slot of the run in which the incident began
    ended_at: datetime | None  # None while an alert of the incident fires
    acknowledged_by: str | None
    sentence: str
    impact: Impact | None  # the users whom its alerts name; None if their number is unknown
    # These values are known only on pages that show what to do about a firing incident.
    lead: Transition | None = None  # the start of the most important firing alert
    first_step: str | None = None  # None if no fault is known
    # If somebody wanted the arms to become less similar, rules learn the runs from this slot on as
    # normal. None if this should not be done.
    accept_since: datetime | None = None

    @property
    def silence_matchers(self) -> tuple[str, ...]:
        """The matchers for a silence of the incident's alerts."""
        return propose_matchers(self.comparison, self.segments, self.alerts)

    @property
    def show_command(self) -> str:
        """The command that shows the run in which the incident began."""
        return show_command(self.comparison, self.slot)

    @property
    def acknowledge_command(self) -> str:
        """The command that acknowledges the firing alerts of the incident."""
        return acknowledge_command(self.comparison, self.segments, self.alerts)

    @property
    def accept_command(self) -> str | None:
        """The command that accepts the change. None if it should not be accepted."""
        if self.accept_since is None:
            return None
        return accept_command(self.comparison, self.accept_since)

    @property
    def urgency(self) -> str:
        """How soon somebody has to look at the incident."""
        return write_urgency(Severity(self.severity), self.impact)


class IncidentState(StrEnum):
    """Whether an alert of the incident still fires."""

    FIRING = "firing"
    ENDED = "ended"


@immutable
class AlertsPage:
    """A page of ended incidents. The first page also has the firing incidents and the silences."""

    filter: IncidentFilter
    state: IncidentState | None
    firing_incidents: tuple[Incident, ...]
    ended_incidents: tuple[Incident, ...]
    page_before: int | None  # the page has incidents before this number. None on the first page
    next_page_before: int | None  # the same for the next page. None on the last page
    comparisons: tuple[str, ...]
    silences: tuple[Silence, ...]
    unmatched_silences: tuple[str, ...]  # sentences about silences that match nothing
    at: datetime


@immutable
class SentMessage:
    """A sent message, made again from stored values. ``at`` is when it was first accepted."""

    at: datetime
    receivers: tuple[str, ...]
    text: str


@immutable
class AlertPage:
    """One incident: its transitions, messages, receivers' answers, and why nothing is sent now."""

    details: Incident
    transitions: tuple[Transition, ...]
    attempts: tuple[ReceiverAnswer, ...]  # what receivers answered, or why nothing was sent
    messages: tuple[SentMessage, ...]
    silences: tuple[Silence, ...]  # silences that match an alert of the incident, now or later
    # The alerts that the configuration does not send now, each with the reason.
    held_alerts: tuple[str, ...]
    # The command that silences the incident until after the next run. Empty if there is none
    silence_command: str
    newest_slot: datetime | None  # None after the incident has ended
    sentence: str | None  # the explanation of the newest run

    @property
    def runbooks(self) -> dict[str, str]:
        """The URL of the runbook of each alert that has one."""
        return {
            change.alert: change.runbook_url for change in self.transitions if change.runbook_url
        }


def read_alerts_page(site: Site, query: PageRequest) -> AlertsPage:
    """Return the page of incidents that the filters in the query select."""
    now = site.clock.now()
    pages = site.store.pages
    incident_filter, state = _read_filter(query.chosen)
    before_number = query.chosen.get("before")
    firing_starts: Sequence[IncidentStart] = ()
    ended_starts: Sequence[IncidentStart] = ()
    next_page_before = None
    # Incidents have ascending numbers. Each page has the ended incidents before a number, and only
    # the first page also has the firing incidents.
    is_first_page = before_number is None
    if state is not IncidentState.ENDED and is_first_page:
        firing_starts = pages.incidents(
            incident_filter, is_firing=True, before_number=None, limit=_MOST_FIRING
        )
    if state is not IncidentState.FIRING:
        # If there is one incident more than the page shows, there is another page.
        newest_first = pages.incidents(
            incident_filter,
            is_firing=False,
            before_number=before_number,
            limit=MOST_ENDED_INCIDENTS + 1,
        )
        ended_starts = newest_first[:MOST_ENDED_INCIDENTS]
        if len(newest_first) > MOST_ENDED_INCIDENTS:
            next_page_before = ended_starts[-1].number
    configured = site.comparisons
    names = set(configured)
    names.update(latest.comparison for latest in site.latest)
    if incident_filter.comparison is not None:
        names.add(incident_filter.comparison)
    silences = site.store.alerts.silences(ending_after=now)
    unmatched: tuple[UnmatchedName, ...] = ()
    # Reading the alerts of many comparisons takes seconds.
    if silences:
        unmatched = find_unmatched_silences(silences, site.store.alerts.names(), configured)
    return AlertsPage(
        filter=incident_filter,
        state=state,
        firing_incidents=_read_incidents(site, firing_starts),
        ended_incidents=_read_incidents(site, ended_starts),
        page_before=before_number,
        next_page_before=next_page_before,
        comparisons=tuple(sorted(names)),
        silences=silences,
        unmatched_silences=tuple(map(write_unmatched, unmatched)),
        at=now,
    )


def _read_filter(chosen: Mapping[str, Any]) -> tuple[IncidentFilter, IncidentState | None]:
    """Return the filters in the query. An empty parameter means no filter, like a missing one."""
    severity = chosen.get("severity")
    state = chosen.get("state")
    incident_filter = IncidentFilter(
        comparison=chosen.get("comparison") or None,
        severity=Severity(severity) if severity else None,
        text=chosen.get("text", ""),
    )
    return incident_filter, IncidentState(state) if state else None


def _read_incidents(site: Site, starts: Sequence[IncidentStart]) -> tuple[Incident, ...]:
    """Return the incidents with these starts, in the same order."""
    if not starts:
        return ()
    firing_by_key = {
        state.dedup_key: state for state in site.store.alerts.states(state=State.FIRING)
    }
    incident_keys = [start.key for start in starts]
    transitions_by_incident: dict[str | None, list[Transition]] = {key: [] for key in incident_keys}
    for transition in site.store.pages.incident_changes(incident_keys):
        transitions_by_incident[transition.incident].append(transition)
    incidents = []
    for transitions in transitions_by_incident.values():
        # The transitions of an incident may have been deleted since its start was read.
        if transitions:
            incidents.append(_make_incident(transitions, firing_by_key))
    return tuple(incidents)


def read_alert_page(site: Site, query: PageRequest) -> AlertPage:
    """Return the page of one incident. Raises AbsentPageError if it has no stored changes."""
    key = query.path["key"]
    history = site.store.pages.incident(key)
    transitions = history.transitions
    if not transitions:
        raise AbsentPageError(f"no incident {key}: it never existed, or its data has expired")
    now = site.clock.now()
    comparison = transitions[0].comparison
    states = site.store.alerts.states(comparison, state=State.FIRING)
    firing_by_key = _firing_of_incident(states, key)
    firing_starts = _find_starts(transitions, firing_by_key)
    silences = []
    for silence in site.store.alerts.silences(ending_after=now):
        if any(is_silenced(silence, start) for start in firing_starts):
            silences.append(silence)
    latest = site.latest_of(comparison) if firing_by_key else None
    explanation = latest.explanation if latest else None
    details = _add_advice(_make_incident(transitions, firing_by_key), firing_starts, latest)
    command = ""
    if details.silence_matchers:
        interval = site.policy.intervals.get(comparison)
        command = silence_command(details.silence_matchers, interval)
    return AlertPage(
        details=details,
        transitions=transitions,
        attempts=history.answers,
        messages=_sent_messages(site, history),
        silences=tuple(silences),
        held_alerts=_explain_held_alerts(site, firing_starts, now),
        silence_command=command,
        newest_slot=latest.slot if latest else None,
        sentence=explanation.sentence if explanation else None,
    )


def read_firing_incident(site: Site, latest: LatestRun, key: str) -> Incident | None:
    """Return a firing incident with advice what to do. None if its transitions were deleted."""
    transitions = site.store.pages.incident(key).transitions
    firing_by_key = _firing_of_incident(latest.states, key)
    starts = _find_starts(transitions, firing_by_key)
    if not starts:
        return None
    if not site.is_reachable:
        # The links to runbooks would lead to a machine that readers cannot reach.
        starts = [replace(start, runbook_url=None) for start in starts]
    return _add_advice(_make_incident(transitions, firing_by_key), starts, latest)


def _firing_of_incident(
    states: Iterable[AlertState], incident: str
) -> dict[str | None, AlertState]:
    """Return the firing alerts of the incident by dedup key, the key of each firing."""
    firing_by_key = {}
    for state in states:
        if state.state is State.FIRING and state.incident == incident:
            firing_by_key[state.dedup_key] = state
    return firing_by_key


def _find_starts(
    transitions: Sequence[Transition], firing_by_key: Mapping[str | None, AlertState]
) -> list[Transition]:
    """Return the starts of the alerts that still fire."""
    return [
        change for change in transitions if change.is_start and change.dedup_key in firing_by_key
    ]


def _add_advice(
    incident: Incident, firing_starts: Sequence[Transition], latest: LatestRun | None
) -> Incident:
    """Add the impact in the newest run, the most important alert, and what to do about it."""
    if not firing_starts or latest is None:
        return replace(incident, impact=find_impact(firing_starts, None))
    explanation = latest.explanation
    finding = explanation.finding if explanation else None
    impact = find_impact(firing_starts, explanation, latest.reasons)
    lead = find_lead(firing_starts, finding)
    first_step = find_first_step(lead, impact, finding)
    return replace(
        incident,
        impact=impact,
        lead=lead,
        first_step=first_step,
        accept_since=find_first_bad_slot(lead, firing_starts, finding),
    )


def _explain_held_alerts(
    site: Site, firing_starts: Sequence[Transition], now: datetime
) -> tuple[str, ...]:
    """Return the alerts that the configuration does not send now, each with the reason."""
    policy = site.policy
    explained = []
    for start in firing_starts:
        reason = policy.explain_maintenance(start, now)
        if policy.is_muted(start):
            reason = "dry run"
        if reason is not None:
            explained.append(f"{start.alert}: {reason}")
    # An alert that fires in several segments is returned once.
    return tuple(dict.fromkeys(explained))


def read_ended(site: Site, end: Transition) -> Incident | None:
    """Return the incident that ended with this transition. None if its data was deleted."""
    transitions = site.store.pages.incident(str(end.incident)).transitions
    return _make_incident(transitions, {}) if transitions else None


def _sent_messages(site: Site, history: IncidentHistory) -> tuple[SentMessage, ...]:
    """Return the messages of the newest `_MOST_MESSAGES` groups of answers, newest first.

    A group has the answers of all receivers about the same transitions. The key of the group has
    the positions of these transitions in ``history.transitions``.
    """
    # The answers, and thus also the groups, are in the order in which they came.
    answers_by_positions: dict[tuple[int, ...], list[ReceiverAnswer]] = {}
    for answer in history.answers:
        # An answer with a reason belongs to no message. The reason says why none was needed.
        if answer.status is DeliveryStatus.SENT and answer.reason is None:
            answers_by_positions.setdefault(answer.positions, []).append(answer)
    sent = []
    newest_groups = islice(reversed(answers_by_positions.items()), _MOST_MESSAGES)
    for positions, answers in newest_groups:
        at = answers[0].at
        receivers = tuple(answer.receiver for answer in answers)
        for message in _compose_again(site, history.transitions, positions, at):
            text = site.message_text(message)
            sent.append(SentMessage(at=at, receivers=receivers, text=text))
    return tuple(sent)


def _compose_again(
    site: Site,
    transitions: Sequence[Transition],
    positions: Sequence[int],
    at: datetime,
) -> Iterator[Message]:
    """Yield the messages that were sent at this time about the transitions at these positions.

    ``transitions`` are all transitions of the incident, in the order in which they were stored and
    sent.
    """
    # The receivers got these starts in earlier messages. Alerts that have ended since then are
    # included, because a text reports no end before the whole incident ends.
    earlier_starts = tuple(change for change in transitions[: min(positions)] if change.is_start)
    until_then = [change for change in transitions if change.at <= at]
    # Each firing has its own dedup key, so an alert that fires again has another key.
    ended_keys = {change.dedup_key for change in until_then if change.is_end}
    firing = [
        change for change in until_then if change.is_start and change.dedup_key not in ended_keys
    ]
    acknowledged = [change for change in until_then if change.is_acknowledgement]
    snapshot = FiringSnapshot(
        firing=tuple(firing),
        delivered=_keys_of(earlier_starts),
        sent_starts=earlier_starts,
        acknowledged=_keys_of(acknowledged),
    )
    to_send = [transitions[position] for position in positions]
    for message in compose_messages(to_send, snapshot):
        yield brief_message(message, site.store.outbox, site.policy)


def _keys_of(transitions: Sequence[Transition]) -> frozenset[str]:
    return frozenset(str(change.dedup_key) for change in transitions)


def _make_incident(
    transitions: Sequence[Transition], firing_by_key: Mapping[str | None, AlertState]
) -> Incident:
    """Make an incident from its transitions, which may have any order and contain duplicates.

    ``firing_by_key`` has the states of firing alerts by dedup key, perhaps also of other incidents.
    """
    starts = [change for change in transitions if change.is_start]
    if not starts:
        starts = list(transitions)  # the starts were deleted, so other transitions must do
    first = min(starts, key=attrgetter("at"))
    firing_states = []
    for transition in transitions:
        if transition.dedup_key in firing_by_key:
            firing_states.append(firing_by_key[transition.dedup_key])
    acknowledged_by = [state.acknowledged_by for state in firing_states if state.acknowledged_by]
    ended_at = None
    # The incident lasts while one of its alerts fires.
    if not firing_states:
        ended_at = max((change.at for change in transitions if change.is_end), default=None)
    most_severe_first = list(Severity)
    return Incident(
        incident=str(first.incident),
        comparison=first.comparison,
        severity=min((start.severity for start in starts), key=most_severe_first.index),
        alerts=tuple(dict.fromkeys(map(attrgetter("alert"), starts))),
        segments=tuple(dict.fromkeys(map(attrgetter("segment"), starts))),
        started_at=first.at,
        slot=first.slot,
        ended_at=ended_at,
        acknowledged_by=acknowledged_by[0] if acknowledged_by else None,
        impact=find_impact(starts, None),
        sentence=first.explanation or f"{first.reason[:1].upper()}{first.reason[1:]}",
    )
