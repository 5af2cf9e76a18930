"""Sends e-mail over SMTP. Each message is one mail. All mails of an incident are one thread.

`docs/reference/receivers.md` describes which addresses get a mail a second time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from email.message import EmailMessage
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, SecretStr

from monitor.alerts.leading_changes import weight_of
from monitor.boundary.options import must
from monitor.model.errors import DeliveryError
from monitor.model.notifications import Message, MessageStatus, message_key
from monitor.model.rules import Severity
from monitor.receivers.message.content import (
    MessageContent,
    content_of,
    has_rules,
)
from monitor.receivers.message.identity import DeliveredRecipients
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.message.safe_text import cause_of, clean
from monitor.receivers.receiver_options import (
    BaseReceiver,
    CaFile,
    ReceiverEntry,
    RepeatEvery,
    Timeout,
    repeating_treatment,
)

if TYPE_CHECKING:
    import jinja2

    from monitor.receivers.smtp import SmtpRefusal

_LONGEST_NAME = 80
LEGEND = (
    "The candidate is the recommender on trial. The baseline is the recommender that it is "
    "compared with. The users are those that rankwatch asks for, not your traffic."
)
_COLOURS = {
    MessageStatus.FIRING: "#b00020",
    MessageStatus.ACKNOWLEDGED: "#8a6d00",
    MessageStatus.RESOLVED: "#1b6e20",
}
PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = rf"^[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*$"
_HOST_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$"

MailAddress = Annotated[str, Field(pattern=_ADDRESS, max_length=254)]


def _are_unique(addresses: Sequence[str]) -> bool:
    return len({address.lower() for address in addresses}) == len(addresses)


def _is_printable(password: str) -> bool:
    return password != "" and password.isascii() and password.isprintable()


_are_once = must(_are_unique, "list no address twice")
_is_plain = must(_is_printable, "must be printable ASCII text on one line")


class EmailOptions(ReceiverEntry):
    """Send an email over SMTP."""

    host: str = Field(pattern=_HOST_PATTERN, examples=["smtp.example.com"])
    """The host name of the mail server, without a port."""
    port: int | None = Field(None, ge=1, le=65535)
    """The port of the mail server (default: 587; with `tls: implicit` 465; with `tls: none` 25)."""
    tls: Literal["starttls", "implicit", "none"] = "starttls"
    """`starttls` begins TLS with the command STARTTLS, and sends nothing if the server does not
    offer STARTTLS. `implicit` uses TLS from the first byte. With `none`, emails are sent without
    encryption."""
    username: str | None = Field(None, pattern=r"^[ -~]+$")
    """The user name for the login. This key requires `password` and TLS."""
    password: Annotated[SecretStr, _is_plain] | None = None
    """The password for the login."""
    sender: MailAddress = Field(examples=["rankwatch@example.com"])
    """The email address of the sender."""
    to: Annotated[tuple[MailAddress, ...], _are_once] = Field(
        min_length=1, max_length=50, json_schema_extra={"uniqueItems": True}
    )
    """The email addresses of the recipients."""
    ca_file: CaFile = None
    timeout: Timeout = timedelta(seconds=20)
    """How long it may take to send one email, from connecting to the server until the server
    accepts the email.
    """
    repeat_every: RepeatEvery = timedelta(hours=24)

    def _problems(self) -> Iterator[str]:
        if (self.username is None) != (self.password is None):
            yield "give both username and password, or neither of them"
        if self.password is not None and self.tls == "none":
            yield (
                "rankwatch sends no password without TLS: remove username and password, or remove "
                "tls: none"
            )

    @property
    def port_in_use(self) -> int:
        """The configured port, or the usual port for this kind of TLS."""
        return self.port or PORTS[self.tls]


class Email(BaseReceiver):
    """One mail server, and the addresses of its recipients."""

    def __init__(self, options: EmailOptions, name: str, *, external_url: str) -> None:
        from monitor.receivers.smtp import SmtpClient, trust_context  # noqa: PLC0415 - slow to import

        treatment = repeating_treatment(options.repeat_every, shows_pictures=True)
        super().__init__(name, options, external_url, treatment)
        self._options = options
        login = None
        if options.username is not None and options.password is not None:
            login = (options.username, options.password.get_secret_value())
        self._client = SmtpClient(
            host=options.host,
            port=options.port_in_use,
            tls=options.tls,
            context=trust_context(options.ca_file),
            login=login,
            who=f"{name} at {options.host}:{options.port_in_use}",
            timeout_s=self.timeout_s,
        )
        self._delivered = DeliveredRecipients()

    def send(self, message: Message, *, now: datetime) -> None:
        """Mail a message to the addresses that do not have it yet.

        Raises DeliveryError if an address was refused.
        """
        key = message_key(message, now)
        options = self._options
        content = content_of(message, self.external_url)
        mail = _compose_mail(message, content, options, key, now)
        waiting = self._delivered.without(key, options.to)
        try:
            refused = self._client.send(mail.as_bytes(), sender=options.sender, to=waiting)
        except DeliveryError as error:
            # Earlier attempts have delivered the message to the other addresses.
            error.may_be_known |= len(waiting) < len(options.to)
            raise
        self._delivered.add(key, [address for address in waiting if address not in refused])
        if refused:
            raise self._refused_by_some(refused)

    def _refused_by_some(self, refused: Mapping[str, SmtpRefusal]) -> DeliveryError:
        # All other addresses have got the mail. If a refusal is temporary, the refused addresses
        # are tried again.
        is_permanent = all(refusal.is_permanent for refusal in refused.values())
        named = ", ".join(f"{address} with {refusal}" for address, refusal in refused.items())
        advice = "rankwatch will try these addresses again"
        if is_permanent:
            advice = "check these addresses"
        recipients = len(self._options.to)
        return DeliveryError(
            f"{self._client.who} refused {named}: {advice}; {recipients - len(refused)} of "
            f"{recipients} recipients have the mail",
            permanent=is_permanent,
            may_be_known=True,
        )


def _compose_mail(
    message: Message, content: MessageContent, options: EmailOptions, key: str, now: datetime
) -> EmailMessage:
    """Return the mail for a message. The same ``key`` always gives the same Message-ID."""
    from email.policy import SMTP  # noqa: PLC0415 - slow to import

    mail = EmailMessage(policy=SMTP)
    domain = options.sender.rpartition("@")[2]
    thread = f"<{_digest(message.incident)}@{domain}>"
    mail["From"] = f"rankwatch <{options.sender}>"
    mail["To"] = ", ".join(options.to)
    mail["Subject"] = mail_subject(message, content)
    mail["Date"] = now
    mail["Message-ID"] = f"<{_digest(key)}.rankwatch@{domain}>"
    mail["In-Reply-To"] = mail["References"] = thread
    mail["Auto-Submitted"] = "auto-generated"
    is_critical = message.severity is Severity.CRITICAL or content.is_urgent
    if is_critical and message.status is MessageStatus.FIRING:
        mail["Importance"] = "high"
    mail.set_content(f"{plain_text(content)}\n{LEGEND}\n", cte="quoted-printable")
    cid = None if message.picture is None else f"{_digest(key)}.chart@{domain}"
    mail.add_alternative(mail_page(content, cid), subtype="html", cte="quoted-printable")
    if message.picture is not None:
        _, page = mail.iter_parts()
        page.add_related(
            message.picture,
            "image",
            "png",
            cid=f"<{cid}>",
            filename="chart.png",
            disposition="inline",
        )
    return mail


def mail_subject(message: Message, content: MessageContent) -> str:
    """Return the subject of a mail: status and severity in brackets, and then a constant part.

    An urgent message has the word ``urgent`` in place of its severity.
    Mail programs group mails by the constant part. It names the comparison, the cause of the
    incident's first alert, and the incident. If the incident became worse, the cause is the new
    one, because the first one has too low figures.
    """
    status = message.status.upper()
    first, *_ = message.first or message.firing or message.changes
    if message.worse:
        status = "WORSE"
        first = min(message.changes, key=weight_of)
    elif not has_rules(message):
        status = "NO LONGER WATCHED"
    name = clean(message.comparison, _LONGEST_NAME)
    mark = _digest(message.incident)[:8]
    severity = "urgent" if content.is_urgent else message.severity
    return f"[{status}] [{severity}] {name}: {cause_of(first)} (incident {mark})"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]


def mail_page(content: MessageContent, cid: str | None = None) -> str:
    """The content as HTML, with all texts escaped. The mail program does not need to load anything.

    ``cid`` is the id of the attached picture, or None without a picture.
    """
    return _template().render(
        content=content,
        colour=_COLOURS[content.status],
        cid=cid,
        legend=LEGEND,
    )


@cache
def _template() -> jinja2.Template:
    import jinja2  # noqa: PLC0415 - slow to import, and only the first mail needs it

    loader = jinja2.PackageLoader("monitor.receivers")
    environment = jinja2.Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("mail.html")
