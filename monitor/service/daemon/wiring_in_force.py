"""The wiring that the daemon uses now, which a reload replaces."""

from monitor.alerts.notification_policy import NotificationPolicy
from monitor.model.notifications import Message
from monitor.model.rules import Comparison
from monitor.receivers.message.content import content_of
from monitor.receivers.message.plain_text import plain_text
from monitor.service.composition import Wiring
from monitor.service.daemon.outage import DATABASE_AWAY
from monitor.settings.configuration import Settings


class WiringInForce:
    """The wiring in force. Parts of the daemon call its methods at each use.

    `Daemon.reload` replaces ``wiring``. Threads may share the object.
    """

    def __init__(self, wiring: Wiring) -> None:
        self.wiring = wiring

    def current(self) -> Wiring:
        """Return the wiring."""
        return self.wiring

    def settings(self) -> Settings:
        """Return the settings."""
        return self.wiring.settings

    def policy(self) -> NotificationPolicy:
        """Return the notification policy."""
        return self.wiring.policy

    def comparisons(self) -> dict[str, Comparison]:
        """Return all comparisons by name."""
        return {name: watched.comparison for name, watched in self.wiring.watched.items()}

    def receiver_names(self) -> tuple[str, ...]:
        """Return the names of all receivers."""
        return self.wiring.receiver_names

    def concurrent_runs(self) -> int:
        """Return how many runs may work at the same time."""
        return self.wiring.settings.concurrent_runs

    def installation(self) -> str | None:
        """Return the configured name of the installation."""
        return self.wiring.settings.installation

    def outage_runbook_url(self) -> str | None:
        """Return the address of the runbook about an outage of the database."""
        return self.wiring.settings.runbook_url(DATABASE_AWAY)

    def renew_sources(self, comparison: str) -> None:
        """Open the sources of a comparison again, because its run hangs."""
        self.wiring.renew_sources(comparison)

    def find_user(self, user_id: str) -> str:
        """Return the stored id of a user."""
        return self.wiring.find_user(user_id)

    def message_text(self, message: Message) -> str:
        """Return the message as plain text."""
        return plain_text(content_of(message, self.wiring.settings.external_url))

    def close(self, timeout_s: float) -> None:
        """Send pending pings for at most ``timeout_s`` seconds."""
        self.wiring.close(timeout_s)
