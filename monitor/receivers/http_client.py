"""POST and PUT over HTTP under one deadline, and what the status of the answer means for a delivery.

The deadline holds for the whole exchange, from looking up the name on. Bodies are never unpacked, redirects not followed,
certificates verified; cookies, .netrc and the environment's proxies are not used. The option `proxy` names a proxy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import ClassVar

from pydantic import SecretStr

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import DeliveryError
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
# Statuses that are about the message, not about sender or address.
_OF_MESSAGE = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """Status and headers of an answer, and its body, which may echo secrets: receivers show only what they know to be none."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None = None  # its first 16 KiB; None where it did not come to its end

    @property
    def status_name(self) -> str:
        """The status with the words that belong to it."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return str(self.status)


class HttpClient:
    """Posts to one URL, each time over a new connection, from any thread.

    ``self.who`` is name and origin, for messages.
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
        self._url, self._timeout_s, self._ca_file = url, timeout_s, ca_file
        self._proxy = open_proxy(proxy)
        self.who = f"{who} at {origin(url)}"

    def post(
        self, content: bytes, headers: Mapping[str, str], *, method: str = "POST"
    ) -> HttpAnswer:
        """Send, and wait for status, headers, perhaps the body.

        DeliveryError for none, ``may_be_known`` once it is sent.
        """
        from monitor.receivers import http_transport as http  # noqa: PLC0415 - requests is imported where something is sent

        body, deadline, reason = http.RequestBody(content), Deadline.after(self._timeout_s), ""
        exchange = http.HttpExchange(
            method=method,
            url=self._url,
            headers=headers,
            body=body,
            ca_file=self._ca_file,
            proxy=self._proxy,
            deadline=deadline,
        )
        try:
            BackgroundCall(exchange.perform, name="http").wait(deadline)
        except (*http.VENDOR_ERRORS, OverdueError) as error:
            reason = failure_reason(error, self._timeout_s, protocol="HTTP")
            if self._proxy is not None and not exchange.is_connected:
                reason = proxy_reason(error, self._proxy.name, reason)
        if exchange.head is not None:
            status, found = exchange.head
            return HttpAnswer(status=status, headers=found, body=exchange.content)
        # Raised out here so that no traceback chains to the vendor's error, whose text holds the
        # URL.
        raise DeliveryError(f"{self.who} {reason}", permanent=False, may_be_known=body.is_sent)


class HttpReceiver:
    """What receivers over HTTP share: name, treatment and a client of their own."""

    is_bounded: ClassVar[bool] = (
        False  # messages have one size for any number of changes: a part would be refused as well
    )

    def __init__(
        self, url: str, name: str, entry: HttpReceiverEntry, *, treatment: Treatment
    ) -> None:
        self.name, self.treatment = name, treatment
        timeout_s = entry.timeout.total_seconds()
        self._client = HttpClient(
            url, who=name, timeout_s=timeout_s, ca_file=entry.ca_file, proxy=entry.proxy
        )

    def _post(self, content: bytes, headers: Mapping[str, str], now: datetime) -> HttpAnswer:
        answer = self._client.post(content, headers)
        reason = self._reason(answer)
        require_accepted(
            answer, who=self._client.who, now=now, reason=reason, is_bounded=self.is_bounded
        )
        return answer

    def _reason(self, answer: HttpAnswer) -> str | None:  # noqa: ARG002 - for receivers that know what may be shown
        """What the body gives as the reason of a refusal, fit to be shown."""
        return None


def require_accepted(
    answer: HttpAnswer,
    *,
    who: str,
    now: datetime,
    reason: str | None = None,
    is_bounded: bool = False,
) -> None:
    """Return if the receiver accepted the message (2xx), else DeliveryError, with the answer's ``Retry-After``.

    Permanent: 4xx but 408, 421, 425 and 429. Not: these, 5xx, after which the message may be known, and redirects.
    """
    status = answer.status
    if 200 <= status < 300:  # noqa: PLR2004 - the statuses themselves are the clearest names
        return
    is_permanent = 400 <= status < 500 and status not in _RETRYABLE  # noqa: PLR2004 - likewise
    advice = _ADVICE.get(
        status, "it refuses this message" if is_permanent else "it will be tried again"
    )
    if 300 <= status < 400:  # noqa: PLR2004 - likewise
        advice = "redirects are not followed: write the final URL"
    msg = f"{who} answered {answer.status_name}: {advice}{f' ({reason})' if reason else ''}"
    raise DeliveryError(
        msg,
        permanent=is_permanent,
        retry_after_s=retry_after_s(answer.headers.get("Retry-After"), now),
        may_be_known=status >= 500,  # noqa: PLR2004 - likewise
        of_message=status in _OF_MESSAGE and not is_bounded,
    )
