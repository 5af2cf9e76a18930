"""Posts over HTTP before a deadline, and interprets the status of the answer.

The deadline covers everything from the lookup of the host name to the end of the answer.
Certificates are verified. Bodies are never decompressed. Redirects are never followed. Cookies,
.netrc and the proxies of the environment are ignored. Only the option `proxy` names a proxy.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

from pydantic import SecretStr

from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.redaction import origin
from monitor.boundary.web_proxy import open_proxy
from monitor.model.errors import DeliveryError
from monitor.model.immutable import immutable
from monitor.model.instants import retry_after_s
from monitor.model.notifications import Treatment
from monitor.receivers.network_failures import failure_reason, proxy_reason
from monitor.receivers.receiver_options import BaseReceiver, HttpReceiverEntry

_ADVICE = {
    401: "check its credentials",
    403: "check its credentials",
    404: "check its URL",
    405: "check its URL",
    407: "check the credentials in proxy",
    410: "check its URL",
    413: "the message is too large for this receiver",
}
_RETRYABLE = frozenset({408, 421, 425, 429})
# With these statuses the receiver refuses this message, so another message may be accepted.
_OF_MESSAGE = frozenset({400, 413, 422})


@immutable
class HttpAnswer:
    """The status, headers and body of an answer.

    A body may repeat secrets of the request. So only parts that cannot be secret are shown.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | None = None  # at most 16 KiB; None if the body did not arrive completely

    @property
    def status_name(self) -> str:
        """The status and its name, such as ``404 Not Found``."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


class HttpClient:
    """Posts to one URL. Each request has a new connection. This class is thread-safe.

    ``who`` is the receiver's name with the scheme and host of its URL. Errors show it.
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
        """Send the content and wait for the answer.

        Raises DeliveryError if there is no answer. In this case ``may_be_known`` of the error is
        true if the complete request was sent. If only the status arrived, the body of the answer is
        None.
        """
        from monitor.receivers import http_transport as http  # noqa: PLC0415 - slow to import

        deadline = Deadline.after(self._timeout_s)
        exchange = http.HttpExchange(
            url=self._url,
            headers=headers,
            content=content,
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
            return HttpAnswer(status=status, headers=answer_headers, body=exchange.body)
        # Raise the error outside of the handler. Otherwise Python would chain it to the vendor's
        # error, which contains the URL.
        raise DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=exchange.is_sent)


class HttpReceiver(BaseReceiver):
    """The base class of receivers that use HTTP."""

    # Whether all messages to this receiver are small. If a small message is refused, a smaller one
    # would be refused too.
    has_small_messages: ClassVar[bool] = False

    def __init__(
        self,
        url: str,
        name: str,
        options: HttpReceiverEntry,
        external_url: str,
        treatment: Treatment,
    ) -> None:
        super().__init__(name, options, external_url, treatment)
        self._client = HttpClient(
            url,
            who=name,
            timeout_s=self.timeout_s,
            ca_file=options.ca_file,
            proxy=options.proxy,
        )

    def _post(self, body: object, now: datetime) -> HttpAnswer:
        """Post the body as JSON. Raises DeliveryError if the receiver does not accept it."""
        content = encode_json(body)
        return self._post_bytes(content, {}, now)

    def _post_bytes(self, content: bytes, headers: Mapping[str, str], now: datetime) -> HttpAnswer:
        answer = self._client.post(content, {"Content-Type": "application/json", **headers})
        require_accepted(
            answer,
            who=self._client.who,
            now=now,
            reason=self._reason(answer),
            has_small_messages=self.has_small_messages,
        )
        return answer

    def _reason(self, answer: HttpAnswer) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the reason for a refusal, if the body of the answer gives one without secrets."""
        return None


def encode_json(body: object) -> bytes:
    """Return the value as JSON in UTF-8."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def require_accepted(
    answer: HttpAnswer,
    *,
    who: str,
    now: datetime,
    reason: str | None = None,
    has_small_messages: bool = False,
) -> None:
    """Raise DeliveryError unless the receiver accepted the message (status 2xx).

    Statuses 4xx are permanent failures, except 408, 421, 425 and 429. Redirects and statuses 5xx
    are temporary failures. After a status 5xx the message may have arrived. The error contains the
    pause from the header ``Retry-After``.

    ``who`` is the receiver, and begins the text of the error. ``reason`` is the receiver's own
    reason, None if it gave none. With ``has_small_messages``, every message to this receiver is small, so a
    smaller message would be refused too.
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
        advice = "the receiver refuses this message"
    else:
        advice = "a later attempt may succeed"
    if reason:
        advice += f" ({reason})"
    msg = f"{who} answered {answer.status_name}: {advice}"
    raise DeliveryError(
        msg,
        permanent=is_permanent,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now),
        may_be_known=status >= 500,  # noqa: PLR2004 - likewise
        of_message=status in _OF_MESSAGE and not has_small_messages,
    )
