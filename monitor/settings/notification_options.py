"""Options of notification: routes, maintenance windows, fallbacks; and the policy that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

from pydantic import Field

from monitor.alerts import MaintenanceWindow, Matcher, Route
from monitor.options import Duration, Options
from monitor.receivers import ReceiverOptions
from monitor.settings.schedule import Cron
from monitor.settings.value_types import CronText, ZoneName, as_printed_by

MatcherText = Annotated[str, as_printed_by(Matcher.parse)]
"""``name=value``, ``name!=value``, ``name=~"regex"`` or ``name!~"regex"``."""

_MATCHED = (
    "All of them must match: `name=value`, `!=`, `=~` (a regular expression over the whole value) or `!~`, of `alert`, "
    "`comparison`, `segment`, `severity`, `metric`, `statistic` or a label of the rule."
)


class RouteOptions(Options):
    """Which receivers get which alerts."""

    match: tuple[MatcherText, ...] = Field(
        default=(), max_length=50, description=f"{_MATCHED} None: every alert.", examples=[["severity=critical"]]
    )
    receivers: tuple[str, ...] = Field(
        min_length=1, max_length=100, description="Names of receivers.", examples=[["pagerduty", "slack"]]
    )
    goes_on: bool = Field(default=False, alias="continue", description="Whether later routes are tried, too.")

    def to_route(self, peers: Mapping[str, Sequence[str]]) -> Route:
        """The route; ``peers`` are the receivers that each name stands for."""
        receivers = frozenset(peer for name in self.receivers for peer in peers.get(name, ()))
        return Route(matchers=tuple(map(Matcher.parse, self.match)), receivers=receivers, goes_on=self.goes_on)


class MaintenanceOptions(Options):
    """A time in which no notifications are sent, such as a nightly retraining."""

    name: str = Field(min_length=1, max_length=100, description="Free text.", examples=["retraining"])
    match: tuple[MatcherText, ...] = Field(
        default=(), max_length=50, description=f"{_MATCHED} None: every alert.", examples=[["comparison=home-feed"]]
    )
    cron: CronText = Field(
        description="When it begins: minute, hour, day, month, weekday as in crontab(5).", examples=["0 2 * * *"]
    )
    timezone: ZoneName = Field(default="UTC", description="Time zone of `cron`.", examples=["Europe/Berlin"])
    lasts: Duration = Field(alias="for", description="How long it lasts.", examples=["2h"])

    def to_window(self) -> MaintenanceWindow:
        """The window, whose ends its schedule knows."""
        matchers, schedule = tuple(map(Matcher.parse, self.match)), Cron.parse(self.cron, self.timezone)

        def ends_at(now: datetime) -> datetime | None:
            end = schedule.latest(now) + self.lasts
            return end if now < end else None

        return MaintenanceWindow(name=self.name, matchers=matchers, ends_at=ends_at)


def receivers_by_name(receivers: Sequence[ReceiverOptions]) -> dict[str, tuple[str, ...]]:
    """The receivers that each name stands for: every receiver's own, and of several peers also the one they share."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in receivers:
        peers = entry.receiver_names
        found |= {peer: (peer,) for peer in peers}
        if len(peers) > 1:
            found[peers[0].rpartition("-")[0]] = peers
    return found
