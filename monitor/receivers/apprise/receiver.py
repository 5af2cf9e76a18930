"""Services behind Apprise as one receiver."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import datetime

from monitor.errors import DeliveryError
from monitor.model import Message, MessageStatus
from monitor.receivers.account import account_of
from monitor.receivers.apprise import services
from monitor.receivers.apprise.options import AppriseOptions
from monitor.receivers.keying import key_of
from monitor.receivers.plain import text_of
from monitor.receivers.remembering import Reached

_SUCCESS = "success"
_REFUSED_UNHEARD = frozenset({"nomatch"})


class AppriseReceiver:
    """All URLs of one entry."""

    def __init__(self, options: AppriseOptions, *, external_url: str) -> None:
        self._options, self._external_url = options, external_url
        (self._name,) = options.receiver_names
        self._services = {name: services.open_service(name, url.get_secret_value()) for name, url in options.urls.items()}
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
        """Tell a message to whoever does not have it yet. DeliveryError when one of them did not take it."""
        key, names = key_of(message, now), tuple(self._services)
        waiting = self._reached.without(key, names)
        outcomes = self._tell(message, waiting)
        self._reached.add(key, [name for name, outcome in outcomes.items() if outcome == _SUCCESS])
        failed = {name: outcome for name, outcome in outcomes.items() if outcome != _SUCCESS}
        if failed:
            said = ", ".join(f"{name} ended with {outcome}" for name, outcome in failed.items())
            taken = len(names) - len(failed)
            may_be_known = taken > 0 or not _REFUSED_UNHEARD.issuperset(failed.values())
            msg = f"{self._name}: {said}; {taken} of {len(names)} services have the message, and it will be tried again"
            raise DeliveryError(msg, permanent=False, may_be_known=may_be_known)

    def close(self) -> None:
        """There is nothing to close."""

    def _tell(self, message: Message, waiting: Sequence[str]) -> dict[str, str]:
        """What came of it, one after the other until the time is over."""
        account = account_of(message, self._external_url)
        title, body = defuse(account.title), defuse(text_of(account, has_title=False))
        ends_at = time.monotonic() + self._options.timeout.total_seconds()
        outcomes = {}
        for name in waiting:
            left_s = ends_at - time.monotonic()
            is_bad = message.status is not MessageStatus.RESOLVED
            outcomes[name] = "timeout" if left_s <= 0 else services.notify(
                self._services[name], title=title, body=body, is_bad=is_bad, timeout_s=left_s
            )  # fmt: skip
        return outcomes


def defuse(text: str) -> str:
    """Text in which no chat service finds a mention or a link of its own: a blank of no width follows each @ and each <."""
    return re.sub(r"[@<](?=\S)", "\\g<0>\u200b", text)
