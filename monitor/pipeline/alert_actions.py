"""What people do about alerts: acknowledge, resolve, silence.

Commands and pages do it by these functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.alerts.notification_policy import Matcher
from monitor.errors import ConfigError
from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Silence
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


def change_firing(
    store: AlertStore, is_meant: Callable[[Transition], bool], signed: Signature, *, ends: bool
) -> tuple[Transition, ...]:
    """Acknowledge, or with ``ends`` resolve, the firings whose start is meant.

    The changes, none for what was done before.
    """
    reason, chosen = (
        signed.reason("resolved" if ends else "acknowledged"),
        dict[str, list[tuple[str, str]]](),
    )
    for start in filter(is_meant, store.firing()):
        chosen.setdefault(start.comparison, []).append((start.alert, start.segment))
    changed: list[Transition] = []
    for name, alerts in chosen.items():
        if ends:
            changed += store.resolve(name, alerts, reason=reason, at=signed.at)
        else:
            changed += store.acknowledge(
                name, alerts, author=signed.author, reason=reason, at=signed.at
            )
    return tuple(changed)


def make_silence(
    matchers: Sequence[str], signed: Signature, *, starts_at: datetime, ends_at: datetime
) -> Silence:
    """A silence to be stored.

    ConfigError where a matcher is none, or where it would hold back nothing or everything.
    """
    if not matchers:
        raise ConfigError(
            (
                "a silence needs a matcher, such as comparison=home-feed: without one it would "
                "hold everything back"
            )
        )
    if ends_at <= max(starts_at, signed.at):
        raise ConfigError(
            (
                f"its end {format_instant(ends_at)} is not after its beginning and now: nothing "
                "would be held back"
            )
        )
    return Silence(
        id=0,
        matchers=tuple(str(Matcher.parse(text)) for text in matchers),
        author=signed.author,
        comment=signed.comment,
        created_at=signed.at,
        starts_at=starts_at,
        ends_at=ends_at,
    )
