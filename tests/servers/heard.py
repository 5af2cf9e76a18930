"""What receivers heard, as a person reads it."""

import json
import re
from email import message_from_bytes
from email.policy import default
from functools import cache
from typing import NamedTuple

from servers.pagerduty import KEY

_END = re.compile(r"✅|resolved?:|\[RESOLVED")


class Heard(NamedTuple):
    """What a receiver heard.

    ``headline`` begins with its status or severity; ``page`` is PagerDuty's key.
    """

    receiver: str
    headline: str
    text: str
    page: str = ""

    @property
    def is_end(self):
        return _END.match(self.headline) is not None


@cache
def read_mail(content):
    mail = message_from_bytes(content, policy=default)
    body = mail.get_body(("plain",))
    assert body is not None
    return Heard("mail", mail["Subject"], f"{mail['Subject']}\n{body.get_content()}")


@cache
def read_body(body):
    """The body of a request: PagerDuty's has the service's key, which is no secret there."""
    text, message = body.decode(), json.loads(body)
    if "text" in message:
        return Heard("slack", message["text"], text)
    if "payload" in message:
        about, action = message["payload"], message["event_action"]
        headline = f"{action}: {about['severity']}: {about['group']}: {about['summary']}"
        return Heard("pagerduty", headline, text.replace(KEY, ""), message["dedup_key"])
    labels, first = message["groupLabels"], message["alerts"][0]["annotations"]
    headline = (
        f"{message['status']}: {labels['severity']}: {labels['comparison']}: {first.get('summary')}"
    )
    return Heard("webhook", headline, text)
