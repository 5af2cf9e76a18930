"""Options of notification: routes, maintenance windows, fallbacks; and the policy that they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from monitor.alerts import MaintenanceWindow, Matcher, NotificationPolicy, Route
from monitor.errors import ConfigError
from monitor.options import Duration, Options
from monitor.receivers import ReceiverOptions
from monitor.settings.schedule import Schedule
from monitor.settings.value_types import CronText, ZoneName


def _check_matcher(text: str) -> str:
    try:
        return str(Matcher.parse(text))
    except ConfigError as error:
        raise ValueError(str(error)) from None


MatcherText = Annotated[str, AfterValidator(_check_matcher)]
"""``name=value``, ``name!=value``, ``name=~"regex"`` or ``name!~"regex"``."""

_MATCHED = (
    "All of them must match: `name=value`, `!=`, `=~` (a regular expression over the whole value) or `!~`, of `alert`, "
    "`comparison`, `segment`, `severity`, `metric`, `statistic` or a label of the rule."
)


class RouteOptions(Options):
    """Which receivers hear of which alerts."""

    match: tuple[MatcherText, ...] = Field(
        default=(), max_length=50, description=f"{_MATCHED} None: every alert.", examples=[["severity=critical"]]
    )
    receivers: tuple[str, ...] = Field(
        min_length=1, max_length=100, description="Names of receivers.", examples=[["pagerduty", "slack"]]
    )
    goes_on: bool = Field(default=False, alias="continue", description="Whether later routes are looked at too.")


class MaintenanceOptions(Options):
    """A time in which alerts are not told, such as a nightly retraining."""

    name: str = Field(min_length=1, max_length=100, description="What is going on, for people.", examples=["retraining"])
    match: tuple[MatcherText, ...] = Field(
        default=(), max_length=50, description=f"{_MATCHED} None: every alert.", examples=[["comparison=home-feed"]]
    )
    cron: CronText = Field(
        description="When it begins: minute, hour, day, month, weekday as in crontab(5).", examples=["0 2 * * *"]
    )
    timezone: ZoneName = Field(default="UTC", description="Time zone of `cron`.", examples=["Europe/Berlin"])
    lasts: Duration = Field(alias="for", description="How long it lasts.", examples=["2h"])


def to_policy(
    routes: Iterable[RouteOptions],
    maintenance: Iterable[MaintenanceOptions],
    fallbacks: Mapping[str, str],
    receivers: Sequence[ReceiverOptions],
    muted: Iterable[tuple[str, str]],
    schedule_of: Callable[[str, str], Schedule],
) -> NotificationPolicy:
    """How alerts are told. A name that stands for several peers of one receiver means all of them."""
    peers = receivers_by_name(receivers)
    return NotificationPolicy(
        routes=tuple(
            Route(
                matchers=tuple(map(Matcher.parse, route.match)),
                receivers=frozenset(peer for name in route.receivers for peer in peers.get(name, ())),
                goes_on=route.goes_on,
            )
            for route in routes
        ),
        windows=tuple(
            MaintenanceWindow(
                name=each.name,
                matchers=tuple(map(Matcher.parse, each.match)),
                ends_at=_ending(schedule_of(each.cron, each.timezone), each.lasts),
            )
            for each in maintenance
        ),
        muted=frozenset(muted),
        fallbacks={peer: peers[to][0] for name, to in fallbacks.items() for peer in peers.get(name, ()) if to in peers},
    )


def receivers_by_name(receivers: Sequence[ReceiverOptions]) -> dict[str, tuple[str, ...]]:
    """The receivers that each name stands for: every receiver's own, and of several peers also the one they share."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in receivers:
        peers = entry.receiver_names
        found |= {peer: (peer,) for peer in peers}
        if len(peers) > 1:
            found[peers[0].rpartition("-")[0]] = peers
    return found


def _ending(schedule: Schedule, lasts: timedelta) -> Callable[[datetime], datetime | None]:
    def ends_at(now: datetime) -> datetime | None:
        end = schedule.latest(now) + lasts
        return end if now < end else None

    return ends_at
