"""Notifies Prometheus Alertmanager by its API v2. Each peer is one receiver.

`docs/reference/receivers.md` has the details.
"""

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Annotated

from pydantic import Field, SecretStr

from monitor.alerts.incidents import find_leads
from monitor.boundary.options import Duration, HeaderSecret, LabelName, Options, must
from monitor.model.alerts import Transition
from monitor.model.instants import format_instant
from monitor.model.notifications import Briefing, Message, Treatment, Updates
from monitor.receivers.http_client import HttpReceiver, encode_json
from monitor.receivers.message.identity import alert_annotations, alert_labels, started_at
from monitor.receivers.message.safe_text import clean, page_url
from monitor.receivers.receiver_options import HttpReceiverEntry, ReceiverName, Url, without_path

ALERTS_PATH = "/api/v2/alerts"

_PeerUrl = Annotated[
    Url,
    without_path(
        ALERTS_PATH, "write http://host:9093, followed by the path prefix if there is one"
    ),
]
_are_once = must(
    lambda urls: 0 < len(urls) == len(set(urls)), "list at least one peer, and no peer twice"
)
_SHORTEST_END = timedelta(minutes=5)
_RESENDS_AHEAD = 4
# With this batch size, a thousand alerts can be sent before the lease of a delivery expires.
_BATCH_ALERTS = 250
_LONGEST_TEXT = 500


class BasicAuth(Options):
    """User and password for HTTP basic authentication."""

    username: str = Field(min_length=1, pattern=r"^[^:]*$")
    """The user name. It must not contain a colon."""
    password: SecretStr
    """Password."""


class AlertmanagerOptions(HttpReceiverEntry):
    """Notify a Prometheus Alertmanager.

    Every peer of an Alertmanager cluster is notified separately.
    """

    urls: Annotated[tuple[_PeerUrl, ...], _are_once] = Field(
        json_schema_extra={"minItems": 1, "uniqueItems": True}
    )
    """The URL of each peer in the cluster, such as http://host:9093. Do not use the URL of a load
    balancer, because every peer must receive every alert."""
    name: ReceiverName | None = None
    """The name of the receiver in metrics and in the outbox (default: alertmanager). If there are
    several `urls`, the peers are named alertmanager-0, alertmanager-1 and so on."""
    basic_auth: BasicAuth | None = None
    """Basic authentication."""
    bearer_token: HeaderSecret | None = None
    """Token for the header `Authorization: Bearer`."""
    labels: Mapping[LabelName, str] = Field(default_factory=dict, examples=[{"job": "rankwatch"}])
    """Labels that rankwatch adds to every alert for this Alertmanager. Set the labels that your
    Prometheus adds to its alerts about rankwatch, such as `job`, `namespace` and `cluster`. The
    alerts from rankwatch and Prometheus then inhibit each other only within the same
    environment."""
    resend_every: Duration = timedelta(minutes=1)
    """How often a firing alert is sent again. If the interval of the comparison is longer,
    `run-once` uses this interval. If you start `run-once` less often than once in an interval, set
    this key to the time between two starts."""

    def _problems(self) -> Iterator[str]:
        if self.basic_auth is not None and self.bearer_token is not None:
            yield "give either basic_auth or bearer_token, not both"

    def names(self, kind: str) -> tuple[str, ...]:
        """One name for each peer, in the order of ``urls``."""
        base = self.name or kind
        if len(self.urls) == 1:
            return (base,)
        return tuple(f"{base}-{number}" for number in range(len(self.urls)))


def group_alerts(
    changes: Iterable[Transition], firing: Iterable[Transition]
) -> list[tuple[Transition, ...]]:
    """Group starts and ends into the alerts that Alertmanager shows.

    All segments of one rule in an incident are one alert of Alertmanager. Alerts without changes
    are left out. ``firing`` has all starts that are still firing in these incidents. Because of
    them an alert ends only when its last segment ends.
    """
    groups: dict[tuple[tuple[str, str], ...], dict[str | None, Transition]] = {}
    for change in changes:
        groups.setdefault(_identity(change), {})[change.dedup_key] = change
    for start in firing:
        identity = _identity(start)
        if identity in groups:
            groups[identity][start.dedup_key] = start
    return [tuple(group.values()) for group in groups.values()]


def _identity(transition: Transition) -> tuple[tuple[str, str], ...]:
    return tuple(_labels_of(transition).items())


def _labels_of(transition: Transition) -> dict[str, str]:
    labels = alert_labels(transition)
    if not transition.incident:
        return labels
    # An alert must keep its labels while it is firing, although its segments can change. So it has
    # no label with a segment.
    del labels["segment"]
    return {"incident": transition.incident, **labels}


def alert_of(
    members: Sequence[Transition],
    firing_ends_at: datetime,
    external_url: str,
    labels: Mapping[str, str] | None = None,
    briefing: Briefing | None = None,
    interval: timedelta | None = None,
) -> dict[str, object]:
    """Return one alert as JSON. ``members`` is a group of `group_alerts`.

    ``labels`` are added to the alert's labels. The alert starts with the earliest member.
    """
    firing = [member for member in members if member.is_start]
    shown = firing or members
    lead = max(find_leads(shown), key=attrgetter("users"))
    starts_at = min(map(started_at, shown))
    ends_at = max(firing_ends_at, starts_at)
    if not firing:
        ends_at = max(member.at for member in members)
    return {
        "labels": {**(labels or {}), **_labels_of(lead)},
        "annotations": _annotations(lead, briefing, interval, [member.segment for member in shown]),
        "startsAt": format_instant(starts_at),
        "endsAt": format_instant(ends_at),
        "generatorURL": page_url(lead, external_url),
    }


def _annotations(
    lead: Transition,
    briefing: Briefing | None,
    interval: timedelta | None,
    segments: Sequence[str],
) -> dict[str, str]:
    """The annotations. All together have at most 4,000 characters, and the segments at most 500."""
    annotations = alert_annotations(lead, briefing, interval)
    if len(annotations.get("runbook_url", "")) > _LONGEST_TEXT:
        del annotations["runbook_url"]
    if len(segments) > 1:
        summary = clean(annotations["summary"], _LONGEST_TEXT // 2)
        annotations["summary"] = f"{summary} (and {len(segments) - 1:,} more segments)"
        annotations["segments"] = ", ".join(segments)
    for name, annotation in annotations.items():
        lines = [clean(line, _LONGEST_TEXT) for line in annotation.splitlines()]
        annotations[name] = "\n".join(lines)
    return annotations


class Alertmanager(HttpReceiver):
    """One peer of Alertmanager."""

    def __init__(self, options: AlertmanagerOptions, name: str, *, external_url: str) -> None:
        url = options.urls[options.names("alertmanager").index(name)].rstrip("/") + ALERTS_PATH
        # Alertmanager itself groups, inhibits and repeats alerts. But it ends an alert that is not
        # sent again for some time.
        treatment = Treatment(
            resend_every_s=options.resend_every.total_seconds(), updates=Updates.EACH
        )
        super().__init__(url, name, options, external_url, treatment)
        self._options = options
        self.intervals: Mapping[str, timedelta] = {}
        """The expected time between two starts of `run-once`, by comparison. Empty in a daemon."""

    def send(self, message: Message, *, now: datetime) -> None:
        """Post starts and ends in batches. Acknowledgements are not posted.

        Raises DeliveryError if the peer did not accept a batch.
        """
        every = max(self._options.resend_every, self.intervals.get(message.comparison, timedelta()))
        ends_at = now + max(_RESENDS_AHEAD * every, _SHORTEST_END)
        # A message without changes is a repetition. Then all firing alerts are sent again.
        changes = [
            change for change in message.changes or message.firing if not change.is_acknowledgement
        ]
        groups = group_alerts(changes, message.firing)
        alerts = []
        for members in groups:
            alert = alert_of(
                members,
                ends_at,
                self.external_url,
                self._options.labels,
                message.briefing,
                message.interval,
            )
            alerts.append(alert)
        headers = _credentials(self._options)
        for start in range(0, len(alerts), _BATCH_ALERTS):
            self._post_bytes(encode_json(alerts[start : start + _BATCH_ALERTS]), headers, now)


def _credentials(options: AlertmanagerOptions) -> Mapping[str, str]:
    if options.basic_auth is not None:
        pair = f"{options.basic_auth.username}:{options.basic_auth.password.get_secret_value()}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if options.bearer_token is not None:
        return {"Authorization": f"Bearer {options.bearer_token.get_secret_value()}"}
    return {}
