"""POST over HTTP under one deadline, and the meaning of the answer's status.

The deadline is for the whole exchange, from the lookup of the host name on. Certificates are
verified. Bodies are never decompressed and redirects never followed. Cookies, .netrc and the
environment's proxies are not used; the option `proxy` names a proxy.
"""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

from pydantic import SecretStr

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DeliveryError
from monitor.immutable import immutable
from monitor.model.instants import retry_after_s
from monitor.model.notifications import Treatment
from monitor.receivers.fields import HttpReceiverEntry
from monitor.receivers.network_failures import failure_reason, proxy_reason
from monitor.redaction import origin
from monitor.web_proxy import open_proxy

_ADVICE = {
    401: "check its credentials",
    403: "check its credentials",
    404: "check its URL",
    405: "check its URL",
    407: "check the credentials in proxy",
    410: "check its URL",
    413: "the message is too large for it",
}
_RETRYABLE = frozenset({408, 421, 425, 429})
# Statuses about the message, not about its sender or address.
_OF_MESSAGE = frozenset({400, 413, 422})


@immutable
class HttpAnswer:
    """Status and headers of an answer, and its body, which may echo secrets.

    Receivers show only parts of the body that cannot be secret.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | None = None  # its first 16 KiB, None if it did not arrive completely

    @property
    def status_name(self) -> str:
        """The status and its phrase."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


class HttpClient:
    """Posts to one URL over a new connection each time. Thread-safe.

    ``who`` has the name and the origin, for error texts.
    """

    def __init__(
        self,
        url: str,
        *,
        who: str,
        timeout_s: float,
        ca_file: str | None = None,
        proxy: SecretStr | None = None,
    ) -> None:
        self._url = url
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._proxy = open_proxy(proxy)
        self.who = f"{who} at {origin(url)}"

    def post(self, content: bytes, headers: Mapping[str, str]) -> HttpAnswer:
        """Send, and wait for status, headers and perhaps the body.

        DeliveryError without an answer, with ``may_be_known`` if everything was sent.
        """
        from monitor.receivers import http_transport as http  # noqa: PLC0415 - slow to import

        body = http.RequestBody(content)
        deadline = Deadline.after(self._timeout_s)
        exchange = http.HttpExchange(
            url=self._url,
            headers=headers,
            body=body,
            ca_file=self._ca_file,
            proxy=self._proxy,
            deadline=deadline,
        )
        reason = ""
        try:
            BackgroundCall(exchange.perform, name="http").wait(deadline)
        except (*http.VENDOR_ERRORS, OverdueError) as error:
            reason = failure_reason(error, self._timeout_s, protocol="HTTP")
            if self._proxy is not None and not exchange.is_connected:
                reason = proxy_reason(error, self._proxy.name, reason)
        if exchange.head is not None:
            status, answer_headers = exchange.head
            return HttpAnswer(status=status, headers=answer_headers, body=exchange.content)
        # Raised outside of the handler, so that it is not chained to the vendor's error, whose
        # text has the URL.
        raise DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=body.is_sent)


class HttpReceiver:
    """What receivers over HTTP share: a name, a treatment and a client."""

    # Whether the size of messages is bounded. Then smaller messages would be refused too.
    is_bounded: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        name: str,
        entry: HttpReceiverEntry,
        *,
        treatment: Treatment,
    ) -> None:
        self.name = name
        self.treatment = treatment
        timeout_s = entry.timeout.total_seconds()
        self._client = HttpClient(
            url,
            who=name,
            timeout_s=timeout_s,
            ca_file=entry.ca_file,
            proxy=entry.proxy,
        )

    def _post(self, content: bytes, headers: Mapping[str, str], now: datetime) -> HttpAnswer:
        answer = self._client.post(content, headers)
        reason = self._reason(answer)
        require_accepted(
            answer,
            who=self._client.who,
            now=now,
            reason=reason,
            is_bounded=self.is_bounded,
        )
        return answer

    def _reason(self, answer: HttpAnswer) -> str | None:  # noqa: ARG002 - for subclasses
        """The reason of a refusal in the body, without secrets."""
        return None


def require_accepted(
    answer: HttpAnswer,
    *,
    who: str,
    now: datetime,
    reason: str | None = None,
    is_bounded: bool = False,
) -> None:
    """Return if the receiver accepted the message (2xx). Otherwise DeliveryError.

    4xx is permanent, except 408, 421, 425 and 429. 5xx and redirects are temporary. After 5xx the
    message may have arrived. The error has the answer's ``Retry-After``.
    """
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - the statuses themselves are the clearest names
        return
    is_permanent = 400 <= status < 500 and status not in _RETRYABLE  # noqa: PLR2004 - likewise
    if status in _ADVICE:
        advice = _ADVICE[status]
    elif 300 <= status < 400:  # noqa: PLR2004 - likewise
        advice = "redirects are not followed: write the final URL"
    elif is_permanent:
        advice = "it refuses this message"
    else:
        advice = "it will be tried again"
    if reason:
        advice += f" ({reason})"
    msg = f"{who} answered {answer.status_name}: {advice}"
    raise DeliveryError(
        msg,
        permanent=is_permanent,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now),
        may_be_known=status >= 500,  # noqa: PLR2004 - likewise
        of_message=status in _OF_MESSAGE and not is_bounded,
    )
