"""Receivers of notifications: one module for each vendor, its options beside its code.

`ReceiverOptions` is the registry. A new receiver is a module with a `ReceiverEntry` and its line there, and one in the table of
what is opened; names follow from the entry, treatment from the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from monitor.options import OneOf
from monitor.ports import Receiver
from monitor.receivers.alertmanager import Alertmanager, AlertmanagerOptions
from monitor.receivers.apprise import AppriseOptions, AppriseReceiver
from monitor.receivers.email import Email, EmailOptions
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.pings import PingOptions, RunPings
from monitor.receivers.slack import Slack, SlackOptions
from monitor.receivers.webhook import Webhook, WebhookOptions, verify


class ReceiverOptions(OneOf):
    """One entry of ``receivers``."""

    alertmanager: AlertmanagerOptions | None = None
    pagerduty: PagerDutyOptions | None = None
    slack: SlackOptions | None = None
    email: EmailOptions | None = None
    apprise: AppriseOptions | None = None
    webhook: WebhookOptions | None = None

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Names of the receivers that this entry opens."""
        names: tuple[str, ...] = self.given.receiver_names
        return names


def open_receivers(options: Sequence[ReceiverOptions], *, external_url: str) -> tuple[Receiver, ...]:
    """Open every receiver, one for each Alertmanager peer, in the order of the configuration. Nothing is sent yet.

    ``external_url`` is where this daemon's own pages are reached; messages link there.
    """
    return tuple(
        _OPENED[entry.kind](entry.given, name, external_url=external_url) for entry in options for name in entry.receiver_names
    )


_OPENED: Mapping[str, Callable[..., Receiver]] = {
    "alertmanager": Alertmanager,
    "pagerduty": PagerDuty,
    "slack": Slack,
    "email": Email,
    "apprise": AppriseReceiver,
    "webhook": Webhook,
}


def open_pings(
    options: Sequence[PingOptions], *, on_outcome: Callable[[str, str], None] = lambda *_: None
) -> tuple[RunPings, ...]:
    """One dead-man ping for each entry. Nothing is sent yet. ``on_outcome`` gets the outcome of each, see `RunPings`."""
    return tuple(RunPings(entry, on_outcome=on_outcome) for entry in options)
