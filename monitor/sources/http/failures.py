"""Interprets the status of an answer and the error of a connection."""

import os
from dataclasses import replace
from http import HTTPStatus

import aiohttp

from monitor.boundary.foreign_errors import find_tls_fault
from monitor.boundary.link_local import LinkLocalError
from monitor.boundary.web_proxy import WebProxy, open_proxy
from monitor.model.instants import retry_after_s, utc_now
from monitor.model.rankings import CoverageReason
from monitor.model.tls_faults import TlsClient, TlsFault
from monitor.sources.http import HttpOptions
from monitor.sources.http.authentication import TokenError
from monitor.sources.http.request import RequestFailure
from monitor.texts.tls_faults import write_tls_fault

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def status_failure(response: aiohttp.ClientResponse) -> RequestFailure | None:
    """The failure that a status means. None if the body is an answer."""
    status = response.status
    if status in (HTTPStatus.OK, HTTPStatus.CREATED):
        return None
    note = f"answered {status} {_PHRASES.get(status, '')}".rstrip()
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


def connection_failure(error: Exception, options: HttpOptions) -> RequestFailure:
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
            cause = os.strerror(number) if number else "its end was not seen"
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
    """The failure of the proxy. If the proxy is not at fault, ``failure`` itself."""
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
