"""Sends a mail by SMTP before one deadline, and interprets the codes of the server.

A code 5xx is a permanent failure, unless it comes before the login or before MAIL. A code 4xx, a
time-out and a broken connection are temporary failures. Errors name the step, the code and the
enhanced code. They never contain other text of the server, because it may contain secrets.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

import aiosmtplib

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import ConfigError, DeliveryError
from monitor.immutable import immutable
from monitor.receivers.network_failures import failure_reason

_PERMANENT = 500
_CLOSING = 421
_QUIT_S = 1.0
_ADVICE = {
    "the login": "check username and password",
    "the sender": "check `sender`, and check that this host or login may use this address",
    "all recipients": "check `to`",
    "the message": "the server refuses this message",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer by which a server refused something."""

    code: int
    text: str

    @property
    def is_permanent(self) -> bool:
        """Whether the server would refuse the same thing again."""
        return self.code >= _PERMANENT

    def __str__(self) -> str:
        """The code of the answer, and the enhanced code if there is one."""
        if self.code < 0:
            return "an answer that is not SMTP"
        enhanced = re.match(r"\s*([245]\.\d{1,3}\.\d{1,3})(?!\S)", self.text, re.ASCII)
        return f"{self.code} {enhanced[1]}" if enhanced else str(self.code)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One mail. One thread sends it while another thread waits."""

    sender: str
    to: Sequence[str]
    content: bytes
    deadline: Deadline
    transport: asyncio.BaseTransport | None = None
    may_be_known: bool = False
    refused: Mapping[str, Refusal] | None = None


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

    def send(self, content: bytes, *, sender: str, to: Sequence[str]) -> Mapping[str, Refusal]:
        """Send the mail and return the addresses that were refused.

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
        except (OSError, aiosmtplib.SMTPException, OverdueError) as error:
            failure = self._explain(error, may_be_known=exchange.may_be_known)
        if exchange.refused is not None:
            return exchange.refused
        # The error is raised outside of the handler. So it is not chained to the server's text.
        raise failure

    def _connect_and_send(self, exchange: _Exchange) -> None:
        # Each address of the host gets half of the time. So time is left if one is dead.
        timeout_s = exchange.deadline.remaining_s / 2
        with closing(socket.create_connection((self.host, self.port), timeout_s)) as sock:
            asyncio.run(self._send_in_time(exchange, sock))

    async def _send_in_time(self, exchange: _Exchange, sock: socket.socket) -> None:
        client = aiosmtplib.SMTP(
            hostname=self.host,
            sock=sock,
            local_hostname=socket.gethostname(),  # by default the library asks DNS
            timeout=None,
            use_tls=self.tls == "implicit",
            start_tls=False,
            tls_context=self.context,
        )
        try:
            async with asyncio.timeout(exchange.deadline.remaining_s):
                await client.connect()
                exchange.transport = client.transport
                try:
                    exchange.refused = await self._converse(client, exchange)
                finally:
                    with suppress(OSError, aiosmtplib.SMTPException):
                        await client.quit(timeout=_QUIT_S)
        finally:
            if isinstance(exchange.transport, asyncio.WriteTransport):
                exchange.transport.abort()  # because close() would wait for the server
            await asyncio.sleep(0)

    async def _converse(
        self, client: aiosmtplib.SMTP, exchange: _Exchange
    ) -> Mapping[str, Refusal]:
        await client.ehlo()
        if self.tls == "starttls":
            if not client.supports_extension("starttls"):
                raise DeliveryError(
                    f"{self.who} does not offer STARTTLS: write `tls: implicit`, or write "
                    "`tls: none` if nobody can read the mail on the way",
                    permanent=True,
                )
            await client.starttls()
            exchange.transport = client.transport
        if self.login is not None:
            await client.login(*self.login)
        await self._require(client.mail(exchange.sender), "the sender")
        refused = await self._name_recipients(client, exchange.to)
        exchange.may_be_known = True  # unless the server refuses the message
        await self._require(client.data(exchange.content), "the message", of_message=True)
        return refused

    async def _name_recipients(
        self, client: aiosmtplib.SMTP, to: Sequence[str]
    ) -> dict[str, Refusal]:
        """Name the recipients to the server. Returns the refused recipients."""
        refused: dict[str, Refusal] = {}
        for address in to:
            try:
                await client.rcpt(address)
            except aiosmtplib.SMTPResponseException as error:
                refused[address] = Refusal(error.code, error.message)
            if address in refused and refused[address].code == _CLOSING:
                raise self._refusal(refused[address], "a recipient")
        if len(refused) == len(to):
            # If one refusal is temporary, rankwatch tries all addresses again.
            first = min(refused.values(), key=attrgetter("is_permanent"))
            raise self._refusal(first, "all recipients")
        return refused

    async def _require(
        self,
        step: Awaitable[object],
        name: str,
        *,
        of_message: bool = False,
    ) -> None:
        try:
            await step
        except aiosmtplib.SMTPResponseException as error:
            refusal = Refusal(error.code, error.message)
        else:
            return
        raise self._refusal(refusal, name, of_message=of_message)

    def _refusal(self, refusal: Refusal, step: str, *, of_message: bool = False) -> DeliveryError:
        advice = "rankwatch will try again"
        if refusal.is_permanent:
            advice = _ADVICE.get(step, "check the settings of this receiver")
        return DeliveryError(
            f"{self.who} refused {step} with {refusal}: {advice}",
            permanent=refusal.is_permanent,
            of_message=of_message and refusal.is_permanent,
        )

    def _explain(self, error: Exception, *, may_be_known: bool) -> DeliveryError:
        if isinstance(error, aiosmtplib.SMTPAuthenticationError):
            return self._refusal(Refusal(error.code, error.message), "the login")
        if (
            isinstance(error, aiosmtplib.SMTPNotSupported)
            or type(error) is aiosmtplib.SMTPException
        ):
            return DeliveryError(
                f"{self.who} offers no login method that rankwatch supports: leave out username "
                "and password, or check host and port",
                permanent=True,
            )
        if isinstance(error, aiosmtplib.SMTPResponseException) and error.code > 0:
            refusal = Refusal(error.code, error.message)
            return DeliveryError(
                f"{self.who} refused the connection with {refusal}: rankwatch will try again",
                permanent=False,
            )
        reason = failure_reason(error, self.timeout_s, protocol="SMTP")
        return DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=may_be_known)


def trust_context(ca_file: str | None) -> ssl.SSLContext:
    """The certificate authorities to trust: the usual ones, or only those of a file.

    Raises ConfigError if the file has no certificate.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ca_file {ca_file} cannot be read as PEM: "
            f"{error.strerror or 'it contains no certificate'}"
        ) from None
