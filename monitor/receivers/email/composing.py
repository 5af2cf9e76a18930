"""One message as a mail: headers that make an incident one thread, plain text, and the same as HTML.

The subject is the same for all mails of an incident but for the status in square brackets, which mail clients that thread by
subject leave out of it. All of them refer to one Message-ID that no mail has, so a thread holds together whichever of them
arrive. Headers hold no line break: names are cleaned before, and the policy of the standard library refuses any other.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP

from monitor.model import Message, MessageStatus, Severity
from monitor.receivers.account import Account
from monitor.receivers.email.page import page_of
from monitor.receivers.plain import STATUS_WORDS, text_of
from monitor.receivers.wording import clean

_LONGEST_NAME = 80


def compose(message: Message, account: Account, *, sender: str, to: tuple[str, ...], key: str, now: datetime) -> EmailMessage:
    """The mail; the same ``key`` makes the same Message-ID."""
    mail = EmailMessage(policy=SMTP)
    domain = sender.rpartition("@")[2]
    thread = f"<{_digest(message.incident)}@{domain}>"
    mail["From"] = f"rankwatch <{sender}>"
    mail["To"] = ", ".join(to)
    mail["Subject"] = subject_of(message)
    mail["Date"] = now
    mail["Message-ID"] = f"<{_digest(key)}.rankwatch@{domain}>"
    mail["In-Reply-To"] = mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"
    if message.severity is Severity.CRITICAL and message.status is MessageStatus.FIRING:
        mail["Importance"] = "high"
    mail.set_content(text_of(account), cte="quoted-printable")
    mail.add_alternative(page_of(account), subtype="html", cte="quoted-printable")
    return mail


def subject_of(message: Message) -> str:
    """Status, severity, comparison, and what tells this incident from others."""
    name = clean(message.comparison, _LONGEST_NAME)
    return f"[{STATUS_WORDS[message.status]}] {message.severity}: {name} (rankwatch incident {_digest(message.incident)[:8]})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
