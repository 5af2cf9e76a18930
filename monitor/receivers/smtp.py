"""One SMTP exchange under one deadline, and the meaning of the server's codes.

5xx is permanent, except before a login or MAIL. 4xx, time-outs and broken connections are
temporary. Errors name the step, the code and the enhanced code. They never contain the rest of the
server's text, which may echo anything.
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
    "the sender": "check `sender`, and that this host or login may use it",
    "all recipients": "check `to`",
    "the message": "it refuses this message",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a server refused something."""

    code: int
    text: str

    @property
    def is_permanent(self) -> bool:
        """Whether the server will refuse it again."""
        return self.code >= _PERMANENT

    def __str__(self) -> str:
        """The code, and the enhanced code if there is one."""
        if self.code < 0:
            return "an answer that is not SMTP"
        enhanced = re.match(r"\s*([245]\.\d{1,3}\.\d{1,3})(?!\S)", self.text, re.ASCII)
        return f"{self.code} {enhanced[1]}" if enhanced else str(self.code)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    """One mail, sent by one thread while another one waits."""

    sender: str
    to: Sequence[str]
    content: bytes
    deadline: Deadline
    transport: asyncio.BaseTransport | None = None
    may_be_known: bool = False
    refused: Mapping[str, Refusal] | None = None


@immutable
class SmtpClient:
    """Sends mail through one server, with a connection for each mail."""

    host: str
    port: int
    tls: str  # starttls, implicit or none
    context: ssl.SSLContext
    login: tuple[str, str] | None
    who: str  # names it in errors
    timeout_s: float

    def send(self, content: bytes, *, sender: str, to: Sequence[str]) -> Mapping[str, Refusal]:
        """Send the mail and return the addresses that were refused.

        DeliveryError if all were refused.
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
        # Raised outside of the handler, so that it is not chained to the server's text.
        raise failure

    def _connect_and_send(self, exchange: _Exchange) -> None:
        # Half of the time for each address of the host, so that a dead one leaves time.
        timeout_s = exchange.deadline.remaining_s / 2
        with closing(socket.create_connection((self.host, self.port), timeout_s)) as sock:
            asyncio.run(self._send_in_time(exchange, sock))

    async def _send_in_time(self, exchange: _Exchange, sock: socket.socket) -> None:
        client = aiosmtplib.SMTP(
            hostname=self.host,
            sock=sock,
            local_hostname=_local_hostname(),
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
                exchange.transport.abort()  # close() would wait for the server
            await asyncio.sleep(0)

    async def _converse(
        self, client: aiosmtplib.SMTP, exchange: _Exchange
    ) -> Mapping[str, Refusal]:
        await client.ehlo()
        if self.tls == "starttls":
            if not client.supports_extension("starttls"):
                raise DeliveryError(
                    f"{self.who} does not offer STARTTLS: write `tls: implicit`, or "
                    "`tls: none` if nobody listens on the way",
                    permanent=True,
                )
            await client.starttls()
            exchange.transport = client.transport
        if self.login is not None:
            await client.login(*self.login)
        await self._require(client.mail(exchange.sender), "the sender")
        refused = await self._name_recipients(client, exchange.to)
        exchange.may_be_known = True  # until it is refused
        await self._require(client.data(exchange.content), "the message", of_message=True)
        return refused

    async def _name_recipients(
        self, client: aiosmtplib.SMTP, to: Sequence[str]
    ) -> dict[str, Refusal]:
        """Name the recipients, and return the refused ones."""
        refused: dict[str, Refusal] = {}
        for address in to:
            try:
                await client.rcpt(address)
            except aiosmtplib.SMTPResponseException as error:
                refused[address] = Refusal(error.code, error.message)
            if address in refused and refused[address].code == _CLOSING:
                raise self._refusal(refused[address], "a recipient")
        if len(refused) == len(to):
            # If one refusal is temporary, all addresses are tried again.
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
        advice = "it will be tried again"
        if refusal.is_permanent:
            advice = _ADVICE.get(step, "it refuses this")
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
                f"{self.who} refused the connection with {refusal}: it will be tried again",
                permanent=False,
            )
        reason = failure_reason(error, self.timeout_s, protocol="SMTP")
        return DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=may_be_known)


def trust_context(ca_file: str | None) -> ssl.SSLContext:
    """The authorities to trust: the usual ones, or only those of a file.

    ConfigError if the file has none.
    """
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"ca_file {ca_file} cannot be read as PEM: "
            f"{error.strerror or 'it contains no certificate'}"
        ) from None


def _local_hostname() -> str:
    # The library would ask the resolver, which may be slow.
    name = socket.gethostname()
    return name if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name) else "localhost"
