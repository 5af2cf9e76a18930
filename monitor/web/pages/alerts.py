"""What fires and what ended lately; one incident with who was notified of it and what can be done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.model import AlertState, Attempt, Silence, State, Transition
from monitor.web.pages.site import AbsentPageError, Query, Site

_RECENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Firings of one comparison that belong together; ``end`` is None while one of them lasts."""

    key: str
    comparison: str
    severity: str
    alerts: tuple[str, ...]
    segments: tuple[str, ...]
    start: datetime
    end: datetime | None
    acknowledged_by: str | None
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsPage:
    """Incidents that last, then those that ended, newest first, and silences."""

    firing: tuple[Incident, ...]
    ended: tuple[Incident, ...]
    silences: tuple[Silence, ...]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPage:
    """One incident: its timeline, and what each receiver answered."""

    incident: Incident
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]
    attempts: tuple[Attempt, ...]
    may_act: bool


def read_alerts_page(site: Site, _: Query) -> AlertsPage:
    """Incidents of all comparisons."""
    now, store = site.clock.now(), site.store.alerts
    states = {each.dedup_key: each for each in store.states() if each.state is State.FIRING}
    by_key: dict[str, list[Transition]] = {}
    for each in (*store.firing(), *store.transitions(comparison=None, limit=_RECENT)):
        if (key := each.incident or each.dedup_key) and each.is_announced:
            by_key.setdefault(key, []).append(each)
    found = [_incident(key, changes, states) for key, changes in by_key.items()]
    found.sort(key=lambda each: each.start, reverse=True)
    return AlertsPage(
        firing=tuple(each for each in found if each.end is None),
        ended=tuple(each for each in found if each.end is not None),
        silences=store.silences(ending_after=now),
        at=now,
    )


def read_alert_page(site: Site, query: Query) -> AlertPage:
    """AbsentPageError for a key that nothing has."""
    key = query.path["key"]
    history = site.store.pages.incident(key)
    if not history.transitions:
        msg = f"no incident {key}: it never was, or is deleted"
        raise AbsentPageError(msg)
    comparison = history.transitions[0].comparison
    states = tuple(each for each in site.store.alerts.states(comparison) if key in (each.incident, each.dedup_key))
    firing = {each.dedup_key: each for each in states if each.state is State.FIRING}
    return AlertPage(
        incident=_incident(key, history.transitions, firing),
        states=states,
        transitions=history.transitions,
        attempts=history.attempts,
        may_act=bool(firing),
    )


def _incident(key: str, changes: Sequence[Transition], firing: dict[str | None, AlertState]) -> Incident:
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
        end=None if lasting or not ends else max(ends),
        acknowledged_by=next((each.acknowledged_by for each in lasting if each.acknowledged_by), None),
        sentence=first.explanation or first.reason,
    )
