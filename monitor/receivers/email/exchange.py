"""One exchange with a mail server, step by step, and what its codes mean for the delivery.

5xx is permanent, but for what a server says before it knows who it talks to; 4xx, silence and broken connections may pass.
Errors name the step, the code and the enhanced code; never what else the server said, which may echo anything.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.errors import ConfigError, DeliveryError
from monitor.receivers.email.options import EmailOptions
from monitor.receivers.email.punctual import PunctualSMTP

_PERMANENT = 500
_CLOSING = 421
_NOT_SMTP = -1
_TAKEN = range(200, 300)
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
    said: bytes

    @property
    def is_permanent(self) -> bool:
        """Whether it will refuse it again."""
        return self.code >= _PERMANENT

    def __str__(self) -> str:
        """The code, with the enhanced one where there is one."""
        if self.code < 0:
            return "an answer that is not SMTP"
        enhanced = re.match(rb"\s*([245]\.\d{1,3}\.\d{1,3})(?!\S)", self.said)
        return f"{self.code} {enhanced[1].decode()}" if enhanced else str(self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """A way to one mail server."""

    options: EmailOptions
    context: ssl.SSLContext
    who: str

    def post(self, content: bytes, to: Sequence[str]) -> Mapping[str, Refusal]:
        """Hand over the mail; those of ``to`` that were refused while others were not. DeliveryError when nobody has it."""
        try:
            client = self._connect()
        except (OSError, smtplib.SMTPException) as error:
            failure = self._explain(error, may_be_known=False)
        else:
            try:
                return self._exchange(client, content, to)
            except (OSError, smtplib.SMTPException) as error:
                failure = self._explain(error, may_be_known=client.has_data)
            finally:
                client.leave()
        # Raised out here so that no traceback chains to an error whose text holds what the server said.
        raise failure

    def _connect(self) -> PunctualSMTP:
        options = self.options
        implicit = self.context if options.tls == "implicit" else None
        timeout_s = options.timeout.total_seconds()
        return PunctualSMTP(options.host, options.port_in_use, timeout_s=timeout_s, implicit=implicit)

    def _exchange(self, client: PunctualSMTP, content: bytes, to: Sequence[str]) -> Mapping[str, Refusal]:
        client.ehlo_or_helo_if_needed()
        if self.options.tls == "starttls":
            self._secure(client)
            client.ehlo_or_helo_if_needed()
        if self.options.username is not None and self.options.password is not None:
            client.login(self.options.username, self.options.password.get_secret_value())
        self._require(client.mail(self.options.sender), "the sender")
        refused = self._name(client, to)
        self._require(client.post_data(content), "the message", of_message=True)
        return refused

    def _secure(self, client: PunctualSMTP) -> None:
        if not client.has_extn("starttls"):
            msg = f"{self.who} does not offer STARTTLS: write `tls: implicit`, or `tls: none` if nobody listens on the way"
            raise DeliveryError(msg, permanent=True)
        client.starttls(context=self.context)

    def _name(self, client: PunctualSMTP, to: Sequence[str]) -> dict[str, Refusal]:
        """Name the recipients; those that were refused."""
        refused: dict[str, Refusal] = {}
        for address in to:
            code, said = client.rcpt(address)
            if code == _CLOSING:
                raise self._refusal(Refusal(code, said), "a recipient")
            if code not in _TAKEN:
                refused[address] = Refusal(code, said)
        if len(refused) == len(to):
            # One that may pass is worth another try of all.
            raise self._refusal(min(refused.values(), key=lambda each: each.is_permanent), "all recipients")
        return refused

    def _require(self, answer: tuple[int, bytes], step: str, *, of_message: bool = False) -> None:
        code, said = answer
        if code not in _TAKEN:
            raise self._refusal(Refusal(code, said), step, of_message=of_message)

    def _refusal(self, refusal: Refusal, step: str, *, of_message: bool = False) -> DeliveryError:
        advice = _ADVICE.get(step, "it refuses this") if refusal.is_permanent else "it will be tried again"
        msg = f"{self.who} refused {step} with {refusal}: {advice}"
        return DeliveryError(msg, permanent=refusal.is_permanent, of_message=of_message and refusal.is_permanent)

    def _explain(self, error: Exception, *, may_be_known: bool) -> DeliveryError:
        if isinstance(error, smtplib.SMTPAuthenticationError):
            return self._refusal(Refusal(error.smtp_code, _bytes(error.smtp_error)), "the login")
        if isinstance(error, smtplib.SMTPNotSupportedError) or type(error) is smtplib.SMTPException:
            msg = f"{self.who} takes no login by any way known here: leave out username and password, or check host and port"
            return DeliveryError(msg, permanent=True)
        if isinstance(error, smtplib.SMTPResponseException) and isinstance(error.smtp_error, bytes):
            refusal = Refusal(error.smtp_code, error.smtp_error)
            return DeliveryError(f"{self.who} refused the connection with {refusal}: it will be tried again", permanent=False)
        return DeliveryError(f"{self.who} {self._said_of(error)}", permanent=False, may_be_known=may_be_known)

    def _said_of(self, error: Exception) -> str:
        chain = list(_chain(error))
        if any(isinstance(link, TimeoutError) for link in chain):
            return f"did not answer within {self.options.timeout.total_seconds():g} s"
        if any(isinstance(link, ssl.SSLCertVerificationError) for link in chain):
            return "has no certificate that can be trusted: check the host, or give its authority as ca_file"
        if any(isinstance(link, ssl.SSLError) for link in chain):
            return "did not speak TLS: check `port` and `tls`"
        if any(isinstance(link, socket.gaierror) for link in chain):
            return "has a host name that cannot be resolved: check `host`"
        if any(isinstance(link, ConnectionRefusedError) for link in chain):
            return "refused the connection: check that it runs and listens there"
        return "broke the connection or did not speak SMTP"


def trust(ca_file: str | None) -> ssl.SSLContext:
    """Whom to trust: the usual authorities, or those of a file alone. ConfigError when it holds none."""
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        msg = f"ca_file {ca_file} cannot be read as PEM: {error.strerror or 'it holds no certificate'}"
        raise ConfigError(msg) from None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those in the handling of which it was raised."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _bytes(text: bytes | str) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
