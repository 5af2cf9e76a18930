"""Receivers of notifications: one module for each vendor, its options beside its code, and its line in `RECEIVERS`."""

from collections.abc import Mapping, Sequence

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

# Every kind of receiver, by the key that stands for it in the configuration: its options, and what
# they open.
BUILT_IN: Mapping[str, ReceiverKind] = {
    "alertmanager": (AlertmanagerOptions, Alertmanager),
    "pagerduty": (PagerDutyOptions, PagerDuty),
    "slack": (SlackOptions, Slack),
    "email": (EmailOptions, Email),
    "apprise": (AppriseOptions, AppriseReceiver),
    "webhook": (WebhookOptions, Webhook),
}
RECEIVERS = Registry("receivers", BUILT_IN, read_kind)


@with_kinds(
    RECEIVERS, lambda kinds: {name: (options, None) for name, (options, _) in kinds.items()}
)
class ReceiverOptions(OneOf):
    """One entry of ``receivers``."""

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Names of the receivers that this entry opens."""
        given: ReceiverEntry = self.given
        return given.names(self.kind)


def open_receivers(
    options: Sequence[ReceiverOptions], *, external_url: str
) -> tuple[Receiver, ...]:
    """Receivers in the configuration's order, one for each Alertmanager peer.

    Messages link to pages at ``external_url``.
    """
    return tuple(
        RECEIVERS[entry.kind][1](entry.given, name, external_url=external_url)
        for entry in options
        for name in entry.receiver_names
    )
