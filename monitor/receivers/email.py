"""E-mail over SMTP: a mail for each message, one thread for each incident."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from html import escape

from monitor.errors import DeliveryError
from monitor.model import Message, MessageStatus, Severity
from monitor.receivers.message import ChangeContent, MessageContent, SideBySide, content_of
from monitor.receivers.message.idempotency import DeliveredRecipients, idempotency_key
from monitor.receivers.message.plain_text import STATUS_WORDS, plain_text
from monitor.receivers.message.safe_text import clean
from monitor.receivers.smtp import EmailOptions, Refusal, SmtpClient, trust_context

_COLOURS = {MessageStatus.FIRING: "#b00020", MessageStatus.ACKNOWLEDGED: "#8a6d00", MessageStatus.RESOLVED: "#1b6e20"}
_CELL = 'style="padding:1px 12px 1px 0;text-align:left;vertical-align:top"'
_HEAD = '<!doctype html>\n<html><head><meta charset="utf-8"></head>\n<body style="font-family:sans-serif">\n'
_WEB = ("http://", "https://")


def mail_page(account: MessageContent) -> str:
    """The page."""
    body = "\n".join(
        part
        for part in (
            f'<h2 style="color:{_COLOURS[account.status]}">{escape(account.title)}</h2>',
            _list("Why", map(escape, account.why)),
            *map(_html_change, account.changes[:1]),
            *(f"<p>{escape(f'{change.heading}: {change.reason}')}</p>" for change in account.changes[1:]),
            *(f"<p>{escape(line)}</p>" for line in account.more),
            _titled("What the drop is made of", _table(account.shares)),
            _list("Items that gained most", map(escape, account.entered)),
            _list("Items that lost most", map(escape, account.left)),
            *map(_example, account.examples),
            _list("Links", (_link(name, url) for name, url in account.links)),
            _list("Commands", (f"<code>{escape(command)}</code>" for command in account.commands)),
        )
        if part
    )
    return f"{_HEAD}{body}\n</body></html>\n"


def _html_change(change: ChangeContent) -> str:
    return f"<h3>{escape(change.heading)}</h3>\n<p>{escape(change.reason)}</p>\n{_table(change.facts)}"


def _list(title: str, items: Iterable[str]) -> str:
    return _titled(title, "".join(f"<li>{item}</li>\n" for item in items), "ul")


def _titled(title: str, content: str, tag: str = "div") -> str:
    return f"<h4>{escape(title)}</h4>\n<{tag}>{content}</{tag}>" if content else ""


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    cells = ("".join(f"<td {_CELL}>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return f"<table>\n{body}\n</table>" if body else ""


def _example(example: SideBySide) -> str:
    return _titled(f"Lists of {example.user}", _table((("", "baseline", "candidate"), *example.rows)))


def _link(name: str, url: str) -> str:
    """A link, where the address is one of the web; else its text."""
    if not url.startswith(_WEB):
        return f"{escape(name)}: {escape(url)}"
    return f'<a href="{escape(url)}">{escape(name)}</a>'


_LONGEST_NAME = 80


def compose_mail(
    message: Message, account: MessageContent, *, sender: str, to: tuple[str, ...], key: str, now: datetime
) -> EmailMessage:
    """The mail; the same ``key`` makes the same Message-ID."""
    mail = EmailMessage(policy=SMTP)
    domain = sender.rpartition("@")[2]
    thread = f"<{_digest(message.incident)}@{domain}>"
    mail["From"] = f"rankwatch <{sender}>"
    mail["To"] = ", ".join(to)
    mail["Subject"] = mail_subject(message)
    mail["Date"] = now
    mail["Message-ID"] = f"<{_digest(key)}.rankwatch@{domain}>"
    mail["In-Reply-To"] = mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"
    if message.severity is Severity.CRITICAL and message.status is MessageStatus.FIRING:
        mail["Importance"] = "high"
    mail.set_content(plain_text(account), cte="quoted-printable")
    mail.add_alternative(mail_page(account), subtype="html", cte="quoted-printable")
    return mail


def mail_subject(message: Message) -> str:
    """Status, severity, comparison, and what tells this incident from others."""
    name = clean(message.comparison, _LONGEST_NAME)
    return f"[{STATUS_WORDS[message.status]}] {message.severity}: {name} (rankwatch incident {_digest(message.incident)[:8]})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


class Email:
    """One mail server and those who are written to through it."""

    def __init__(self, options: EmailOptions, *, external_url: str) -> None:
        self._options, self._external_url = options, external_url
        (self._name,) = options.receiver_names
        who = f"{self._name} at {options.host}:{options.port_in_use}"
        self._mailbox = SmtpClient(options=options, context=trust_context(options.ca_file), who=who)
        self._reached = DeliveredRecipients()

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
        key, options = idempotency_key(message, now), self._options
        account = content_of(message, self._external_url)
        mail = compose_mail(message, account, sender=options.sender, to=options.to, key=key, now=now)
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
