"""The receiver: post a message to the webhook, and understand why Slack did not take it."""

from __future__ import annotations

import json
from datetime import datetime

from monitor.errors import DeliveryError
from monitor.model import Message
from monitor.receivers.account import account_of
from monitor.receivers.answers import accept, name_of
from monitor.receivers.guarded import Answer, Guard
from monitor.receivers.slack.blocks import body_of
from monitor.receivers.slack.options import SlackOptions
from monitor.receivers.slack.pace import Pace

_SAID = {
    "action_prohibited": "the workspace does not allow the webhook to post there",
    "channel_is_archived": "the channel is archived",
    "channel_not_found": "the channel is gone",
    "invalid_blocks": "it does not understand the blocks",
    "invalid_payload": "it does not understand the message",
    "invalid_token": "the webhook's URL is not valid any more",
    "no_active_hooks": "the webhook is turned off",
    "no_service": "the webhook is turned off or was removed",
    "no_service_id": "the webhook's URL is incomplete",
    "no_team": "the workspace is gone, or the webhook's URL is incomplete",
    "no_text": "it finds no text in the message",
    "posting_to_general_channel_denied": "only some may post to the general channel",
    "rate_limited": "too many messages",
    "rollup_error": "something failed within Slack",
    "team_disabled": "the workspace is disabled",
    "too_many_attachments": "the message holds too many attachments",
    "user_not_found": "the user is gone",
}
"""Bodies of its answers: the only ones that are shown, since another could echo anything."""


class Slack:
    """One incoming webhook."""

    def __init__(self, options: SlackOptions, *, external_url: str, pace: Pace | None = None) -> None:
        self._options, self._external_url, self._pace = options, external_url, pace or Pace()
        (self._name,) = options.receiver_names
        url, timeout_s = options.url.get_secret_value(), options.timeout.total_seconds()
        self._guard = Guard(url, who=self._name, timeout_s=timeout_s, ca_file=options.ca_file)

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
        """From configuration."""
        return None if self._options.repeat_every is None else self._options.repeat_every.total_seconds()

    @property
    def is_ungrouped(self) -> bool:
        """It is told incidents."""
        return False

    def send(self, message: Message, *, now: datetime) -> None:
        """Post one message, a second after the last one at the earliest. DeliveryError when Slack did not take it."""
        body = json.dumps(body_of(account_of(message, self._external_url)), ensure_ascii=False).encode()
        self._pace.wait()
        answer = self._guard.post(body, {"Content-Type": "application/json; charset=utf-8"})
        code = (answer.body or b"").decode("ascii", "replace").strip()
        said = f"{code}: {_SAID[code]}" if code in _SAID else None
        accept(answer, who=self._guard.who, now=now, said=said, is_bounded=True)
        _require_ok(answer, self._guard.who)

    def close(self) -> None:
        """Close the connections."""
        self._guard.close()


def _require_ok(answer: Answer, who: str) -> None:
    """A webhook that takes a message says ``ok``; whoever says something else is none, and would be told in vain for ever."""
    if answer.body is None or answer.body.strip() == b"ok":
        return
    msg = f"{who} answered {name_of(answer)} but not ok, as Slack does: check its URL"
    raise DeliveryError(msg, permanent=True, may_be_known=True)
