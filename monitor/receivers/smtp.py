"""One SMTP exchange under one deadline, and what the server's codes mean for a delivery."""

from __future__ import annotations

import contextlib
import io
import re
import smtplib
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.errors import ConfigError, DeliveryError
from monitor.options import ConfigPath, Duration, Options
from monitor.receivers.fields import ReceiverName, Timeout

PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_ADDRESS = rf"^[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*$"
_HOST = r"^[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,251}[A-Za-z0-9])?$"

MailAddress = Annotated[str, Field(pattern=_ADDRESS, max_length=254)]


def _check_differ(addresses: tuple[str, ...]) -> tuple[str, ...]:
    if len({address.lower() for address in addresses}) < len(addresses):
        msg = "list no address twice"
        raise ValueError(msg)
    return addresses


def _check_password(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if not text or not (text.isascii() and text.isprintable()):
        msg = "must be printable ASCII text on one line"
        raise ValueError(msg)
    return secret


class EmailOptions(Options):
    """Write a mail over SMTP."""

    host: str = Field(pattern=_HOST, description="Host of the mail server, without a port.", examples=["smtp.example.com"])
    port: int | None = Field(None, ge=1, le=65535, description="Its port (default: 587; with `tls: implicit` 465, `none` 25).")
    tls: Literal["starttls", "implicit", "none"] = Field(
        "starttls",
        description="`starttls`: never without it; `implicit`: TLS from the first byte; `none`: readable on the way.",
    )
    username: str | None = Field(None, pattern=r"^[ -~]+$", description="Name to log in with; needs `password` and TLS.")
    password: Annotated[SecretStr, AfterValidator(_check_password)] | None = Field(None, description="Password to log in with.")
    sender: MailAddress = Field(description="Address that the mail comes from.", examples=["rankwatch@example.com"])
    to: Annotated[tuple[MailAddress, ...], AfterValidator(_check_differ)] = Field(
        min_length=1, max_length=50, description="Addresses that it goes to.", json_schema_extra={"uniqueItems": True}
    )
    name: ReceiverName | None = Field(None, description="Name in metrics and in the outbox (default: email).")
    ca_file: ConfigPath | None = Field(None, description="PEM file of the authorities to trust instead of the usual ones.")
    timeout: Timeout = Field(timedelta(seconds=20), description="How long one mail may take from connecting to its acceptance.")
    repeat_every: Duration | None = Field(
        timedelta(hours=24),
        description="How often an incident that lasts and nobody has acknowledged is told again; `null` for never.",
    )

    @model_validator(mode="after")
    def _whole_credential(self) -> Self:
        if (self.username is None) != (self.password is None):
            msg = "give both username and password, or neither"
            raise ValueError(msg)
        if self.password is not None and self.tls == "none":
            msg = "a password is not sent without TLS: leave out username and password, or tls: none"
            raise ValueError(msg)
        return self

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Its one name."""
        return (self.name or "email",)

    @property
    def port_in_use(self) -> int:
        """The port, given or usual."""
        return self.port or PORTS[self.tls]


_MOST_ANSWERED = 256 * 1024
_FAREWELL_S = 1.0
_START_DATA = 354


class _Wire(io.RawIOBase):
    """Bytes of answers as they come, until the deadline or the limit."""

    def __init__(self, client: PunctualSMTP, sock: socket.socket) -> None:
        self._client, self._sock, self._budget = client, sock, _MOST_ANSWERED

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - any writable buffer
        if self._budget <= 0:
            msg = "answers too large"
            raise OSError(msg)
        self._sock.settimeout(self._client.left_s())
        count = self._sock.recv_into(memoryview(buffer)[: self._budget])
        self._budget -= count
        return count


class PunctualSMTP(smtplib.SMTP):
    """A connection to one server, made when this is made. ``has_data``: content was sent, so the server may have the mail."""

    def __init__(self, host: str, port: int, *, timeout_s: float, implicit: ssl.SSLContext | None) -> None:
        self._ends_at = time.monotonic() + timeout_s
        self._implicit = implicit
        self.has_data = False
        super().__init__(host, port, local_hostname=_own_name())

    def left_s(self) -> float:
        """Seconds until the deadline; TimeoutError when it has passed."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def getreply(self) -> tuple[int, bytes]:
        """One answer."""
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(_Wire(self, self.sock))
        return super().getreply()

    def send(self, s: Any) -> None:  # noqa: ANN401 - text or bytes, as in the base
        """Send all of it."""
        if self.sock is not None:
            self.sock.settimeout(self.left_s())
        super().send(s)

    def post_data(self, content: bytes) -> tuple[int, bytes]:
        """The content of the mail, lines ended by CR LF; the answer to it, or to the announcement where that is refused."""
        code, said = self.docmd("DATA")
        if code != _START_DATA:
            return (code, said) if code >= _START_DATA else (-1, said)
        self.has_data = True
        self.send(re.sub(rb"(?m)^\.", b"..", content) + b".\r\n")
        return self.getreply()

    def leave(self) -> None:
        """Say goodbye, briefly, and close."""
        self._ends_at = min(self._ends_at, time.monotonic() + _FAREWELL_S)
        with contextlib.suppress(OSError, smtplib.SMTPException):
            self.docmd("QUIT")
        self.close()

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:  # noqa: ARG002 - the deadline holds instead
        """Connect to the first address that answers, each with its share of the time."""
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for tries_left, (*_, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                sock = socket.create_connection((str(address[0]), port), self.left_s() / tries_left)
                break
            except OSError:
                if tries_left == 1:
                    raise
        sock.settimeout(self.left_s())
        if self._implicit is None:
            return sock
        try:
            return self._implicit.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise


def _own_name() -> str:
    """This machine's name for the greeting; the standard library would ask the resolver, which may take its time."""
    name = socket.gethostname()
    return name if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", name) else "localhost"


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
class SmtpClient:
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


def trust_context(ca_file: str | None) -> ssl.SSLContext:
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
