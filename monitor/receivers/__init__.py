"""Receivers of notifications: one module for each vendor, its options beside its code, and its line in `RECEIVERS`.

Installed packages bring others.
"""

from collections.abc import Sequence

from monitor.options import OneOf, with_kinds
from monitor.plugins import Registry
from monitor.ports import Receiver
from monitor.receivers.alertmanager import Alertmanager, AlertmanagerOptions
from monitor.receivers.apprise import AppriseOptions, AppriseReceiver
from monitor.receivers.email import Email, EmailOptions
from monitor.receivers.fields import ReceiverEntry, ReceiverKind, read_kind
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.pings import PingOptions, RunPings
from monitor.receivers.slack import Slack, SlackOptions
from monitor.receivers.webhook import Webhook, WebhookOptions, verify

# Every kind of receiver, by the key that stands for it in the configuration: its options, and what they open.
RECEIVERS = Registry(
    "receivers",
    {
        "alertmanager": ReceiverKind(AlertmanagerOptions, Alertmanager),
        "pagerduty": ReceiverKind(PagerDutyOptions, PagerDuty),
        "slack": ReceiverKind(SlackOptions, Slack),
        "email": ReceiverKind(EmailOptions, Email),
        "apprise": ReceiverKind(AppriseOptions, AppriseReceiver),
        "webhook": ReceiverKind(WebhookOptions, Webhook),
    },
    read_kind,
)


@with_kinds(RECEIVERS, lambda kinds: {name: (kind.options, None) for name, kind in kinds.items()})
class ReceiverOptions(OneOf):
    """One entry of ``receivers``."""

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Names of the receivers that this entry opens."""
        given: ReceiverEntry = self.given
        return given.names(self.kind)


def open_receivers(options: Sequence[ReceiverOptions], *, external_url: str) -> tuple[Receiver, ...]:
    """Open every receiver, one for each Alertmanager peer, in the order of the configuration. Nothing is sent yet.

    ``external_url`` is where this daemon's own pages are reached; messages link there.
    """
    return tuple(
        RECEIVERS[entry.kind][1](entry.given, name, external_url=external_url)
        for entry in options
        for name in entry.receiver_names
    )
