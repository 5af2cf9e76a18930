"""Which deliveries are sent, held back or dropped, decided at each attempt.

Matchers, routes, maintenance windows, silences, inhibition.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Self

from monitor.alerts.incidents import FaultGroup, count_pages, group_fault
from monitor.errors import ConfigError
from monitor.immutable import immutable
from monitor.model.alerts import Transition
from monitor.model.notifications import (
    Delivery,
    DeliveryStatus,
    FiringSnapshot,
    Message,
    Silence,
    Treatment,
    Updates,
)
from monitor.model.rankings import ALL
from monitor.model.rules import RuleKind

NAMES = ("alert", "comparison", "segment", "severity", "metric", "statistic")
"""Labels of every alert, in addition to the labels of its rule."""

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_MOST_CHARACTERS = 1000

NEVER_SENT = "its start was never sent"
ENDED_UNSENT = "it ended before its start was sent"
ELSEWHERE = "routed to other receivers"
DRY_RUN = "dry run"
ACKNOWLEDGED = "acknowledged"
_SENT = DeliveryStatus.PENDING
_HELD = DeliveryStatus.HELD
_MUTING = ("error", "no_data", "stale")
"""Conditions under which drift cannot be judged."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """``name=value``, ``name!=value``, ``name=~regex`` or ``name!~regex``.

    A regular expression (RE2) matches the whole value. A missing label is empty.
    """

    name: str
    sign: str
    value: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher. ConfigError if it is invalid.

        A value may be in double quotes, with a backslash before inner ones.
        """
        match = None
        if len(text) <= _MOST_CHARACTERS:
            match = _MATCHER.fullmatch(text)
        if match is None:
            raise ConfigError(
                f'{text[:80]!r} is no matcher: write name=value, name!=value, name=~"regex" or '
                'name!~"regex"'
            )
        name, sign, value = match.groups()
        is_regex = "~" in sign
        quoted = _QUOTED.fullmatch(value)
        if quoted and is_regex:
            value = quoted[1].replace('\\"', '"')
        elif quoted:
            value = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
        error = _regex_error(value) if is_regex else None
        if error:
            raise ConfigError(
                f"{text[:80]!r}: {value[:60]!r} is no regular expression (RE2): {error}"
            )
        return cls(name=name, sign=sign, value=value, text=text)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it matches an alert with these labels."""
        value = labels.get(self.name, "")
        is_match = _fits(self.value, value) if "~" in self.sign else value == self.value
        return is_match is not self.sign.startswith("!")

    def __str__(self) -> str:
        return self.text.strip()


@lru_cache(maxsize=1000)
def _regex_error(pattern: str) -> str | None:
    try:
        _search(pattern, "")  # alone, since within a group `a)(b` would be valid
        _search(_full_match(pattern), "")
    except ValueError as error:
        # The pattern follows after the colon.
        return str(error).removeprefix("Invalid regular expression: ").partition(":")[0]
    return None


@lru_cache(maxsize=10_000)
def _fits(pattern: str, value: str) -> bool:
    return _search(_full_match(pattern), value)


def _full_match(pattern: str) -> str:
    return rf"(?s)\A(?:{pattern})\z"


def _search(pattern: str, text: str) -> bool:
    from pyarrow import array, compute  # noqa: PLC0415 - slow to import, and rarely needed

    # Arrow accepts valid UTF-8 only, and names may contain lone surrogates.
    storable = text.encode("utf-8", "replace").decode()
    return bool(compute.match_substring_regex(array([storable]), pattern=pattern)[0].as_py())


def matchable_labels(transition: Transition) -> dict[str, str]:
    """The labels of the alert's rule, and `NAMES`, which no label overrides."""
    return {**transition.labels, **{name: str(getattr(transition, name)) for name in NAMES}}


def propose_matchers(comparison: str, segments: Collection[str]) -> tuple[str, ...]:
    """Matchers of an incident's alerts and of alerts that join it.

    Its comparison, and its segment if it has only one.
    """
    labels = {"comparison": comparison}
    if len(segments) == 1 and ALL not in segments:
        (labels["segment"],) = segments
    matchers = []
    for name, value in labels.items():
        if value.isprintable() and len(value) < _MOST_CHARACTERS // 3:
            matchers.append(_write_matcher(name, value))
    return tuple(matchers)


def _write_matcher(name: str, value: str) -> str:
    plain = f"{name}={value}"
    if Matcher.parse(plain).value == value:
        return plain
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


def matches_all(matchers: Iterable[Matcher], transition: Transition) -> bool:
    """Whether all of the matchers match the alert."""
    labels = matchable_labels(transition)
    return all(matcher.matches(labels) for matcher in matchers)


@immutable
class Route:
    """Alerts that all matchers match are sent to these receivers.

    With ``goes_on`` later routes count too.
    """

    matchers: tuple[Matcher, ...]
    receivers: frozenset[str]
    goes_on: bool = False


@immutable
class MaintenanceWindow:
    """While it is open, alerts that all matchers match are held back.

    ``ends_at``: when it closes, None while it is closed.
    """

    name: str
    matchers: tuple[Matcher, ...]
    ends_at: Callable[[datetime], datetime | None]


@immutable
class NotificationPolicy:
    """The configuration of notifications."""

    routes: tuple[Route, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    muted: frozenset[tuple[str, str]] = frozenset()  # comparison and alert of dry runs
    # The receiver that gets the messages that another receiver rejected permanently.
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    shows_items: bool = True  # whether messages name items and show lists

    @property
    def selectors(self) -> dict[str, tuple[Matcher, ...]]:
        """The matchers of each route and window by its name in messages."""
        routes = {f"routes[{place}]": route.matchers for place, route in enumerate(self.routes)}
        return routes | {f"maintenance {window.name}": window.matchers for window in self.windows}

    def is_addressed(self, transition: Transition, receiver: str) -> bool:
        """Whether the first matching route, or a later one if it goes on, has the receiver."""
        chosen: set[str] = set()
        for route in self.routes:
            if matches_all(route.matchers, transition):
                chosen |= route.receivers
                if not route.goes_on:
                    break
        # Alerts without a matching route go to every receiver.
        return not chosen or receiver in chosen

    def in_maintenance(self, transition: Transition, now: datetime) -> str | None:
        """Why it is held back at this time, None when no open window matches it."""
        for window in self.windows:
            ends_at = window.ends_at(now)
            if ends_at is not None and matches_all(window.matchers, transition):
                return f"maintenance {window.name} until {ends_at:%Y-%m-%d %H:%M} UTC"
        return None

    def is_muted(self, transition: Transition) -> bool:
        """Whether its rule is a dry run."""
        return (transition.comparison, transition.alert) in self.muted


class Decision(NamedTuple):
    """The next status of one delivery: ``pending`` is sent now, ``held`` or ``dropped``."""

    delivery: Delivery
    status: DeliveryStatus
    reason: str | None = None


@immutable
class Dispatch:
    """Decides what one receiver gets of one comparison at one time."""

    snapshot: FiringSnapshot
    policy: NotificationPolicy
    receiver: str
    treatment: Treatment
    now: datetime

    def decide(self, deliveries: Sequence[Delivery]) -> tuple[Decision, ...]:
        """Decide on all deliveries that wait for the receiver, in the order they were stored.

        While a firing lasts:

        - Its start is sent, or held (`why_held`, or acknowledged before it was sent).
        - Its acknowledgement is sent if the start was sent.

        When it is over:

        - Its end is sent if the start was sent or may have arrived. It is held while other firings
          of its incident last.
        - Everything else is dropped.

        Changes that are routed to other receivers and were not sent before are dropped, unless this
        is the fallback of a receiver that rejected them. `compose_messages` decides which starts
        page and which are updates.
        """
        # A start that may have arrived must get its end, or it would stay open there.
        arrived = set()
        for delivery in deliveries:
            if delivery.transition.is_start and delivery.may_be_known:
                arrived.add(delivery.transition.dedup_key)
        delivered: set[str | None] = {*self.snapshot.delivered, *arrived}
        decisions = []
        # Ends wait for lasting firings of their incident, so starts come first.
        for delivery in sorted(deliveries, key=attrgetter("transition.is_end")):
            decision = self._decide(delivery, frozenset(delivered))
            if decision.status is _SENT:
                delivered.add(delivery.transition.dedup_key)
            decisions.append(decision)
        return tuple(sorted(decisions, key=attrgetter("delivery.transition_id")))

    def why_held(self, start: Transition) -> str | None:
        """Why a lasting firing is held back now, None if it may be sent."""
        if self.policy.is_muted(start):
            return DRY_RUN
        for silence in self.snapshot.silences:
            if silence.is_active(self.now) and is_silenced(silence, start):
                return (
                    f"silence {silence.id} of {silence.author} until "
                    f"{silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.comment}"
                )
        reason = self.policy.in_maintenance(start, self.now)
        if reason is None and self.treatment.updates is not Updates.EACH:
            reason = self._inhibited(start)
        return reason

    def why_not_again(self, start: Transition) -> str | None:
        """Why a firing that was sent is not repeated now, None if it may be."""
        return self.why_held(start) if self._is_addressed(start) else ELSEWHERE

    def _is_addressed(self, change: Transition) -> bool:
        """Whether it is routed to this receiver, or this is the fallback of one that rejected it."""
        for name, fallback in self.policy.fallbacks.items():
            key = (name, change.dedup_key)
            if fallback == self.receiver and key in self.snapshot.refused:
                return True
        return self.policy.is_addressed(change, self.receiver)

    def _decide(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        change = delivery.transition
        is_delivered = change.dedup_key in delivered
        if change.is_end and is_delivered:
            return self._end(delivery, delivered)
        why_dropped = self._why_dropped(change, is_delivered=is_delivered)
        if why_dropped is not None:
            return Decision(delivery, DeliveryStatus.DROPPED, why_dropped)
        if change.is_acknowledgement:
            return Decision(delivery, _SENT)
        reason = self.why_held(change)
        if reason is None and not is_delivered and change.dedup_key in self.snapshot.acknowledged:
            reason = ACKNOWLEDGED
        return Decision(delivery, _SENT if reason is None else _HELD, reason)

    def _why_dropped(self, change: Transition, *, is_delivered: bool) -> str | None:
        if not is_delivered and not self._is_addressed(change):
            return ELSEWHERE
        if change.is_end:
            return NEVER_SENT
        if change.dedup_key not in {start.dedup_key for start in self.snapshot.firing}:
            return ENDED_UNSENT
        if change.is_acknowledgement and not is_delivered:
            return NEVER_SENT
        return None

    def _end(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        if self.treatment.updates is not Updates.EACH:
            name = _incident_of(delivery.transition)
            for start in self.snapshot.firing:
                if _incident_of(start) == name and start.dedup_key in delivered:
                    reason = f"waits for the end of its incident, in which {start.alert} fires"
                    return Decision(delivery, _HELD, reason)
        return Decision(delivery, _SENT)

    def _inhibited(self, start: Transition) -> str | None:
        # Users without a list are counted in failed runs too.
        if group_fault(start) is not FaultGroup.OTHER_LIST:
            return None
        for other in self.snapshot.firing:
            is_muting = other.kind is RuleKind.CONDITION and other.statistic in _MUTING
            is_here = other.segment in (ALL, start.segment)
            if is_muting and is_here and not self.policy.is_muted(other):
                return f"drift cannot be judged while {other.alert} fires"
        return None


def is_silenced(silence: Silence, start: Transition) -> bool:
    """Whether the silence matches the firing."""
    try:
        return matches_all(map(Matcher.parse, silence.matchers), start)
    except ConfigError:
        # An unreadable silence matches nothing, so that no alert is missed.
        return False


def compose_messages(
    changes: Sequence[Transition], snapshot: FiringSnapshot
) -> tuple[Message, ...]:
    """One message for each incident, in the order of first changes, without briefing.

    It pages if the incident begins with it for the receiver, becomes worse (`count_pages`), or is
    over. Otherwise it is an update.
    """
    by_incident: dict[tuple[str, bool], list[Transition]] = {}
    # Acknowledgements have separate messages: some receivers show only the first change.
    for change in sorted(changes, key=attrgetter("is_acknowledgement")):
        by_incident.setdefault((_incident_of(change), change.is_acknowledgement), []).append(change)
    begun = {start.dedup_key: start for start in changes if start.is_start}
    messages = []
    for (name, _), members in by_incident.items():
        messages.append(_message(name, tuple(members), begun, snapshot))
    return tuple(messages)


def _message(
    name: str,
    changes: tuple[Transition, ...],
    begun: Mapping[str | None, Transition],
    snapshot: FiringSnapshot,
) -> Message:
    sent = [start for start in snapshot.sent_starts if _incident_of(start) == name]
    sent_keys = {start.dedup_key for start in sent}
    sent_before = [start for start in sent if start.dedup_key not in begun]
    # In the order of sending, also in a repetition: the first one never changes.
    starts = sent + [
        start
        for key, start in begun.items()
        if _incident_of(start) == name and key not in sent_keys
    ]
    delivered = snapshot.delivered | begun.keys()
    firing = [
        start
        for start in snapshot.firing
        if _incident_of(start) == name and start.dedup_key in delivered
    ]
    before = count_pages(sent_before)
    now = count_pages(starts or changes)
    has_begun = any(change.is_start for change in changes)
    is_page = now.pages > before.pages
    return Message(
        incident=name,
        comparison=changes[0].comparison,
        severity=now.severity,
        changes=changes,
        firing=tuple(firing),
        first=tuple(starts[:1]),
        acknowledged=snapshot.acknowledged,
        pages=now.pages,
        pages_before=before.pages,
        worse=now.worse if has_begun and is_page and before.pages else None,
        is_update=has_begun and not is_page,
    )


def _incident_of(change: Transition) -> str:
    # A firing from before there were incidents is an incident.
    return change.incident or change.dedup_key or ""
