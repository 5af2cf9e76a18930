"""Sends one request and reads its answer, or says why there is no answer."""

import os
import zlib
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from monitor import USER_AGENT
from monitor.boundary.deadline import Deadline
from monitor.boundary.foreign_errors import find_tls_fault
from monitor.boundary.link_local import LinkLocalError
from monitor.boundary.web_proxy import WebProxy, open_proxy, refuse_link_local_behind
from monitor.model.errors import SourceError
from monitor.model.instants import retry_after_s, utc_now
from monitor.model.rankings import CoverageReason
from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.sources.http import HttpOptions
from monitor.sources.http.authentication import TokenError, make_authentication
from monitor.sources.http.connection_pool import MAY_BE_LINK_LOCAL, tls_settings
from monitor.sources.http.request import RequestFailure
from monitor.texts.tls_faults import write_tls_fault

_ANSWERED = frozenset({HTTPStatus.OK.value, HTTPStatus.CREATED.value})
_START_OF_GZIP = 0x1F  # the first byte of each member; what follows the last one is ignored
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def request_options(options: HttpOptions, deadline: Deadline) -> dict[str, Any]:
    """The keyword arguments for every request of a source.

    Raises SourceError if a certificate or credentials cannot be read. It also raises SourceError if
    a proxy would have to connect to a link-local address.
    """
    tls = tls_settings(options)
    timeout_s = options.timeout.total_seconds()
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": USER_AGENT,
    }
    for name, value in options.headers.items():
        headers[name] = value.get_secret_value()
    if options.token:
        headers["Authorization"] = f"Bearer {options.token.get_secret_value()}"
    proxy = None
    if options.proxy is not None:
        proxy = options.proxy.get_secret_value()
        if not options.allow_link_local:
            try:
                refuse_link_local_behind(options.url.get_secret_value())
            except LinkLocalError as error:
                note = f"was not asked: {error.strerror}, see allow_link_local"
                raise SourceError(f"{options.host} {note}") from None
    arguments = {
        "headers": CIMultiDict(headers),
        "timeout": aiohttp.ClientTimeout(total=timeout_s, sock_connect=timeout_s / 2),
        "ssl": tls or True,
        "allow_redirects": False,
        "proxy": proxy,
    }
    if options.auth:
        arguments["middlewares"] = (make_authentication(options.auth, tls, deadline, proxy),)
    return arguments


async def fetch(
    session: aiohttp.ClientSession,
    url: URL,
    options: HttpOptions,
    arguments: dict[str, Any],
    *,
    method: str = "GET",
    data: bytes | None = None,
) -> tuple[bytes, aiohttp.ClientResponse] | RequestFailure:
    """The body of the answer, and the answer's head. ``arguments`` are `request_options`."""
    MAY_BE_LINK_LOCAL.set(options.allow_link_local)
    try:
        async with session.request(method, url, data=data, **arguments) as response:
            failure = _status_failure(response)
            content = None
            if failure is None:
                content = await _read_body(response, options.max_bytes)
            if content is not None:
                return content, response
            response.close()  # reading the rest would cost more than a new connection
            note = f"answered with more than max_bytes, {options.max_bytes}"
            return failure or RequestFailure(CoverageReason.TOO_LARGE, note, is_too_large=True)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        return _connection_failure(error, options)
    except zlib.error:
        note = "sent an answer whose compression is broken or unknown"
        return RequestFailure(CoverageReason.MALFORMED, note)


async def _read_body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Read and decompress the body. The result is None if it has more than ``most`` bytes.

    No further bytes are read or decompressed.
    """
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise zlib.error
    is_compressed = encoding != "identity"
    if not is_compressed and (response.content_length or 0) > most:
        return None
    inflate = None
    parts = []
    size = 0
    while content := await response.content.readany():
        while content:
            part = content
            content = b""
            if is_compressed:
                if inflate is None or (inflate.eof and part[0] == _START_OF_GZIP):
                    inflate = _make_inflate(encoding, part[0])
                elif inflate.eof:
                    break
                part = inflate.decompress(part, most + 1 - size)
                content = inflate.unused_data
            parts.append(part)
            size += len(part)
            if size > most:
                return None
    if is_compressed and (inflate is None or not inflate.eof):
        raise zlib.error
    return b"".join(parts)


def _make_inflate(encoding: str, first_byte: int) -> "zlib._Decompress":
    """Some servers send deflate without the header of zlib.

    Then the low four bits of the first byte are never 8 or f.
    """
    is_raw = encoding == "deflate" and first_byte & 0x0F not in (0x08, 0x0F)
    return zlib.decompressobj(wbits=-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)


def _status_failure(response: aiohttp.ClientResponse) -> RequestFailure | None:
    """The failure that a status means. None if the body is an answer."""
    status = response.status
    if status in _ANSWERED:
        return None
    note = f"answered {status} {_PHRASES.get(status, '')}".rstrip()
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        note += ": rankwatch does not follow redirects, so write the final address"
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.NO_CONTENT):
        return RequestFailure(CoverageReason.MISSING, note)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        reason = CoverageReason.RATE_LIMITED
    elif status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        reason = CoverageReason.SERVER_ERROR
    else:
        is_too_large = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return RequestFailure(CoverageReason.HTTP_ERROR, note, is_too_large=is_too_large)
    pause_s = retry_after_s(response.headers.get("Retry-After"), utc_now()) or 0.0
    return RequestFailure(reason, note, is_retried=True, retry_after_s=pause_s)


def _connection_failure(error: Exception, options: HttpOptions) -> RequestFailure:
    """The failure to report for a connection error.

    The note never repeats an address, because an address may contain a secret.
    """
    reason = CoverageReason.UNREACHABLE
    is_retried = True
    timeout_s = options.timeout.total_seconds()
    match error:
        case TokenError():
            note = f"was not asked: token_url {error}"
        case aiohttp.ConnectionTimeoutError():
            note = (
                f"accepted no connection within {timeout_s / 2:g} s, half of the timeout of a "
                "request"
            )
        case TimeoutError():
            reason = CoverageReason.TIMEOUT
            note = f"gave no answer within {timeout_s:g} s, the timeout of a request"
        case aiohttp.ClientError() if (fault := find_tls_fault(error)) is not None:
            note = ": ".join(write_tls_fault(fault, TlsClient.HTTP_SOURCE))
            is_retried = fault in (TlsFault.HANDSHAKE, TlsFault.NO_TLS)
        case aiohttp.ClientConnectorError(os_error=LinkLocalError()):
            note = f"was not asked: {error.strerror}, see allow_link_local"
            is_retried = False
        case aiohttp.ClientConnectorDNSError():
            note = "is a name that DNS could not resolve"
        case aiohttp.ClientResponseError():
            reason = CoverageReason.MALFORMED
            note = "sent an answer that is not HTTP"
            is_retried = False
        case ValueError():
            note = "was not asked: the request is invalid, check url, headers and token"
            is_retried = False
        case _:
            number = getattr(error, "errno", None)
            cause = os.strerror(number) if number else "it was closed before the end of the answer"
            note = f"refused or lost the connection: {cause}"
    is_of_host = isinstance(error, aiohttp.ClientConnectorError) and not isinstance(
        error, aiohttp.ClientSSLError
    )
    failure = RequestFailure(reason, note, is_retried, is_of_host=is_of_host)
    proxy = open_proxy(options.proxy)
    if proxy is None:
        return failure
    return _proxy_failure(error, proxy, failure)


def _proxy_failure(error: Exception, proxy: WebProxy, failure: RequestFailure) -> RequestFailure:
    """The failure of the proxy if it is at fault. Otherwise ``failure`` is returned."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        is_login = error.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
        advice = "check that the proxy may connect to this host"
        if is_login:
            advice = "check the credentials in proxy"
        note = f"was not reached: {proxy.name} answered {error.status} to CONNECT: {advice}"
        return RequestFailure(CoverageReason.UNREACHABLE, note, is_retried=not is_login)
    is_refused_by_us = isinstance(getattr(error, "os_error", None), LinkLocalError)
    if failure.is_of_host and not is_refused_by_us:
        return replace(failure, note=f"was not reached: {proxy.name} {failure.note}")
    return failure
