"""The pages of all incidents and of one incident."""

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import islice
from operator import attrgetter

from monitor.alerts.notification_policy import compose_messages, is_silenced, propose_matchers
from monitor.alerts.unmatched import find_unmatched_silences
from monitor.immutable import immutable
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.notifications import DeliveryStatus, FiringSnapshot, Message, Silence
from monitor.model.pages import Attempt, IncidentFilter, IncidentHistory, IncidentStart
from monitor.model.rules import Severity
from monitor.pipeline.delivery import brief_message
from monitor.texts.unmatched_names import write_unmatched
from monitor.web.pages.site import AbsentPageError, Query, Site

A_PAGE = timedelta(days=1)
"""A page of ended incidents covers at least a day, within the limits that follow."""
LEAST = 25
MOST = 100
"""The least and the most ended incidents of a page, if a day has fewer or more."""
_MOST_FIRING = 500
_MESSAGES = 10


@immutable
class Incident:
    """Firings of one comparison that belong together."""

    incident: str
    comparison: str
    severity: str
    alerts: tuple[str, ...]
    segments: tuple[str, ...]
    started_at: datetime
    slot: datetime  # of the run with which it began
    ended_at: datetime | None  # None while one of them lasts
    acknowledged_by: str | None
    sentence: str

    @property
    def silence_matchers(self) -> tuple[str, ...]:
        """What holds back the whole incident, and what joins it."""
        return propose_matchers(self.comparison, self.segments)

    @property
    def silence_command(self) -> str:
        """The same as a command."""
        return f"rankwatch silence add {shlex.join(self.silence_matchers)} --for 2h"


class IncidentState(StrEnum):
    """Whether an alert of the incident fires."""

    FIRING = "firing"
    ENDED = "ended"


@immutable
class AlertsPage:
    """Silences, incidents that fire (first page only), and one page of ended ones, newest first."""

    filter: IncidentFilter
    state: IncidentState | None
    firing_incidents: tuple[Incident, ...]
    ended_incidents: tuple[Incident, ...]
    page_before: int | None  # this page begins before this incident, None for the first page
    next_page_before: int | None  # the same of the next page, None on the last one
    comparisons: tuple[str, ...]
    silences: tuple[Silence, ...]
    unmatched_silences: tuple[str, ...]  # sentences on silences that match nothing
    at: datetime


@immutable
class SentMessage:
    """A message, composed again from stored values. ``at``: when the first receiver had it."""

    at: datetime
    receivers: tuple[str, ...]
    text: str


@immutable
class AlertPage:
    """One incident: its changes, messages, answers of receivers, and reasons why it is not sent."""

    details: Incident
    transitions: tuple[Transition, ...]
    attempts: tuple[Attempt, ...]
    messages: tuple[SentMessage, ...]
    silences: tuple[Silence, ...]  # that match a firing now, or will
    held_alerts: tuple[
        str, ...
    ]  # alerts that the configuration does not send now, each with the reason
    newest_slot: datetime | None  # of the newest run, while the incident lasts
    sentence: str | None  # the explanation of that run


def read_alerts_page(site: Site, query: Query) -> AlertsPage:
    """Incidents of all comparisons, or those that match the filters."""
    chosen = query.chosen
    now = site.clock.now()
    pages = site.store.pages
    wanted = IncidentFilter(
        comparison=chosen.get("comparison") or None,
        severity=Severity(chosen["severity"]) if chosen.get("severity") else None,
        text=chosen.get("text", ""),
    )
    state = IncidentState(chosen["state"]) if chosen.get("state") else None
    before = chosen.get("before")
    firing: Sequence[IncidentStart] = ()
    ended: Sequence[IncidentStart] = ()
    older = None
    if state is not IncidentState.ENDED and before is None:
        firing = pages.incidents(wanted, is_firing=True, before=None, limit=_MOST_FIRING)
    if state is not IncidentState.FIRING:
        candidates = pages.incidents(wanted, is_firing=False, before=before, limit=MOST + 1)
        ended = _one_page(candidates)
        if len(candidates) > len(ended):
            older = ended[-1].number
    configured = site.comparisons()
    names = {*configured, *(latest.run.comparison for latest in site.latest())}
    if wanted.comparison is not None:
        names.add(wanted.comparison)
    silences = site.store.alerts.silences(ending_after=now)
    unmatched = find_unmatched_silences(silences, site.store.alerts.states(), configured)
    return AlertsPage(
        filter=wanted,
        state=state,
        firing_incidents=_read_incidents(site, firing),
        ended_incidents=_read_incidents(site, ended),
        page_before=before,
        next_page_before=older,
        comparisons=tuple(sorted(names)),
        silences=silences,
        unmatched_silences=tuple(map(write_unmatched, unmatched)),
        at=now,
    )


def _one_page(incidents: Sequence[IncidentStart]) -> Sequence[IncidentStart]:
    """Return those of the newest day, at least `LEAST` and at most `MOST`."""
    of_a_day = [start for start in incidents if start.at > incidents[0].at - A_PAGE]
    return incidents[: min(max(len(of_a_day), LEAST), MOST)]


def _read_incidents(site: Site, starts: Sequence[IncidentStart]) -> tuple[Incident, ...]:
    """Return the incidents with all changes, in the order of their starts."""
    if not starts:
        return ()
    firing = {state.dedup_key: state for state in site.store.alerts.states(state=State.FIRING)}
    changes: dict[str, list[Transition]] = {start.key: [] for start in starts}
    for change in site.store.pages.incident_changes([*changes]):
        # Old firings, from before incidents were stored, have none.
        changes[change.incident or str(change.dedup_key)].append(change)
    return tuple(_incident(key, of_key, firing) for key, of_key in changes.items() if of_key)


def read_alert_page(site: Site, query: Query) -> AlertPage:
    """One incident."""
    key = query.path["key"]
    history = site.store.pages.incident(key)
    transitions = history.transitions
    if not transitions:
        raise AbsentPageError(f"no incident {key}: it never was, or is deleted")
    now = site.clock.now()
    comparison = transitions[0].comparison
    firing = {}
    for state in site.store.alerts.states(comparison, state=State.FIRING):
        if key in (state.incident, state.dedup_key):
            firing[state.dedup_key] = state
    policy = site.policy()
    lasting = [change for change in transitions if change.is_start and change.dedup_key in firing]
    held = []
    for start in lasting:
        why = "dry run" if policy.is_muted(start) else policy.in_maintenance(start, now)
        if why:
            held.append(f"{start.alert}: {why}")
    silences = []
    for silence in site.store.alerts.silences(ending_after=now):
        if any(is_silenced(silence, start) for start in lasting):
            silences.append(silence)
    newest_slot = sentence = None
    latest = site.latest_of(comparison)
    if firing and latest:
        newest_slot = latest.run.slot
        if latest.explanation:
            sentence = latest.explanation.sentence
    return AlertPage(
        details=_incident(key, history.transitions, firing),
        transitions=history.transitions,
        attempts=history.attempts,
        messages=_sent_messages(site, history),
        silences=tuple(silences),
        held_alerts=tuple(dict.fromkeys(held)),
        newest_slot=newest_slot,
        sentence=sentence,
    )


def read_ended(site: Site, end: Transition) -> Incident | None:
    """Return the incident that ended with this change, None if its changes are deleted."""
    key = end.incident or end.dedup_key
    if not key:
        return None
    changes = site.store.pages.incident(key).transitions
    return _incident(key, changes, {}) if changes else None


def _sent_messages(site: Site, history: IncidentHistory) -> tuple[SentMessage, ...]:
    """Return the newest messages, newest first. Receivers of the same changes share a message."""
    attempts: dict[tuple[int, ...], list[Attempt]] = {}
    for attempt in history.attempts:
        if attempt.status is DeliveryStatus.SENT and attempt.reason is None:
            attempts.setdefault(attempt.positions, []).append(attempt)
    sent = []
    for positions, of_changes in islice(reversed(attempts.items()), _MESSAGES):
        at = of_changes[0].at
        receivers = tuple(attempt.receiver for attempt in of_changes)
        for message in _compose(site, history.transitions, positions, at):
            text = site.message_text(message)
            sent.append(SentMessage(at=at, receivers=receivers, text=text))
    return tuple(sent)


def _compose(
    site: Site,
    changes: Sequence[Transition],
    positions: Sequence[int],
    at: datetime,
) -> Iterator[Message]:
    """Compose the messages on the changes at these positions as they were sent at this time."""
    delivered = tuple(change for change in changes[: min(positions)] if change.is_start)
    past = [change for change in changes if change.at <= at]
    ended = {change.dedup_key for change in past if change.is_end}
    firing = [change for change in past if change.is_start and change.dedup_key not in ended]
    acknowledged = [change for change in past if change.is_acknowledgement]
    snapshot = FiringSnapshot(
        firing=tuple(firing),
        delivered=_keys_of(delivered),
        sent_starts=delivered,
        acknowledged=_keys_of(acknowledged),
    )
    to_send = [changes[position] for position in positions]
    for message in compose_messages(to_send, snapshot):
        yield brief_message(message, site.store.outbox, site.policy())


def _keys_of(changes: Sequence[Transition]) -> frozenset[str]:
    return frozenset(str(change.dedup_key) for change in changes)


def _incident(
    key: str,
    changes: Sequence[Transition],
    firing: dict[str | None, AlertState],
) -> Incident:
    """Return an incident, from changes in any order, some twice, and from firing states by key."""
    starts = [change for change in changes if change.is_start] or list(changes)
    first = min(starts, key=attrgetter("at"))
    end = max((change.at for change in changes if change.is_end), default=None)
    acknowledged_by = None
    for change in changes:
        state = firing.get(change.dedup_key)
        if state is not None:
            end = None
            acknowledged_by = acknowledged_by or state.acknowledged_by
    return Incident(
        incident=key,
        comparison=first.comparison,
        severity=min(map(attrgetter("severity"), starts), key=list(Severity).index),
        alerts=tuple(dict.fromkeys(map(attrgetter("alert"), starts))),
        segments=tuple(dict.fromkeys(map(attrgetter("segment"), starts))),
        started_at=first.at,
        slot=first.slot,
        ended_at=end,
        acknowledged_by=acknowledged_by,
        sentence=first.explanation or f"{first.reason[:1].upper()}{first.reason[1:]}",
    )
