"""What fires, and page by page what ended.

One incident with who was notified of it and what can be done.
"""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.alerts.notification_policy import compose_messages, is_silenced, propose_matchers
from monitor.alerts.unmatched import find_unmatched_silences
from monitor.model.alerts import AlertState, State, Transition
from monitor.model.notifications import DeliveryStatus, FiringSnapshot, Message, Silence
from monitor.model.pages import Attempt, IncidentFilter, IncidentHistory, IncidentStart
from monitor.model.rules import Severity
from monitor.pipeline.delivery import brief_message
from monitor.texts.unmatched_names import write_unmatched
from monitor.web.pages.site import AbsentPageError, Query, Site

A_PAGE = timedelta(days=1)
"""One page of ended incidents shows a day at least."""
LEAST, MOST = 25, 100
"""Incidents on one page: at least so many, of more than a day; at most so many, of less than a day."""
_MOST_FIRING = 500
_MESSAGES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Firings of one comparison that belong together."""

    key: str
    comparison: str
    severity: str
    alerts: tuple[str, ...]
    segments: tuple[str, ...]
    start: datetime
    slot: datetime  # of the run with which it began
    end: datetime | None  # None while one of them lasts
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
    """Whether something of an incident fires."""

    FIRING = "firing"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsPage:
    """Incidents that last, on the first page; a page of those that ended, newest first; silences."""

    wanted: IncidentFilter
    state: IncidentState | None
    firing: tuple[Incident, ...]
    ended: tuple[Incident, ...]
    before: int | None  # the incident before which this page begins; None for the first page
    older: int | None  # `before` of the next page, None on the last one
    comparisons: tuple[str, ...]
    silences: tuple[Silence, ...]
    unmatched: tuple[str, ...]  # sentences on silences that match nothing
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message, made again from what is stored, and who took it.

    ``at``: when the first of them did.
    """

    at: datetime
    receivers: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPage:
    """One incident: its timeline, what was sent of it, what each receiver answered, and what holds it back."""

    incident: Incident
    transitions: tuple[Transition, ...]
    attempts: tuple[Attempt, ...]
    messages: tuple[SentMessage, ...]
    silences: tuple[Silence, ...]  # that hold something that fires now, or will
    held: tuple[str, ...]  # alerts that the configuration holds back now, each with why
    newest: datetime | None  # slot of the newest run, while the incident lasts
    told: str | None  # what is said of that run


def read_alerts_page(site: Site, query: Query) -> AlertsPage:
    """Incidents of all comparisons, or those that were chosen."""
    chosen, now, store = query.chosen, site.clock.now(), site.store.alerts
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
        firing = site.store.pages.incidents(wanted, is_firing=True, before=None, limit=_MOST_FIRING)
    if state is not IncidentState.FIRING:
        found = site.store.pages.incidents(wanted, is_firing=False, before=before, limit=MOST + 1)
        ended = _one_page(found)
        older = ended[-1].number if len(found) > len(ended) else None
    silences = store.silences(ending_after=now)
    configured = site.comparisons()
    known = {*configured, *(each.run.comparison for each in site.latest())}
    if wanted.comparison is not None:
        known.add(wanted.comparison)
    return AlertsPage(
        wanted=wanted,
        state=state,
        firing=_whole_incidents(site, firing),
        ended=_whole_incidents(site, ended),
        before=before,
        older=older,
        comparisons=tuple(sorted(known)),
        silences=silences,
        unmatched=tuple(
            map(write_unmatched, find_unmatched_silences(silences, store.states(), configured))
        ),
        at=now,
    )


def _one_page(found: Sequence[IncidentStart]) -> Sequence[IncidentStart]:
    """Those of a day, at least `LEAST`, at most `MOST`."""
    of_a_day = [each for each in found if each.at > found[0].at - A_PAGE]
    return found[: min(max(len(of_a_day), LEAST), MOST)]


def _whole_incidents(site: Site, starts: Sequence[IncidentStart]) -> tuple[Incident, ...]:
    """Incidents with all of their changes, in the order of their starts."""
    if not starts:
        return ()
    firing = {each.dedup_key: each for each in site.store.alerts.states(state=State.FIRING)}
    changes: dict[str, list[Transition]] = {each.key: [] for each in starts}
    for change in site.store.pages.incident_changes([*changes]):
        # A firing that was stored before there were incidents has none.
        changes[change.incident or str(change.dedup_key)].append(change)
    return tuple(_incident(key, of_it, firing) for key, of_it in changes.items() if of_it)


def read_alert_page(site: Site, query: Query) -> AlertPage:
    """AbsentPageError for a key that nothing has."""
    key = query.path["key"]
    history = site.store.pages.incident(key)
    if not history.transitions:
        raise AbsentPageError(f"no incident {key}: it never was, or is deleted")
    comparison = history.transitions[0].comparison
    states = site.store.alerts.states(comparison, state=State.FIRING)
    firing = {each.dedup_key: each for each in states if key in (each.incident, each.dedup_key)}
    lasting = [each for each in history.transitions if each.is_start and each.dedup_key in firing]
    now, policy, newest = (
        site.clock.now(),
        site.policy(),
        site.latest_of(comparison) if firing else None,
    )
    whys = (
        (each.alert, "dry run" if policy.is_muted(each) else policy.in_maintenance(each, now))
        for each in lasting
    )
    return AlertPage(
        incident=_incident(key, history.transitions, firing),
        transitions=history.transitions,
        attempts=history.attempts,
        messages=_sent_messages(site, history),
        silences=tuple(
            silence
            for silence in site.store.alerts.silences(ending_after=now)
            if any(is_silenced(silence, start) for start in lasting)
        ),
        held=tuple(dict.fromkeys(f"{alert}: {why}" for alert, why in whys if why)),
        newest=newest.run.slot if newest else None,
        told=newest.explanation.sentence if newest and newest.explanation else None,
    )


def read_ended(site: Site, end: Transition) -> Incident | None:
    """The incident that ended so; None where its changes are deleted."""
    key = end.incident or end.dedup_key
    changes = site.store.pages.incident(key).transitions if key else ()
    return _incident(key, changes, {}) if key and changes else None


def _sent_messages(site: Site, history: IncidentHistory) -> tuple[SentMessage, ...]:
    """The newest messages, newest first: what was sent of the same changes is one."""
    taken: dict[tuple[int, ...], list[Attempt]] = {}
    for each in history.attempts:
        if each.status is DeliveryStatus.SENT and each.reason is None:
            taken.setdefault(each.changes, []).append(each)
    return tuple(
        SentMessage(
            at=of_it[0].at,
            receivers=tuple(each.receiver for each in of_it),
            text=site.message_text(message),
        )
        for places, of_it in list(taken.items())[: -_MESSAGES - 1 : -1]
        for message in _messages_of(site, history.transitions, places, of_it[0].at)
    )


def _messages_of(
    site: Site, changes: Sequence[Transition], places: Sequence[int], at: datetime
) -> Iterator[Message]:
    ended = {each.dedup_key for each in changes if each.is_end and each.at <= at}
    told = tuple(each for each in changes[: min(places)] if each.is_start)
    snapshot = FiringSnapshot(
        firing=tuple(
            each
            for each in changes
            if each.is_start and each.at <= at and each.dedup_key not in ended
        ),
        delivered=frozenset(str(each.dedup_key) for each in told),
        told=told,
        acknowledged=frozenset(
            str(each.dedup_key) for each in changes if each.is_acknowledgement and each.at <= at
        ),
    )
    for message in compose_messages([changes[place] for place in places], snapshot):
        yield brief_message(message, site.store.outbox, site.policy())


def _incident(
    key: str, changes: Sequence[Transition], firing: dict[str | None, AlertState]
) -> Incident:
    """From transitions in any order, some twice; ``firing``: states that fire, by key."""
    starts = [each for each in changes if each.is_start] or list(changes)
    first = min(starts, key=lambda each: each.at)
    lasting = [firing[each.dedup_key] for each in changes if each.dedup_key in firing]
    ends = [each.at for each in changes if each.is_end]
    return Incident(
        key=key,
        comparison=first.comparison,
        severity=min((each.severity for each in starts), key=["critical", "warning", "info"].index),
        alerts=tuple(dict.fromkeys(each.alert for each in starts)),
        segments=tuple(dict.fromkeys(each.segment for each in starts)),
        start=first.at,
        slot=first.slot,
        end=None if lasting or not ends else max(ends),
        acknowledged_by=next(
            (each.acknowledged_by for each in lasting if each.acknowledged_by), None
        ),
        sentence=first.explanation or f"{first.reason[:1].upper()}{first.reason[1:]}",
    )
