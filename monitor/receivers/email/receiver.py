"""E-mail as a receiver: composes, hands over, and remembers who has a mail while others wait for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from monitor.errors import DeliveryError
from monitor.model import Message
from monitor.receivers.account import account_of
from monitor.receivers.email.composing import compose
from monitor.receivers.email.exchange import Mailbox, Refusal, trust
from monitor.receivers.email.options import EmailOptions
from monitor.receivers.keying import key_of
from monitor.receivers.remembering import Reached


class Email:
    """One mail server and those who are written to through it."""

    def __init__(self, options: EmailOptions, *, external_url: str) -> None:
        self._options, self._external_url = options, external_url
        (self._name,) = options.receiver_names
        who = f"{self._name} at {options.host}:{options.port_in_use}"
        self._mailbox = Mailbox(options=options, context=trust(options.ca_file), who=who)
        self._reached = Reached()

    @property
    def name(self) -> str:
        """Name from configuration."""
        return self._name

    @property
    def resend_every_s(self) -> float | None:
        """Telling once is enough."""
        return None

    @property
    def repeat_every_s(self) -> float | None:
        """As configured."""
        return None if self._options.repeat_every is None else self._options.repeat_every.total_seconds()

    @property
    def is_ungrouped(self) -> bool:
        """It is told of incidents."""
        return False

    def send(self, message: Message, *, now: datetime) -> None:
        """Mail a message to whoever does not have it yet. DeliveryError when somebody was refused, permanent when for good."""
        key, options = key_of(message, now), self._options
        account = account_of(message, self._external_url)
        mail = compose(message, account, sender=options.sender, to=options.to, key=key, now=now)
        waiting = self._reached.without(key, options.to)
        try:
            refused = self._mailbox.post(mail.as_bytes(), waiting)
        except DeliveryError as error:
            error.may_be_known |= len(waiting) < len(options.to)
            raise
        self._reached.add(key, [address for address in waiting if address not in refused])
        if refused:
            raise self._told_partly(refused)

    def close(self) -> None:
        """There is nothing to close: each mail has a connection of its own."""

    def _told_partly(self, refused: Mapping[str, Refusal]) -> DeliveryError:
        """Some have the mail. As long as one refusal may pass, it is tried again, for these alone."""
        is_permanent = all(refusal.is_permanent for refusal in refused.values())
        named = ", ".join(f"{address} with {refusal}" for address, refusal in refused.items())
        advice = "check these addresses" if is_permanent else "it will be tried again for these"
        who, others = self._mailbox.who, len(self._options.to) - len(refused)
        msg = f"{who} refused {named}: {advice}; {others} of {len(self._options.to)} recipients have the mail"
        return DeliveryError(msg, permanent=is_permanent, may_be_known=True)
