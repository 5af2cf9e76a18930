"""Acknowledges, resolves and silences alerts, for commands and pages."""

from collections.abc import Callable, Sequence
from datetime import datetime

from monitor.alerts.notification_policy import Matcher
from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.model.instants import format_instant
from monitor.model.notifications import Silence
from monitor.model.ports import AlertStore


@immutable
class AlertAction:
    """Who acts on an alert, why and when."""

    author: str
    comment: str
    at: datetime

    def reason(self, verb: str) -> str:
        """Return the reason of a transition, such as ``acknowledged by kim: known``."""
        reason = f"{verb} by {self.author}"
        if self.comment:
            reason += f": {self.comment}"
        return reason


def change_firing(
    store: AlertStore,
    is_selected: Callable[[Transition], bool],
    action: AlertAction,
    *,
    resolves: bool,
) -> tuple[Transition, ...]:
    """Acknowledge the selected firing alerts, or resolve them if ``resolves`` is true.

    ``is_selected`` gets the transition with which an alert began. Returns the new transitions. An
    alert that was already acknowledged or resolved has no new transition.
    """
    by_comparison: dict[str, list[tuple[str, str]]] = {}
    for start in filter(is_selected, store.firing()):
        by_comparison.setdefault(start.comparison, []).append((start.alert, start.segment))
    at = action.at
    reason = action.reason("resolved" if resolves else "acknowledged")
    new_transitions: list[Transition] = []
    for name, alerts in by_comparison.items():
        if resolves:
            new_transitions += store.resolve(name, alerts, reason=reason, at=at)
        else:
            new_transitions += store.acknowledge(
                name, alerts, author=action.author, reason=reason, at=at
            )
    return tuple(new_transitions)


def make_silence(
    matchers: Sequence[str],
    action: AlertAction,
    *,
    starts_at: datetime,
    ends_at: datetime,
) -> Silence:
    """Make a silence that can be stored.

    Raises ConfigError if there is no matcher, if a matcher is invalid, or if the silence would end
    before it begins or before now.
    """
    if not matchers:
        raise ConfigError(
            "the silence has no matcher, so it would silence every alert: add a matcher, such as "
            "comparison=home-feed"
        )
    if ends_at <= max(starts_at, action.at):
        raise ConfigError(
            f"the silence would have no effect: its end {format_instant(ends_at)} must be after "
            "its start and after the current time"
        )
    return Silence(
        id=0,  # the database assigns the id
        matchers=tuple(str(Matcher.parse(matcher)) for matcher in matchers),
        author=action.author,
        comment=action.comment,
        created_at=action.at,
        starts_at=starts_at,
        ends_at=ends_at,
    )
