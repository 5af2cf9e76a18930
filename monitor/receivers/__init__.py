"""Receivers of notifications. Each vendor has one module with its options and its code."""

from collections.abc import Mapping, Sequence

from monitor.boundary.options.one_of import OneOf, with_kinds
from monitor.boundary.plugins import Registry
from monitor.model.ports import Receiver
from monitor.receivers.alertmanager import Alertmanager, AlertmanagerOptions
from monitor.receivers.apprise import AppriseOptions, AppriseReceiver
from monitor.receivers.email import Email, EmailOptions
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.receiver_options import ReceiverEntry, ReceiverKind, read_receiver_kind
from monitor.receivers.slack import Slack, SlackOptions
from monitor.receivers.webhook import Webhook, WebhookOptions, verify_signature as verify_signature

# The built-in kinds of receivers by their key in the configuration, each with its options and its
# class.
BUILT_IN: Mapping[str, ReceiverKind] = {
    "alertmanager": (AlertmanagerOptions, Alertmanager),
    "pagerduty": (PagerDutyOptions, PagerDuty),
    "slack": (SlackOptions, Slack),
    "email": (EmailOptions, Email),
    "apprise": (AppriseOptions, AppriseReceiver),
    "webhook": (WebhookOptions, Webhook),
}
RECEIVERS = Registry("receivers", BUILT_IN, read_receiver_kind)


def _options_by_kind(
    kinds: Mapping[str, ReceiverKind],
) -> dict[str, tuple[type[ReceiverEntry], None]]:
    return {name: (options, None) for name, (options, _) in kinds.items()}


@with_kinds(RECEIVERS, _options_by_kind)
class ReceiverOptions(OneOf):
    """One entry of ``receivers``."""

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """The names of the receivers that this entry opens."""
        entry: ReceiverEntry = self.kind_options
        return entry.names(self.kind)


def open_receivers(
    options: Sequence[ReceiverOptions], *, external_url: str
) -> tuple[Receiver, ...]:
    """Open the receivers, in the order of the configuration.

    Each peer of Alertmanager is one receiver. Messages contain links to pages at ``external_url``.
    """
    receivers = []
    for entry in options:
        _, open_receiver = RECEIVERS[entry.kind]
        for name in entry.receiver_names:
            receivers.append(open_receiver(entry.kind_options, name, external_url=external_url))
    return tuple(receivers)
