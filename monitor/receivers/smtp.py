"""Sends a mail by SMTP before one deadline, and interprets the codes of the server.

A code 5xx is a permanent failure, but not if the server sends it before the login and MAIL. A code
4xx, a time-out and a broken connection are temporary failures. Errors name the step, the code and
the enhanced code. All other text of the server may contain secrets, so errors do not show it.
"""

import re
import smtplib
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from monitor.boundary.deadline import (
    BackgroundCall,
    Deadline,
    OverdueError,
    interrupt_when_given_up,
)
from monitor.model.errors import ConfigError, DeliveryError
from monitor.model.immutable import immutable
from monitor.receivers.network_failures import failure_reason

_READY = 220
_SUCCESS_DIGIT = 2  # the first digit of a code that means success
_CLOSING = 421
_PERMANENT = 500
_QUIT_S = 1.0
_ADVICE = {
    "the login": "check username and password",
    "the sender": "check `sender`, and check that this host or login may use this address",
    "all recipients": "check `to`",
    "the message": "the server refuses this message",
}


@dataclass(frozen=True, slots=True)
class SmtpRefusal:
    """The answer of a server that refused something."""

    code: int
    text: bytes | str

    @property
    def is_permanent(self) -> bool:
        """Whether another attempt would be refused too."""
        return self.code >= _PERMANENT

    def __str__(self) -> str:
        """Return the code of the answer, and the enhanced code if there is one."""
        if self.code < 0:
            return "an answer that is not SMTP"
        text = self.text if isinstance(self.text, str) else self.text.decode("ascii", "replace")
        enhanced = re.match(r"\s*([245]\.\d{1,3}\.\d{1,3})(?!\S)", text, re.ASCII)
        return f"{self.code} {enhanced[1]}" if enhanced else str(self.code)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One mail and its outcome. One thread sends the mail while another thread waits."""

    sender: str
    to: Sequence[str]
    content: bytes
    deadline: Deadline
    may_be_known: bool = False
    refused: Mapping[str, SmtpRefusal] | None = None


class _Connection(smtplib.SMTP):
    """An SMTP session over a socket that is already connected."""

    sock: socket.socket

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__(local_hostname=socket.gethostname())  # the default would ask DNS
        self.sock = sock
        self._host = host  # STARTTLS checks that the certificate is for this name

    def interrupt(self) -> None:
        """End the connection, even while another thread is reading."""
        self.sock.shutdown(socket.SHUT_RDWR)


@immutable
class SmtpClient:
    """Sends mails through one server. Each mail has its own connection."""

    host: str
    port: int
    tls: str  # starttls, implicit or none
    context: ssl.SSLContext
    login: tuple[str, str] | None
    who: str  # the name of the server in errors
    timeout_s: float

    def send(self, content: bytes, *, sender: str, to: Sequence[str]) -> Mapping[str, SmtpRefusal]:
        """Send the mail. Returns the addresses that the server refused.

        Raises DeliveryError if all addresses were refused.
        """
        exchange = _Exchange(
            sender=sender,
            to=to,
            content=content,
            deadline=Deadline.after(self.timeout_s),
        )
        try:
            BackgroundCall(partial(self._connect_and_send, exchange), name="smtp").wait(
                exchange.deadline
            )
        except (OSError, OverdueError) as error:  # smtplib's errors are OSErrors
            failure = self._explain(error, may_be_known=exchange.may_be_known)
        if exchange.refused is not None:
            return exchange.refused
        # Raise the error outside of the handler. Otherwise Python would chain it to the server's
        # text.
        raise failure

    def _connect_and_send(self, exchange: _Exchange) -> None:
        """Open a connection, send the mail, and close the connection."""
        exchange.deadline.require_time()
        # Each address of the host gets half of the remaining time. So if one address does not
        # answer, there is time for the next.
        timeout_s = exchange.deadline.remaining_s / 2
        with closing(socket.create_connection((self.host, self.port), timeout_s)) as sock:
            exchange.deadline.require_time()  # a time-out of 0 would not wait at all
            sock.settimeout(exchange.deadline.remaining_s)
            connection = _Connection(sock, self.host)
            with closing(connection), interrupt_when_given_up(connection.interrupt):
                try:
                    self._converse(connection, exchange)
                finally:
                    # If the server has closed the connection, smtplib has no socket any more.
                    with suppress(OSError, AttributeError):
                        connection.sock.settimeout(_QUIT_S)
                        connection.quit()

    def _converse(self, connection: _Connection, exchange: _Exchange) -> None:
        """Greet the server, encrypt and log in if configured, and send the mail.

        Sets ``exchange.refused``, the refused addresses. Raises DeliveryError, or an OSError.
        """
        if self.tls == "implicit":
            connection.sock = self.context.wrap_socket(connection.sock, server_hostname=self.host)
        code, text = connection.getreply()
        if code != _READY:
            raise smtplib.SMTPConnectError(code, text)
        connection.ehlo_or_helo_if_needed()
        if self.tls == "starttls":
            if not connection.has_extn("starttls"):
                raise DeliveryError(
                    f"{self.who} does not offer STARTTLS: write `tls: implicit`, or write "
                    "`tls: none` if nobody can read the mail on the way",
                    permanent=True,
                )
            connection.starttls(context=self.context)
            connection.ehlo_or_helo_if_needed()
        if self.login is not None:
            connection.login(*self.login)
        self._require(connection.mail(exchange.sender), "the sender")
        refused = self._name_recipients(connection, exchange.to)
        exchange.may_be_known = True  # from here on, the mail may arrive even if an error follows
        answer: tuple[int, bytes | str]
        try:
            answer = connection.data(exchange.content)
        except smtplib.SMTPDataError as error:
            answer = (error.smtp_code, error.smtp_error)
        exchange.deadline.require_time()  # an answer that was cut at the deadline looks complete
        self._require(answer, "the message", of_message=True)
        exchange.refused = refused

    def _name_recipients(
        self, connection: _Connection, to: Sequence[str]
    ) -> dict[str, SmtpRefusal]:
        """Send the recipients' addresses to the server. Returns the addresses that it refused."""
        refused: dict[str, SmtpRefusal] = {}
        for address in to:
            code, text = connection.rcpt(address)
            if code // 100 != _SUCCESS_DIGIT:
                refused[address] = SmtpRefusal(code, text)
            if code == _CLOSING:
                raise self._refusal(refused[address], "a recipient")
        if len(refused) == len(to):
            # If any refusal is temporary, report a temporary failure. Then all addresses are tried
            # again.
            first = min(refused.values(), key=attrgetter("is_permanent"))
            raise self._refusal(first, "all recipients")
        return refused

    def _require(
        self, answer: tuple[int, bytes | str], step: str, *, of_message: bool = False
    ) -> None:
        if answer[0] // 100 != _SUCCESS_DIGIT:
            raise self._refusal(SmtpRefusal(*answer), step, of_message=of_message)

    def _refusal(
        self, refusal: SmtpRefusal, step: str, *, of_message: bool = False
    ) -> DeliveryError:
        advice = "a later attempt may succeed"
        if refusal.is_permanent:
            advice = _ADVICE.get(step, "check the settings of this receiver")
        return DeliveryError(
            f"{self.who} refused {step} with {refusal}: {advice}",
            permanent=refusal.is_permanent,
            of_message=of_message and refusal.is_permanent,
        )

    def _explain(self, error: Exception, *, may_be_known: bool) -> DeliveryError:
        """Make a DeliveryError of any error of the connection or of smtplib."""
        if isinstance(error, smtplib.SMTPNotSupportedError) or type(error) is smtplib.SMTPException:
            return DeliveryError(
                f"{self.who} offers no login method that rankwatch supports: leave out username "
                "and password, or check host and port",
                permanent=True,
            )
        if isinstance(error, smtplib.SMTPResponseException):
            refusal = SmtpRefusal(error.smtp_code, error.smtp_error)
            if isinstance(error, smtplib.SMTPAuthenticationError):
                return self._refusal(refusal, "the login")
            if refusal.code > 0:
                return DeliveryError(
                    f"{self.who} refused the connection with {refusal}: a later attempt may succeed",
                    permanent=False,
                    may_be_known=may_be_known,
                )
        reason = failure_reason(error, self.timeout_s, protocol="SMTP")
        return DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=may_be_known)


def trust_context(ca_file: str | None) -> ssl.SSLContext:
    """Make a TLS context that trusts the usual certificate authorities, or only those in a file.

    Raises ConfigError if the file contains no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ca_file {ca_file} cannot be read as PEM: "
            f"{error.strerror or 'it contains no certificate'}"
        ) from None
