"""Decides at each attempt which deliveries are sent, held back or dropped.

The decision uses matchers, routes, maintenance windows, silences and inhibition.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, Protocol, Self

from monitor.alerts.incidents import Symptom, count_wake_ups, find_symptom
from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
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
from monitor.texts.deliveries import (
    ACKNOWLEDGED,
    DRY_RUN,
    ELSEWHERE,
    ENDED_UNSENT,
    NEVER_SENT,
    write_inhibited,
    write_maintenance,
    write_silenced,
    write_waiting_end,
)

ALERT_LABELS = ("alert", "comparison", "segment", "severity", "metric", "statistic")
"""Labels of every alert, in addition to the labels of its rule."""

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_MOST_CHARACTERS = 1000

_HELD = DeliveryStatus.HELD
_MUTING = ("error", "no_data", "stale")
"""Conditions under which drift cannot be judged."""


@immutable
class Matcher:
    """A test of one label: ``name=value``, ``name!=value``, ``name=~regex`` or ``name!~regex``.

    A regular expression (RE2) must match the whole value. A missing label has the empty value.
    """

    name: str
    sign: str
    value: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher. Raises ConfigError if the text is not a valid matcher.

        A value may be in double quotes. Quotes inside such a value need a backslash.
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
            # All other backslashes belong to the regular expression.
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
        """Return whether this matcher matches an alert with these labels."""
        value = labels.get(self.name, "")
        is_match = _fits(self.value, value) if "~" in self.sign else value == self.value
        return is_match is not self.sign.startswith("!")

    def __str__(self) -> str:
        return self.text.strip()


@lru_cache(maxsize=1000)
def _regex_error(pattern: str) -> str | None:
    try:
        # The pattern is checked alone too, because `a)(b` is valid only inside of the group
        _search(pattern, "")
        _search(_full_match(pattern), "")
    except ValueError as error:
        # The message repeats the pattern after a colon, so only the part before the colon is used.
        return str(error).removeprefix("Invalid regular expression: ").partition(":")[0]
    return None


@lru_cache(maxsize=10_000)
def _fits(pattern: str, value: str) -> bool:
    return _search(_full_match(pattern), value)


def _full_match(pattern: str) -> str:
    return rf"(?s)\A(?:{pattern})\z"


def _search(pattern: str, text: str) -> bool:
    from pyarrow import array, compute  # noqa: PLC0415 - slow to import, and rarely needed

    # Arrow accepts only valid UTF-8, but names may contain lone surrogates.
    storable = text.encode("utf-8", "replace").decode()
    return bool(compute.match_substring_regex(array([storable]), pattern=pattern)[0].as_py())


def matchable_labels(transition: Transition) -> dict[str, str]:
    """The labels of the alert's rule, and `ALERT_LABELS`, which a rule's label cannot override."""
    return {**transition.labels, **{name: str(getattr(transition, name)) for name in ALERT_LABELS}}


def propose_matchers(
    comparison: str, segments: Collection[str], alerts: Collection[str]
) -> tuple[str, ...]:
    """Propose matchers for these alerts of a comparison. Other alerts of it are still sent.

    If the incident has only one segment, the matchers match this segment too. There are none if a
    matcher cannot hold the names of the comparison and its alerts.
    """
    names = "|".join(re.escape(alert) for alert in sorted(alerts))
    if not _is_matchable(comparison) or not _is_matchable(names):
        return ()
    by_alert = f'alert=~"{names}"'
    if len(alerts) == 1:
        (alert,) = alerts
        by_alert = _write_matcher("alert", alert)
    matchers = [by_alert, _write_matcher("comparison", comparison)]
    if len(segments) == 1 and ALL not in segments:
        (segment,) = segments
        if _is_matchable(segment):
            matchers.append(_write_matcher("segment", segment))
    return tuple(matchers)


def _is_matchable(value: str) -> bool:
    return value.isprintable() and len(value) < _MOST_CHARACTERS // 3


def _write_matcher(name: str, value: str) -> str:
    plain = f"{name}={value}"
    if Matcher.parse(plain).value == value:
        return plain
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'{name}="{escaped}"'


def matches_all(matchers: Iterable[Matcher], transition: Transition) -> bool:
    """Return whether all of the matchers match the alert."""
    labels = matchable_labels(transition)
    return all(matcher.matches(labels) for matcher in matchers)


class Route(Protocol):
    """Alerts that match all matchers are sent to the route's receivers.

    If ``goes_on`` is true, the routes after this one can add receivers.
    """

    match: tuple[Matcher, ...]
    receivers: tuple[str, ...]
    goes_on: bool


class MaintenanceWindow(Protocol):
    """While the window is open, alerts that match all matchers are held back."""

    name: str
    match: tuple[Matcher, ...]

    def ends_at(self, now: datetime) -> datetime | None:
        """When the open window closes. None if the window is not open now."""


@immutable
class NotificationPolicy:
    """The configuration of notifications."""

    routes: tuple[Route, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    muted: frozenset[tuple[str, str]] = frozenset()  # (comparison, alert) of rules in dry run
    # For each receiver, the other receiver that gets the messages that the first one rejected
    # permanently.
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    shows_items: bool = True  # whether messages name items and show lists
    # The longest time between two runs, by comparison
    intervals: Mapping[str, timedelta] = field(default_factory=dict)

    @property
    def selectors(self) -> dict[str, tuple[Matcher, ...]]:
        """The matchers of each route and window, by the route's or window's name in messages."""
        routes = {f"routes[{place}]": route.match for place, route in enumerate(self.routes)}
        return routes | {f"maintenance {window.name}": window.match for window in self.windows}

    def is_addressed(self, transition: Transition, receiver: str) -> bool:
        """Return whether the routes send the change to the receiver.

        Only the first matching route is used. If it ``goes_on``, the next matching route is used
        too.
        """
        chosen: set[str] = set()
        for route in self.routes:
            if matches_all(route.match, transition):
                chosen.update(route.receivers)
                if not route.goes_on:
                    break
        # If no route matches an alert, every receiver gets the alert.
        return not chosen or receiver in chosen

    def explain_maintenance(self, transition: Transition, now: datetime) -> str | None:
        """Return why the change is held back at this time. None if no open window matches it."""
        for window in self.windows:
            ends_at = window.ends_at(now)
            if ends_at is not None and matches_all(window.match, transition):
                return write_maintenance(window.name, ends_at)
        return None

    def is_muted(self, transition: Transition) -> bool:
        """Return whether the rule of the change is in dry run."""
        return (transition.comparison, transition.alert) in self.muted


class Decision(NamedTuple):
    """What to do with one delivery: send it now, or record why it is held or dropped."""

    delivery: Delivery
    unsent_status: DeliveryStatus | None = None  # None if it is sent now
    reason: str | None = None


@immutable
class Dispatch:
    """Decides which changes of one comparison one receiver gets at one time."""

    snapshot: FiringSnapshot
    policy: NotificationPolicy
    receiver: str
    treatment: Treatment
    now: datetime

    def decide(self, deliveries: Sequence[Delivery]) -> tuple[Decision, ...]:
        """Decide on all deliveries that wait for the receiver. The oldest delivery comes first.

        While an alert is firing:

        - Its start is sent or held. It is held for a reason of `why_held`, or if somebody
          acknowledged the alert before its start was sent.
        - Its acknowledgement is sent if the start was sent.

        After the alert has ended:

        - Its end is sent if the start was sent or may have arrived. The end is held while other
          alerts of the incident are firing.
        - Everything else is dropped.

        Changes that are routed to other receivers are dropped if their start was not sent here. A
        fallback receives them if the other receiver rejected them. `compose_messages` decides which
        starts wake people up and which are updates.
        """
        delivered: set[str | None] = {*self.snapshot.delivered}
        # If a start may have arrived, its end must be sent. Otherwise the receiver keeps the alert
        # open.
        for delivery in deliveries:
            if delivery.transition.is_start and delivery.may_be_known:
                delivered.add(delivery.transition.dedup_key)
        decisions = []
        # An end waits for the other alerts of its incident, so starts are decided first.
        for delivery in sorted(deliveries, key=attrgetter("transition.is_end")):
            decision = self._decide(delivery, delivered)
            if decision.unsent_status is None:
                delivered.add(delivery.transition.dedup_key)
            decisions.append(decision)
        return tuple(sorted(decisions, key=attrgetter("delivery.transition_id")))

    def why_held(self, start: Transition) -> str | None:
        """Why the start of an alert that still fires is held back now. None if it may be sent."""
        if self.policy.is_muted(start):
            return DRY_RUN
        for silence in self.snapshot.silences:
            if silence.is_active(self.now) and is_silenced(silence, start):
                return write_silenced(silence)
        reason = self.policy.explain_maintenance(start, self.now)
        if reason is None and self.treatment.updates is not Updates.EACH:
            reason = self._why_inhibited(start)
        return reason

    def why_not_again(self, start: Transition) -> str | None:
        """Return why an alert that was sent is not repeated now. None if it may be repeated."""
        return self.why_held(start) if self._is_addressed(start) else ELSEWHERE

    def _is_addressed(self, change: Transition) -> bool:
        """Return whether this receiver gets the change, by its routes or as a fallback.

        A fallback gets the change if the other receiver rejected it.
        """
        for name, fallback in self.policy.fallbacks.items():
            key = (name, change.dedup_key)
            if fallback == self.receiver and key in self.snapshot.refused:
                return True
        return self.policy.is_addressed(change, self.receiver)

    def _decide(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        """Decide on one delivery. ``delivered`` has the keys of the starts that were sent."""
        change = delivery.transition
        is_delivered = change.dedup_key in delivered
        if change.is_end and is_delivered:
            return self._decide_end(delivery, delivered)
        why_dropped = self._why_dropped(change, is_delivered=is_delivered)
        if why_dropped is not None:
            return Decision(delivery, DeliveryStatus.DROPPED, why_dropped)
        if change.is_acknowledgement:
            return Decision(delivery)
        reason = self.why_held(change)
        if reason is None and not is_delivered and change.dedup_key in self.snapshot.acknowledged:
            reason = ACKNOWLEDGED
        return Decision(delivery, None if reason is None else _HELD, reason)

    def _why_dropped(self, change: Transition, *, is_delivered: bool) -> str | None:
        """Return why the change is never sent. None if it may be sent."""
        if not is_delivered and not self._is_addressed(change):
            return ELSEWHERE
        if change.is_end:
            return NEVER_SENT
        if change.dedup_key not in {start.dedup_key for start in self.snapshot.firing}:
            return ENDED_UNSENT
        if change.is_acknowledgement and not is_delivered:
            return NEVER_SENT
        return None

    def _decide_end(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        """Send the end of an alert whose start was sent, or hold the end.

        The end is held while the receiver knows of another firing alert of the incident. A receiver
        with ``Updates.EACH`` gets every end at once.
        """
        if self.treatment.updates is not Updates.EACH:
            name = delivery.transition.incident
            for start in self.snapshot.firing:
                if start.incident == name and start.dedup_key in delivered:
                    return Decision(delivery, _HELD, write_waiting_end(start.alert))
        return Decision(delivery)

    def _why_inhibited(self, start: Transition) -> str | None:
        """Return which firing alert on a condition holds back the start. None if none does."""
        # Alerts on users without a list are not inhibited, because failed runs count these users
        # too.
        if find_symptom(start.kind, start.statistic) is not Symptom.OTHER_LIST:
            return None
        for other in self.snapshot.firing:
            is_muting = other.kind is RuleKind.CONDITION and other.statistic in _MUTING
            is_here = other.segment in (ALL, start.segment)
            if is_muting and is_here and not self.policy.is_muted(other):
                return write_inhibited(other.alert)
        return None


def is_silenced(silence: Silence, start: Transition) -> bool:
    """Return whether the silence matches the firing alert."""
    try:
        return matches_all(map(Matcher.parse, silence.matchers), start)
    except ConfigError:
        # An unreadable silence matches nothing, so that no alert is missed.
        return False


def compose_messages(
    changes: Sequence[Transition], snapshot: FiringSnapshot
) -> tuple[Message, ...]:
    """Compose one message for each incident, in the order of the incidents' first changes.

    The messages have no briefing yet. A message wakes people up if the incident begins for the
    receiver or becomes worse (`count_wake_ups`). Other messages are updates.
    """
    by_incident: dict[tuple[str | None, bool], list[Transition]] = {}
    # Acknowledgements get a message of their own, because some receivers show only the first
    # change.
    for change in sorted(changes, key=attrgetter("is_acknowledgement")):
        by_incident.setdefault((change.incident, change.is_acknowledgement), []).append(change)
    begun = {start.dedup_key: start for start in changes if start.is_start}
    messages = []
    for (name, _), members in by_incident.items():
        messages.append(_compose_message(name, tuple(members), begun, snapshot))
    return tuple(messages)


def _compose_message(
    name: str | None,
    changes: tuple[Transition, ...],
    begun: Mapping[str | None, Transition],
    snapshot: FiringSnapshot,
) -> Message:
    """Compose the message with these changes of the incident ``name``.

    ``begun`` has the starts among all changes that are sent now, by the key of the firing.
    """
    sent = [start for start in snapshot.sent_starts if start.incident == name]
    sent_keys = {start.dedup_key for start in sent}
    sent_before = [start for start in sent if start.dedup_key not in begun]
    # The starts are in the order in which they were sent. So a repeated message has the same first
    # start.
    starts = [*sent]
    for key, start in begun.items():
        if start.incident == name and key not in sent_keys:
            starts.append(start)
    delivered = snapshot.delivered | begun.keys()
    firing = []
    for start in snapshot.firing:
        if start.incident == name and start.dedup_key in delivered:
            firing.append(start)
    before = count_wake_ups(sent_before)
    # If nothing has begun, the changes themselves say how severe the message is.
    now = count_wake_ups(starts or changes)
    has_begun = any(change.is_start for change in changes)
    wakes_people = now.count > before.count
    return Message(
        incident=name or "",  # each change that is sent has an incident
        comparison=changes[0].comparison,
        severity=now.severity,
        changes=changes,
        firing=tuple(firing),
        first=tuple(starts[:1]),
        acknowledged=snapshot.acknowledged,
        wake_ups=now.count,
        wake_ups_before=before.count,
        worse=now.worse if has_begun and wakes_people and before.count else None,
        is_update=has_begun and not wakes_people,
    )
