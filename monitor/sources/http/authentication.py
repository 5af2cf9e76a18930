"""Authenticates requests by hashes, AWS signatures and tokens. These are middlewares of aiohttp."""

import asyncio
import base64
import hmac
import os
import re
import ssl
import time
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from math import inf
from typing import Any
from urllib.parse import quote

import aiohttp
from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

from monitor import USER_AGENT
from monitor.boundary.deadline import BackgroundCall, Deadline, OverdueError
from monitor.boundary.foreign_errors import find_tls_fault
from monitor.boundary.link_local import LinkLocalError
from monitor.model.errors import SourceError
from monitor.model.instants import utc_now
from monitor.model.tls_faults import TlsClient
from monitor.sources.http import AuthOptions, AwsOptions, HmacOptions, OAuth2Options
from monitor.sources.http.connection_pool import open_socket
from monitor.texts.tls_faults import write_tls_fault

_MARGIN_S = 30.0
"""How long before its expiry a token is replaced. For a short life, it is a tenth of the life."""
_REFUSED_S = 60.0
"""The shortest time between two replacements of refused tokens."""
_FAILED_S = 1.0
"""How long requests fail after the server gave no token. Then the server is asked again."""
_PART = re.compile(rb"\{(method|target|timestamp|body)\}")


class TokenError(aiohttp.ClientError):
    """The server gave no access token. The text has the reason."""


def make_authentication(
    options: AuthOptions,
    tls: ssl.SSLContext | None,
    deadline: Deadline,
    proxy: str | None,
) -> ClientMiddlewareType:
    """The middleware that authenticates the requests of one pull.

    Raises SourceError if there are no AWS credentials.
    """
    if options.oauth2:
        return _tokens_of(options.oauth2, tls, proxy)
    if options.hmac:
        return partial(_send_signed, partial(_add_hash, options.hmac))
    return partial(_send_signed, _aws_signer(options.kind_options, deadline))


async def _send_signed(
    sign: Callable[[ClientRequest, bytes], None],
    request: ClientRequest,
    send: ClientHandlerType,
) -> ClientResponse:
    body = b""
    if request.body:
        body = await request.body.as_bytes()
    sign(request, body)
    return await send(request)


def _add_hash(options: HmacOptions, request: ClientRequest, body: bytes) -> None:
    timestamp = str(int(utc_now().timestamp()))
    if options.place == "query":
        request.url = request.url.update_query({options.timestamp: timestamp})
    parts = {
        b"method": request.method.encode(),
        b"target": request.url.raw_path_qs.encode(),
        b"timestamp": timestamp.encode(),
        b"body": body,
    }
    content = _PART.sub(lambda match: parts[match[1]], options.signs.encode())
    digest = hmac.digest(options.secret.get_secret_value().encode(), content, options.digest)
    signature = digest.hex()
    if options.encoding == "base64":
        signature = base64.b64encode(digest).decode()
    if options.place == "query":
        request.url = request.url.update_query({options.signature: signature})
    else:
        request.headers.update({options.timestamp: timestamp, options.signature: signature})


def _aws_signer(options: AwsOptions, deadline: Deadline) -> Callable[[ClientRequest, bytes], None]:
    """Signs requests with the configured keys, or with the keys that AWS's own tools find.

    Each pull searches for the keys, because temporary keys expire.
    """
    # An extra installs these packages.
    from botocore import auth, awsrequest, credentials, exceptions, session  # noqa: PLC0415

    def find_keys() -> Any:  # noqa: ANN401 - untyped
        if options.access_key and options.secret_key:
            return credentials.Credentials(
                options.access_key.get_secret_value(), options.secret_key.get_secret_value()
            )
        return session.Session().get_credentials().get_frozen_credentials()

    def sign(request: ClientRequest, body: bytes) -> None:
        copy = awsrequest.AWSRequest(request.method, str(request.url), {}, body)
        signer = auth.S3SigV4Auth if options.service == "s3" else auth.SigV4Auth
        signer(keys, options.service, options.region).add_auth(copy)
        request.headers.update(dict(copy.headers))

    try:
        keys = BackgroundCall(find_keys, name="aws-credentials").wait(deadline)
    except (AttributeError, OverdueError, exceptions.BotoCoreError) as error:
        raise SourceError(
            f"auth: no AWS credentials were found ({type(error).__name__}): give access_key "
            "and secret_key",
            permanent=False,
        ) from None
    return sign


def _describe(error: Exception) -> str:
    cause = getattr(error, "os_error", None)
    if isinstance(cause, LinkLocalError):
        return f"gave no answer ({cause.strerror})"
    fault = find_tls_fault(error)
    if fault is not None:
        return ": ".join(write_tls_fault(fault, TlsClient.HTTP_SOURCE))
    number = getattr(error, "errno", None)
    return f"gave no answer ({os.strerror(number) if number else type(error).__name__})"


class AccessTokens:
    """The access token of one client.

    It is used until it expires. All requests must come from one event loop.
    """

    def __init__(
        self,
        options: OAuth2Options,
        tls: ssl.SSLContext | None,
        proxy: str | None,
    ) -> None:
        self._options = options
        self._tls = tls
        self._proxy = proxy
        self._token: str | TokenError = ""  # the value of the header Authorization
        # These are times of the monotonic clock.
        self._expires_at = 0.0
        self._replaceable_at = 0.0
        self._lock = asyncio.Lock()

    async def __call__(self, request: ClientRequest, send: ClientHandlerType) -> ClientResponse:
        """Send the request with the token. If the token is refused, retry once with a new token."""
        token = await self._current()
        request.headers["Authorization"] = token
        response = await send(request)
        if response.status != HTTPStatus.UNAUTHORIZED:
            return response
        if token == self._token:
            now = time.monotonic()
            if now < self._replaceable_at:
                return response
            self._expires_at = 0.0
            self._replaceable_at = now + _REFUSED_S
        response.release()
        request.headers["Authorization"] = await self._current()
        return await send(request)

    async def _current(self) -> str:
        async with self._lock:
            if time.monotonic() >= self._expires_at:
                try:
                    self._token, life_s = await self._fetch()
                except TokenError as error:
                    self._token = error
                    life_s = _FAILED_S
                except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
                    self._token = TokenError(_describe(error))
                    life_s = _FAILED_S
                self._expires_at = time.monotonic() + life_s
        if isinstance(self._token, TokenError):
            raise self._token
        return self._token

    async def _fetch(self) -> tuple[str, float]:
        """Fetch a token. Returns the value of the header Authorization, and its life in seconds."""
        options = self._options
        client_id = quote(options.client_id, safe="")
        client_secret = quote(options.client_secret.get_secret_value(), safe="")
        login = base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        form = options.model_dump(include={"scope", "audience"}, exclude_none=True)
        form["grant_type"] = "client_credentials"
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(socket_factory=open_socket),
                timeout=aiohttp.ClientTimeout(total=10),
                headers={"User-Agent": USER_AGENT, "Authorization": f"Basic {login}"},
            ) as session,
            session.post(
                options.token_url.get_secret_value(),
                data=form,
                ssl=self._tls or True,
                allow_redirects=False,
                proxy=self._proxy,
            ) as response,
        ):
            answer = None
            if response.status == HTTPStatus.OK:
                answer = await response.json(content_type=None)
        match answer:
            case {"access_token": str(token), **more} if re.fullmatch(r"[\x21-\x7e]+", token):
                life = re.fullmatch(r"\d{1,9}", str(more.get("expires_in")))
                life_s = float(life[0]) if life else inf
                return f"Bearer {token}", max(life_s - _MARGIN_S, life_s * 0.9)
        raise TokenError(f"answered {response.status} without a token")


_tokens_of = cache(AccessTokens)
