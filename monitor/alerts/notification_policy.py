"""Which deliveries are sent, held back or dropped: routes, maintenance windows, silences, inhibition.

Pure; decided anew at each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from monitor.alerts.matchers import Matcher, matches_all
from monitor.errors import ConfigError
from monitor.model import ALL, Delivery, DeliveryStatus, FiringSnapshot, Message, RuleKind, Silence, Transition


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Alerts that all matchers match are told to these receivers; with ``goes_on`` later routes are looked at too."""

    matchers: tuple[Matcher, ...]
    receivers: frozenset[str]
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """A time of maintenance: while it is open, alerts that all matchers match are not told. ``ends_at``: None while closed."""

    name: str
    matchers: tuple[Matcher, ...]
    ends_at: Callable[[datetime], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPolicy:
    """How alerts are told. ``muted``: (comparison, alert) of rules that only record what they would have sent.

    ``fallbacks``: by receiver, who is told in its place what it refuses for good.
    """

    routes: tuple[Route, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    muted: frozenset[tuple[str, str]] = frozenset()
    fallbacks: Mapping[str, str] = field(default_factory=dict)

    def is_addressed(self, transition: Transition, receiver: str) -> bool:
        """Whether the receiver hears of it by the first route that matches (and further ones if that goes on).

        Without routes everybody hears of everything, and so of what no route matches: nothing is lost between routes.
        """
        chosen: set[str] = set()
        for route in self.routes:
            if matches_all(route.matchers, transition):
                chosen |= route.receivers
                if not route.goes_on:
                    break
        return not chosen or receiver in chosen

    def in_maintenance(self, transition: Transition, now: datetime) -> str | None:
        """Why it is not told at this time, None when no window that is open means it."""
        for window in self.windows:
            ends_at = window.ends_at(now)
            if ends_at is not None and matches_all(window.matchers, transition):
                return f"maintenance {window.name} until {ends_at:%Y-%m-%d %H:%M} UTC"
        return None

    def is_muted(self, transition: Transition) -> bool:
        """Whether its rule only records what it would have sent."""
        return (transition.comparison, transition.alert) in self.muted


NEVER_SENT = "its start was never told"
ENDED_UNSENT = "it ended before it could be told"
ELSEWHERE = "routed to other receivers"
DRY_RUN = "dry run"
ACKNOWLEDGED = "somebody looks after it"
_MUTING = ("error", "no_data", "stale")
"""Conditions under which nothing can be said of drift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one delivery: ``pending`` to be sent now, ``held`` or ``dropped`` with the reason."""

    delivery: Delivery
    status: DeliveryStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressee:
    """A receiver as far as deciding needs it; ``is_ungrouped``: it groups and inhibits by itself, so it hears of everything."""

    name: str
    is_ungrouped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One receiver is to be told of one comparison at one time."""

    situation: FiringSnapshot
    policy: NotificationPolicy
    to: Addressee
    now: datetime

    def decide(self, deliveries: Sequence[Delivery]) -> tuple[Decision, ...]:
        """Decide on all that the receiver is owed, in the order it was stored.

        ================  ===========================  =============================  ====================================
        of a firing that  start                        acknowledgement                end
        ================  ===========================  =============================  ====================================
        lasts             sent, or held by `why_held`  sent once the start was told   (there is none)
                          or because it is looked
                          after before it is told
        is over:
        start was told    (was sent)                   dropped                        sent; held while the rule's firing
                                                                                      on all users stands for it
        start may be      dropped                      dropped                        likewise
        known
        never told        dropped                      dropped                        dropped
        ================  ===========================  =============================  ====================================

        What is routed to others and was not told before is dropped, unless this one stands in for who refused it.
        """
        known = {each.transition.dedup_key for each in deliveries if each.transition.is_start and each.may_be_known}
        told: set[str | None] = {*self.situation.told, *known}
        decisions = []
        for delivery in _all_first(deliveries):
            decision = self._decide(delivery, frozenset(told))
            if decision.status is DeliveryStatus.PENDING:
                told.add(delivery.transition.dedup_key)
            decisions.append(decision)
        return tuple(sorted(decisions, key=lambda each: each.delivery.transition_id))

    def why_held(self, start: Transition, told: Collection[str | None] | None = None) -> str | None:
        """Why a firing that lasts is not told now, None when nothing speaks against it; ``told``: keys of what was."""
        if self.policy.is_muted(start):
            return DRY_RUN
        for silence in self.situation.silences:
            if silence.is_active(self.now) and _is_silenced(silence, start):
                return f"silence {silence.id} of {silence.author} until {silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.comment}"
        if (reason := self.policy.in_maintenance(start, self.now)) is not None or self.to.is_ungrouped:
            return reason
        return self._inhibited(start, self.situation.told if told is None else told)

    def why_not_again(self, start: Transition) -> str | None:
        """Why a firing that was told is not told again now, None when nothing speaks against it."""
        return self.why_held(start) if self._is_addressed(start) else ELSEWHERE

    def _is_addressed(self, change: Transition) -> bool:
        """Whether it is routed to this receiver, or to one that refused it and in whose place this one stands."""
        replaced = (name for name, other in self.policy.fallbacks.items() if other == self.to.name)
        is_stand_in = any((name, change.dedup_key) in self.situation.refused for name in replaced)
        return is_stand_in or self.policy.is_addressed(change, self.to.name)

    def _decide(self, delivery: Delivery, told: Collection[str | None]) -> Decision:
        change = delivery.transition
        is_known = change.dedup_key in told
        if not is_known and not self._is_addressed(change):
            return _drop(delivery, ELSEWHERE)
        if change.is_end:
            return self._end(delivery, told) if is_known else _drop(delivery, NEVER_SENT)
        if change.dedup_key not in {start.dedup_key for start in self.situation.firing}:
            return _drop(delivery, ENDED_UNSENT)
        if change.is_acknowledgement:
            return _send(delivery) if is_known else _drop(delivery, NEVER_SENT)
        reason = self.why_held(change, told)
        if reason is None and not is_known and change.dedup_key in self.situation.acknowledged:
            reason = ACKNOWLEDGED
        return _send(delivery) if reason is None else _hold(delivery, reason)

    def _end(self, delivery: Delivery, told: Collection[str | None]) -> Decision:
        whole = None if self.to.is_ungrouped else self._standing_for(delivery.transition)
        if whole is not None and whole.dedup_key in told:
            return _hold(delivery, f"to be told with the end of {whole.alert} for all users")
        return _send(delivery)

    def _inhibited(self, start: Transition, told: Collection[str | None]) -> str | None:
        for other in self.situation.firing if start.kind is not RuleKind.CONDITION else ():
            is_muting = other.kind is RuleKind.CONDITION and other.statistic in _MUTING
            if is_muting and other.segment in (ALL, start.segment) and not self.policy.is_muted(other):
                return f"nothing can be said of drift while {other.alert} fires"
        whole = self._standing_for(start)
        if whole is None or (self.to.name, whole.dedup_key) in self.situation.refused:
            return None
        if whole.dedup_key in told and whole.slot < start.slot:
            return f"{start.alert} fires for all users, who stand for their segments"
        return None

    def _standing_for(self, change: Transition) -> Transition | None:
        """The lasting firing of the same rule on all users, which is told in place of this segment."""
        same = (start for start in self.situation.firing if start.alert == change.alert and start.segment == ALL)
        return None if change.segment == ALL else next(same, None)


def _is_silenced(silence: Silence, start: Transition) -> bool:
    """Whether the silence means it; one that cannot be read means nothing, for nobody is to miss an alert over it."""
    try:
        return matches_all(map(Matcher.parse, silence.matchers), start)
    except ConfigError:
        return False


def _send(delivery: Delivery) -> Decision:
    return Decision(delivery=delivery, status=DeliveryStatus.PENDING)


def _hold(delivery: Delivery, reason: str) -> Decision:
    return Decision(delivery=delivery, status=DeliveryStatus.HELD, reason=reason)


def _drop(delivery: Delivery, reason: str) -> Decision:
    return Decision(delivery=delivery, status=DeliveryStatus.DROPPED, reason=reason)


def _all_first(deliveries: Iterable[Delivery]) -> list[Delivery]:
    """In the order they were stored, but alerts on all users before segments of the same run."""
    return sorted(
        deliveries,
        key=lambda each: (each.transition.slot, each.transition.segment != ALL, each.transition_id),
    )


def compose_messages(changes: Sequence[Transition], situation: FiringSnapshot) -> tuple[Message, ...]:
    """One message an incident, in the order of its first change, without briefing.

    Acknowledgements follow in one of their own: behind a start they would be lost on who is told one thing at a time.
    """
    by_incident: dict[tuple[str, bool], list[Transition]] = {}
    for change in sorted(changes, key=lambda each: each.is_acknowledgement):
        by_incident.setdefault((_incident_of(change), change.is_acknowledgement), []).append(change)
    told = situation.told | {change.dedup_key for change in changes if change.is_start}
    return tuple(_message(name, tuple(of_it), situation, told) for (name, _), of_it in by_incident.items())


def compose_repetitions(starts: Sequence[Transition]) -> tuple[Message, ...]:
    """What lasts, told again: one message an incident."""
    by_incident: dict[str, list[Transition]] = {}
    for start in starts:
        by_incident.setdefault(_incident_of(start), []).append(start)
    return tuple(
        Message(
            incident=name,
            comparison=of_it[0].comparison,
            severity=of_it[0].severity,
            changes=(),
            firing=tuple(of_it),
            is_repetition=True,
        )
        for name, of_it in by_incident.items()
    )


def _message(name: str, changes: tuple[Transition, ...], situation: FiringSnapshot, told: Collection[str | None]) -> Message:
    firing = tuple(start for start in situation.firing if _incident_of(start) == name and start.dedup_key in told)
    return Message(
        incident=name,
        comparison=changes[0].comparison,
        severity=changes[0].severity,
        changes=changes,
        firing=firing,
        acknowledged=situation.acknowledged,
    )


def _incident_of(change: Transition) -> str:
    """Its incident; what was stored before there were incidents is one of its own."""
    return change.incident or change.dedup_key or ""
