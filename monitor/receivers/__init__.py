"""Who is told: one module a vendor, its options beside its code. A new one is a module and a line in `ReceiverOptions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from monitor.errors import ConfigError
from monitor.options import OneOf
from monitor.ports import Receiver, RunWatcher
from monitor.receivers.alertmanager import AlertmanagerOptions, open_alertmanager
from monitor.receivers.apprise import AppriseOptions, AppriseReceiver
from monitor.receivers.email import Email
from monitor.receivers.pagerduty import PagerDuty, PagerDutyOptions
from monitor.receivers.pings import PingOptions, RunPings
from monitor.receivers.slack import Slack, SlackOptions
from monitor.receivers.smtp import EmailOptions
from monitor.receivers.webhook import Webhook, WebhookOptions, verify

__all__ = [
    "AlertmanagerOptions",
    "AppriseOptions",
    "EmailOptions",
    "PagerDutyOptions",
    "PingOptions",
    "ReceiverOptions",
    "SlackOptions",
    "WebhookOptions",
    "open_pings",
    "open_receivers",
    "receiver_names",
    "verify",
]


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
        kinds = (self.alertmanager, self.pagerduty, self.slack, self.email, self.apprise, self.webhook)
        return next(given.receiver_names for given in kinds if given is not None)


def receiver_names(options: Sequence[ReceiverOptions]) -> tuple[str, ...]:
    """Names of all receivers, in order. ConfigError when two share one; one line for each such name."""
    names = [name for entry in options for name in entry.receiver_names]
    if shared := sorted(name for name, count in Counter(names).items() if count > 1):
        raise ConfigError("\n".join(f"two receivers are called {name}: give one of them another name" for name in shared))
    return tuple(names)


def open_receivers(options: Sequence[ReceiverOptions], *, external_url: str) -> tuple[Receiver, ...]:
    """Open every receiver, one for each Alertmanager peer, in the order of the configuration. Nothing is sent yet.

    ``external_url`` is where this daemon's own pages are reached; messages link there. ConfigError when two share a name.
    """
    receiver_names(options)
    opened: list[Receiver] = []
    for entry in options:
        if entry.alertmanager is not None:
            opened.extend(open_alertmanager(entry.alertmanager, external_url=external_url))
        if entry.pagerduty is not None:
            opened.append(PagerDuty(entry.pagerduty, external_url=external_url))
        if entry.slack is not None:
            opened.append(Slack(entry.slack, external_url=external_url))
        if entry.email is not None:
            opened.append(Email(entry.email, external_url=external_url))
        if entry.apprise is not None:
            opened.append(AppriseReceiver(entry.apprise, external_url=external_url))
        if entry.webhook is not None:
            opened.append(Webhook(entry.webhook, external_url=external_url))
    return tuple(opened)


def open_pings(
    options: Sequence[PingOptions], *, on_outcome: Callable[[str, str], None] | None = None
) -> tuple[RunWatcher, ...]:
    """One dead-man ping an entry. Nothing is sent yet. ``on_outcome`` hears what becomes of each, see `RunPings`."""
    return tuple(RunPings(entry, on_outcome=on_outcome) if on_outcome else RunPings(entry) for entry in options)
