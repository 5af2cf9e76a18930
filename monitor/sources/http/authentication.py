"""How requests say who asks, beyond headers that are the same in all: each way is a middleware of aiohttp."""

import asyncio
import base64
import hmac
import os
import re
import ssl
import time
from collections.abc import Callable, Mapping
from functools import cache, partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse
from pydantic import SecretStr

from monitor import USER_AGENT
from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import SourceError
from monitor.link_local import LinkLocalError
from monitor.model.instants import utc_now
from monitor.sources.http import AuthOptions, AwsOptions, HmacOptions, OAuth2Options
from monitor.sources.http.connection_pool import open_socket

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_MARGIN_S = 30.0
"""A token is fetched anew so long before it ends, or a tenth of its life if that is shorter."""
_AGAIN_S = 60.0
"""A token that is refused is fetched again, but not more often."""
_FAILED_S = 1.0
"""Where no token is to be had, all who ask within this time share one answer."""
_PART = re.compile(rb"\{(method|target|timestamp|body)\}")


class TokenError(aiohttp.ClientError):
    """No access token is to be had; the text says why."""


def proxy_options(secret: SecretStr | None) -> dict[str, Any]:
    """What a request through this proxy is made with."""
    return {} if secret is None else {"proxy": secret.get_secret_value()}


def authentication(
    options: AuthOptions, tls: ssl.SSLContext | None, deadline: Deadline, proxied: Mapping[str, Any]
) -> ClientMiddlewareType:
    """What makes the requests of one pull say who asks.

    SourceError where there are no credentials.
    """
    if options.oauth2:
        return _tokens_of(options.oauth2, tls, tuple(proxied.items()))
    return partial(
        _send_signed,
        partial(_hash, options.hmac) if options.hmac else _aws_signer(options.given, deadline),
    )


async def _send_signed(
    sign: Callable[[ClientRequest, bytes], None], request: ClientRequest, send: ClientHandlerType
) -> ClientResponse:
    sign(request, await request.body.as_bytes() if request.body else b"")
    return await send(request)


def _hash(options: HmacOptions, request: ClientRequest, body: bytes) -> None:
    timestamp, is_in_query = str(int(utc_now().timestamp())), options.place == "query"
    if is_in_query:
        request.url = request.url.update_query({options.timestamp: timestamp})
    parts = {"method": request.method, "target": request.url.raw_path_qs, "timestamp": timestamp}
    filled = {b"body": body} | {name.encode(): text.encode() for name, text in parts.items()}
    text = _PART.sub(lambda match: filled[match[1]], options.signs.encode())
    digest = hmac.digest(options.secret.get_secret_value().encode(), text, options.digest)
    signature = digest.hex() if options.encoding == "hex" else base64.b64encode(digest).decode()
    if is_in_query:
        request.url = request.url.update_query({options.signature: signature})
    else:
        request.headers.update({options.timestamp: timestamp, options.signature: signature})


def _aws_signer(options: AwsOptions, deadline: Deadline) -> Callable[[ClientRequest, bytes], None]:
    """With the keys given, else those that AWS's own tools find, anew for each pull: temporary ones end."""
    from botocore import auth, awsrequest, credentials, exceptions, session  # noqa: PLC0415 - an extra

    def find() -> Any:  # noqa: ANN401 - untyped
        if options.access_key and options.secret_key:
            return credentials.Credentials(
                options.access_key.get_secret_value(), options.secret_key.get_secret_value()
            )
        return session.Session().get_credentials().get_frozen_credentials()

    def sign(request: ClientRequest, body: bytes) -> None:
        signed = awsrequest.AWSRequest(request.method, str(request.url), {}, body)
        signer = auth.S3SigV4Auth if options.service == "s3" else auth.SigV4Auth
        signer(keys, options.service, options.region).add_auth(signed)
        request.headers.update(dict(signed.headers))

    try:
        keys = BackgroundCall(find, name="aws-credentials").wait(deadline)
    except (AttributeError, OverdueError, exceptions.BotoCoreError) as error:
        msg = (
            f"auth: no AWS credentials were found ({type(error).__name__}): give access_key "
            "and secret_key"
        )
        raise SourceError(msg, permanent=False) from None
    return sign


def _no_answer(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, LinkLocalError
    ):
        return f"gave no answer ({error.os_error.strerror})"
    number = getattr(error, "errno", None)
    return f"gave no answer ({os.strerror(number) if number else type(error).__name__})"


class AccessTokens:
    """The access token of one client, fetched when it is needed and kept until it ends.

    For one event loop.
    """

    def __init__(
        self, options: OAuth2Options, tls: ssl.SSLContext | None, proxied: Mapping[str, Any]
    ) -> None:
        self._options, self._tls, self._proxied = options, tls, proxied
        self._held: str | TokenError = ""
        self._ends_at = self._again_at = 0.0  # monotonic
        self._lock = asyncio.Lock()

    async def __call__(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        """Send the request with the token, and once more with another one where that may help."""
        token = request.headers["Authorization"] = await self._current()
        response = await send(request)
        if response.status == HTTPStatus.UNAUTHORIZED and (
            token != self._held or time.monotonic() >= self._again_at
        ):
            if token == self._held:
                self._ends_at, self._again_at = 0.0, time.monotonic() + _AGAIN_S
            response.release()
            request.headers["Authorization"] = await self._current()
            response = await send(request)
        return response

    async def _current(self) -> str:
        async with self._lock:
            if time.monotonic() >= self._ends_at:
                try:
                    self._held, life_s = await self._fetched()
                except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                    why = str(error) if isinstance(error, TokenError) else _no_answer(error)
                    self._held, life_s = TokenError(why), _FAILED_S
                self._ends_at = time.monotonic() + life_s
        if isinstance(self._held, TokenError):
            raise self._held
        return self._held

    async def _fetched(self) -> tuple[str, float]:
        options = self._options
        client = f"{quote(options.client_id, safe='')}:{quote(options.client_secret.get_secret_value(), safe='')}"
        headers = {
            "User-Agent": USER_AGENT,
            "Authorization": f"Basic {base64.b64encode(client.encode()).decode()}",
        }
        form = {
            "grant_type": "client_credentials",
            "scope": options.scope,
            "audience": options.audience,
        }
        sent = {name: value for name, value in form.items() if value is not None}
        connector = aiohttp.TCPConnector(socket_factory=open_socket)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=_TIMEOUT, headers=headers
            ) as session,
            session.post(
                options.token_url.get_secret_value(),
                data=sent,
                ssl=self._tls or True,
                allow_redirects=False,
                **self._proxied,
            ) as response,
        ):
            match (
                await response.json(content_type=None) if response.status == HTTPStatus.OK else None
            ):
                case {"access_token": str(token), **more} if re.fullmatch(r"[\x21-\x7e]+", token):
                    life = re.fullmatch(r"\d{1,9}", str(more.get("expires_in")))
                    life_s = float(life[0]) if life else float("inf")
                    return f"Bearer {token}", max(life_s - _MARGIN_S, life_s * 0.9)
            raise TokenError(f"answered {response.status} without a token")


@cache
def _tokens_of(
    options: OAuth2Options, tls: ssl.SSLContext | None, proxied: tuple[tuple[str, Any], ...]
) -> AccessTokens:
    return AccessTokens(options, tls, dict(proxied))


os.register_at_fork(after_in_child=_tokens_of.cache_clear)  # its event loop is another one
