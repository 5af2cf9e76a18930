"""What people do about alerts: acknowledge, resolve, silence. Commands and pages do it by these functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts import Matcher
from monitor.errors import ConfigError
from monitor.model import Silence, Transition, format_instant
from monitor.ports import AlertStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """Who does it, why and when."""

    author: str
    comment: str = ""
    at: datetime

    def reason(self, verb: str) -> str:
        """``acknowledged by kim: known``."""
        return f"{verb} by {self.author}" + (f": {self.comment}" if self.comment else "")


def acknowledge(store: AlertStore, is_meant: Callable[[Transition], bool], signed: Signature) -> tuple[Transition, ...]:
    """Acknowledge the firings whose start is meant; what changed, nothing of what the author has acknowledged already."""
    reason = signed.reason("acknowledged")
    return tuple(
        change
        for name, alerts in _firing(store, is_meant).items()
        for change in store.acknowledge(name, alerts, author=signed.author, reason=reason, at=signed.at)
    )


def resolve(store: AlertStore, is_meant: Callable[[Transition], bool], signed: Signature) -> tuple[Transition, ...]:
    """End the firings whose start is meant; what changed."""
    return tuple(
        change
        for name, alerts in _firing(store, is_meant).items()
        for change in store.resolve(name, alerts, reason=signed.reason("resolved"), at=signed.at)
    )


def _firing(store: AlertStore, is_meant: Callable[[Transition], bool]) -> dict[str, list[tuple[str, str]]]:
    chosen: dict[str, list[tuple[str, str]]] = {}
    for start in store.firing():
        if is_meant(start):
            chosen.setdefault(start.comparison, []).append((start.alert, start.segment))
    return chosen


def make_silence(
    matchers: Sequence[str], signed: Signature, *, ends_at: datetime, starts_at: datetime | None = None
) -> Silence:
    """A silence to be stored, from now on unless it says from when; ConfigError where it would hold nothing back."""
    starts_at = starts_at or signed.at
    if not matchers:
        msg = "a silence needs a matcher, such as comparison=home-feed: without any it would hold everything back"
        raise ConfigError(msg)
    if ends_at <= max(starts_at, signed.at):
        msg = f"its end {format_instant(ends_at)} is not after its beginning and now: nothing would be held back"
        raise ConfigError(msg)
    return Silence(
        id=0,
        matchers=tuple(str(Matcher.parse(text)) for text in matchers),
        author=signed.author,
        comment=signed.comment,
        created_at=signed.at,
        starts_at=starts_at,
        ends_at=ends_at,
    )
