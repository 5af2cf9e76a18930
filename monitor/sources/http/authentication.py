"""How requests say who asks, beyond headers that are the same in all: each way is a middleware of aiohttp."""

from __future__ import annotations

import base64
import hmac
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import ClientHandlerType, ClientMiddlewareType, ClientRequest, ClientResponse

from monitor.deadline import BackgroundCall, Deadline, OverdueError
from monitor.errors import SourceError
from monitor.sources.http import AuthOptions, AwsOptions, HmacOptions

_PART = re.compile(rb"\{(method|target|timestamp|body)\}")


def authentication(options: AuthOptions, deadline: Deadline) -> ClientMiddlewareType:
    """What makes the requests of one pull say who asks. SourceError where there are no credentials."""
    return partial(_send_signed, partial(_hash, options.hmac) if options.hmac else _aws_signer(options.given, deadline))


async def _send_signed(
    sign: Callable[[ClientRequest, bytes], None], request: ClientRequest, send: ClientHandlerType
) -> ClientResponse:
    sign(request, await request.body.as_bytes() if request.body else b"")
    return await send(request)


def _hash(options: HmacOptions, request: ClientRequest, body: bytes) -> None:
    timestamp, is_in_query = str(int(time.time())), options.place == "query"
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
            return credentials.Credentials(options.access_key.get_secret_value(), options.secret_key.get_secret_value())
        return session.Session().get_credentials().get_frozen_credentials()

    def sign(request: ClientRequest, body: bytes) -> None:
        signed = awsrequest.AWSRequest(request.method, str(request.url), {}, body)
        (auth.S3SigV4Auth if options.service == "s3" else auth.SigV4Auth)(keys, options.service, options.region).add_auth(
            signed
        )
        request.headers.update(dict(signed.headers))

    try:
        keys = BackgroundCall(find, name="aws-credentials").wait(deadline)
    except (AttributeError, OverdueError, exceptions.BotoCoreError) as error:
        msg = f"auth: no AWS credentials were found ({type(error).__name__}): give access_key and secret_key"
        raise SourceError(msg, permanent=False) from None
    return sign
