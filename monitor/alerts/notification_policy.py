"""Which deliveries are sent, held back or dropped: matchers, routes, windows, silences, inhibition. Decided at each attempt."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple, Self

from monitor.alerts.incidents import FaultGroup, count_pages, group_fault
from monitor.errors import ConfigError
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
"""What every alert can be matched by, beside the labels of its rule."""

_MATCHER = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_MOST_CHARACTERS = 1000

NEVER_SENT = "its start was never sent"
ENDED_UNSENT = "it ended before its start was sent"
ELSEWHERE = "routed to other receivers"
DRY_RUN = "dry run"
ACKNOWLEDGED = "acknowledged"
_SENT, _HELD, _DROPPED = DeliveryStatus.PENDING, DeliveryStatus.HELD, DeliveryStatus.DROPPED
_MUTING = ("error", "no_data", "stale")
"""Conditions under which drift cannot be judged."""


@dataclass(frozen=True, slots=True)
class Matcher:
    """``name=value``, ``name!=value``, ``name=~regex`` or ``name!~regex`` (RE2, the whole value); a missing label is empty."""

    name: str
    sign: str
    value: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a matcher.

        ConfigError when it is none. A value may stand in double quotes, a backslash before inner
        ones.
        """
        found = None if len(text) > _MOST_CHARACTERS else _MATCHER.fullmatch(text)
        if found is None:
            raise ConfigError(
                f'{text[:80]!r} is no matcher: write name=value, name!=value, name=~"regex" or '
                'name!~"regex"'
            )
        name, sign, value = found.groups()
        if quoted := _QUOTED.fullmatch(value):
            value = (
                re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
                if "~" not in sign
                else quoted[1].replace('\\"', '"')
            )
        if "~" in sign and (trouble := _trouble_of(value)):
            raise ConfigError(
                f"{text[:80]!r}: {value[:60]!r} is no regular expression (RE2): {trouble}"
            )
        return cls(name=name, sign=sign, value=value, text=text)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an alert of these labels is meant."""
        value = labels.get(self.name, "")
        is_like_it = _fits(self.value, value) if "~" in self.sign else value == self.value
        return is_like_it is not self.sign.startswith("!")

    def __str__(self) -> str:
        return self.text.strip()


@lru_cache(maxsize=1000)
def _trouble_of(pattern: str) -> str | None:
    try:
        _search(pattern, "")  # by itself: within what it is wrapped in, `a)(b` would be one
        _search(_whole(pattern), "")
    except ValueError as error:
        # What follows the colon is the pattern again.
        return str(error).removeprefix("Invalid regular expression: ").partition(":")[0]
    return None


@lru_cache(maxsize=10_000)
def _fits(pattern: str, value: str) -> bool:
    return _search(_whole(pattern), value)


def _whole(pattern: str) -> str:
    return rf"(?s)\A(?:{pattern})\z"


def _search(pattern: str, text: str) -> bool:
    from pyarrow import array, compute  # noqa: PLC0415 - takes a while, and only regular expressions need it

    # Arrow takes valid UTF-8 only, and names from outside may hold lone surrogates.
    storable = text.encode("utf-8", "replace").decode()
    return bool(compute.match_substring_regex(array([storable]), pattern=pattern)[0].as_py())


def matchable_labels(transition: Transition) -> dict[str, str]:
    """What an alert can be matched by: the labels of its rule, and `NAMES`, which no label overrides."""
    return {**transition.labels, **{name: str(getattr(transition, name)) for name in NAMES}}


def propose_matchers(comparison: str, segments: Collection[str]) -> tuple[str, ...]:
    """Matchers of an incident's alerts and of those that join it: its comparison, and its segment if it has only one."""
    names = {"comparison": comparison}
    if len(segments) == 1 and ALL not in segments:
        names["segment"] = next(iter(segments))
    most = _MOST_CHARACTERS // 3
    return tuple(
        _write_matcher(*each)
        for each in names.items()
        if each[1].isprintable() and len(each[1]) < most
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Alerts that all matchers match are sent to these receivers.

    With ``goes_on`` later routes are looked at too.
    """

    matchers: tuple[Matcher, ...]
    receivers: frozenset[str]
    goes_on: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceWindow:
    """While it is open, alerts that all matchers match are held back.

    ``ends_at``: when it closes, None while it is closed.
    """

    name: str
    matchers: tuple[Matcher, ...]
    ends_at: Callable[[datetime], datetime | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationPolicy:
    """The configuration of notifications."""

    routes: tuple[Route, ...] = ()
    windows: tuple[MaintenanceWindow, ...] = ()
    muted: frozenset[tuple[str, str]] = (
        frozenset()
    )  # (comparison, alert) of rules that are dry runs
    fallbacks: Mapping[str, str] = field(
        default_factory=dict
    )  # who gets what a receiver rejects permanently
    shows_items: bool = True  # whether messages name items and show lists

    @property
    def selectors(self) -> dict[str, tuple[Matcher, ...]]:
        """The matchers of each route and window, by what a person calls it."""
        routes = {f"routes[{place}]": route.matchers for place, route in enumerate(self.routes)}
        return routes | {f"maintenance {window.name}": window.matchers for window in self.windows}

    def is_addressed(self, transition: Transition, receiver: str) -> bool:
        """Whether the first route that matches (and further ones if that goes on) leads to the receiver."""
        chosen: set[str] = set()
        for route in self.routes:
            if matches_all(route.matchers, transition):
                chosen |= route.receivers
                if not route.goes_on:
                    break
        # What no route matches goes to every receiver: nothing is lost between routes.
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
    """What becomes of one delivery: ``pending`` to be sent now, ``held`` or ``dropped`` with the reason."""

    delivery: Delivery
    status: DeliveryStatus
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Decides what one receiver is sent of one comparison at one time."""

    snapshot: FiringSnapshot
    policy: NotificationPolicy
    receiver: str
    treatment: Treatment
    now: datetime

    def decide(self, deliveries: Sequence[Delivery]) -> tuple[Decision, ...]:
        """Decide on all deliveries that wait for the receiver, in the order they were stored.

        ================  ===========================  =============================
        ==================================== of a firing that  start
        acknowledgement                end ================  ===========================
        =============================  ==================================== lasts             sent,
        or held (`why_held`,   sent once the start was sent   (there is none)
                          acknowledged before)
        is over: start was sent    (was sent)                   dropped                        sent;
        held while its incident lasts start may have    dropped                      dropped
        likewise never sent        dropped                      dropped
        dropped ================  ===========================  =============================
        ====================================

        What is routed to others and was not sent before is dropped, unless this is the fallback of
        one that rejected it. Whether starts that are sent page or update: `compose_messages`.
        """
        # A start that may have arrived must get its end, or it would stay open there for ever.
        arrived = {
            each.transition.dedup_key
            for each in deliveries
            if each.transition.is_start and each.may_be_known
        }
        delivered: set[str | None] = {*self.snapshot.delivered, *arrived}
        decisions = []
        # Ends wait for what lasts of their incident, so starts are decided on first.
        for delivery in sorted(deliveries, key=lambda each: each.transition.is_end):
            decision = self._decide(delivery, frozenset(delivered))
            if decision.status is _SENT:
                delivered.add(delivery.transition.dedup_key)
            decisions.append(decision)
        return tuple(sorted(decisions, key=lambda each: each.delivery.transition_id))

    def why_held(self, start: Transition) -> str | None:
        """Why a firing that lasts is held back now, None when it may be sent."""
        if self.policy.is_muted(start):
            return DRY_RUN
        for silence in self.snapshot.silences:
            if silence.is_active(self.now) and is_silenced(silence, start):
                return (
                    f"silence {silence.id} of {silence.author} until "
                    f"{silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.comment}"
                )
        if (
            reason := self.policy.in_maintenance(start, self.now)
        ) is not None or self.treatment.updates is Updates.EACH:
            return reason
        return self._inhibited(start)

    def why_not_again(self, start: Transition) -> str | None:
        """Why a firing that was sent is not repeated now, None when it may be."""
        return self.why_held(start) if self._is_addressed(start) else ELSEWHERE

    def _is_addressed(self, change: Transition) -> bool:
        """Whether it is routed to this receiver, or to one that rejected it and whose fallback this one is."""
        replaced = (
            name for name, fallback in self.policy.fallbacks.items() if fallback == self.receiver
        )
        is_fallback = any((name, change.dedup_key) in self.snapshot.refused for name in replaced)
        return is_fallback or self.policy.is_addressed(change, self.receiver)

    def _decide(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        change = delivery.transition
        is_delivered = change.dedup_key in delivered
        if not is_delivered and not self._is_addressed(change):
            return Decision(delivery, _DROPPED, ELSEWHERE)
        if change.is_end:
            return (
                self._end(delivery, delivered)
                if is_delivered
                else Decision(delivery, _DROPPED, NEVER_SENT)
            )
        if change.dedup_key not in {start.dedup_key for start in self.snapshot.firing}:
            return Decision(delivery, _DROPPED, ENDED_UNSENT)
        if change.is_acknowledgement:
            return (
                Decision(delivery, _SENT)
                if is_delivered
                else Decision(delivery, _DROPPED, NEVER_SENT)
            )
        reason = self.why_held(change)
        if reason is None and not is_delivered and change.dedup_key in self.snapshot.acknowledged:
            reason = ACKNOWLEDGED
        return Decision(delivery, _SENT) if reason is None else Decision(delivery, _HELD, reason)

    def _end(self, delivery: Delivery, delivered: Collection[str | None]) -> Decision:
        name = _incident_of(delivery.transition)
        of_it = [
            start
            for start in self.snapshot.firing
            if _incident_of(start) == name and start.dedup_key in delivered
        ]
        if not of_it or self.treatment.updates is Updates.EACH:
            return Decision(delivery, _SENT)
        return Decision(
            delivery, _HELD, f"waits for the end of its incident, in which {of_it[0].alert} fires"
        )

    def _inhibited(self, start: Transition) -> str | None:
        # Whether users have a list is known of runs that failed, too.
        is_drift = group_fault(start) is FaultGroup.OTHER_LIST
        for other in self.snapshot.firing if is_drift else ():
            is_muting = other.kind is RuleKind.CONDITION and other.statistic in _MUTING
            if (
                is_muting
                and other.segment in (ALL, start.segment)
                and not self.policy.is_muted(other)
            ):
                return f"drift cannot be judged while {other.alert} fires"
        return None


def is_silenced(silence: Silence, start: Transition) -> bool:
    """Whether the silence holds the firing back while it is active."""
    try:
        return matches_all(map(Matcher.parse, silence.matchers), start)
    except ConfigError:
        # One that cannot be read matches nothing, so that no alert is missed over it.
        return False


def compose_messages(
    changes: Sequence[Transition], snapshot: FiringSnapshot
) -> tuple[Message, ...]:
    """One message for each incident, by its first change, without briefing.

    It pages if the incident begins for the receiver with it, becomes worse (`count_pages`), or is
    over; else it is an update.
    """
    by_incident: dict[tuple[str, bool], list[Transition]] = {}
    # Acknowledgements get a message of their own: behind a start they would be lost on receivers
    # that show one thing at a time.
    for change in sorted(changes, key=lambda each: each.is_acknowledgement):
        by_incident.setdefault((_incident_of(change), change.is_acknowledgement), []).append(change)
    begun = {start.dedup_key: start for start in changes if start.is_start}
    return tuple(
        _message(name, tuple(of_it), begun, snapshot) for (name, _), of_it in by_incident.items()
    )


def _message(
    name: str,
    of_it: tuple[Transition, ...],
    begun: Mapping[str | None, Transition],
    snapshot: FiringSnapshot,
) -> Message:
    sent = [start for start in snapshot.told if _incident_of(start) == name]
    told = [start for start in sent if start.dedup_key not in begun]
    sent_keys = {start.dedup_key for start in sent}
    fresh = [
        start
        for key, start in begun.items()
        if _incident_of(start) == name and key not in sent_keys
    ]
    # In the order of sending, also in a repetition: what was sent first never changes.
    starts = [*sent, *fresh]
    before, now = count_pages(told), count_pages(starts or of_it)
    is_begun, is_page = any(change.is_start for change in of_it), now.pages > before.pages
    known = snapshot.delivered | begun.keys()
    return Message(
        incident=name,
        comparison=of_it[0].comparison,
        severity=now.severity,
        changes=of_it,
        firing=tuple(
            each
            for each in snapshot.firing
            if _incident_of(each) == name and each.dedup_key in known
        ),
        first=tuple(starts[:1]),
        acknowledged=snapshot.acknowledged,
        pages=now.pages,
        pages_before=before.pages,
        worse=now.worse if is_begun and is_page and before.pages else None,
        is_update=is_begun and not is_page,
    )


def _incident_of(change: Transition) -> str:
    # What was stored before there were incidents is one of its own.
    return change.incident or change.dedup_key or ""
