"""One user's request: its address and body, and how its answer is read."""

from __future__ import annotations

import json
import mimetypes
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
import jmespath
from yarl import URL

from monitor.model import CoverageReason, PullRequest
from monitor.slot_templates import fill_slot, placeholders
from monitor.sources.columns import user_key
from monitor.sources.http import HttpSourceOptions

_CHUNK = 64 * 1024
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_NOT_IN_PATH = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """Why a request gave no list. ``is_retried``: another attempt may do better, not before ``retry_after_s``."""

    reason: CoverageReason
    note: str
    is_retried: bool = False
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """What stands where the list and its scores should be."""

    items: object
    scores: object = None


class RequestTemplate:
    """Everything about a pull's requests that is the same for every user, worked out once."""

    def __init__(self, options: HttpSourceOptions, request: PullRequest) -> None:
        url = fill_slot(options.url.get_secret_value(), request.slot, lambda text: quote(text, safe=""))
        self._url = url.replace("{k}", str(request.k))
        self._has_user_in_path = "user" in placeholders(url.partition("?")[0])
        self._body = None if options.body is None else _map_texts(options.body, lambda text: _without_user(text, request))
        self._items = jmespath.compile(options.items).search
        self._scores = jmespath.compile(options.scores).search if options.scores else None
        self._user = jmespath.compile(options.user).search if options.user else None
        self.method = options.method

    def is_askable(self, user: str) -> bool:
        """Whether the user's key can stand in the address and still lead where it should."""
        return not self._has_user_in_path or user not in _NOT_IN_PATH

    def url(self, user: str) -> URL:
        """Address for the user."""
        return URL(self._url.replace("{user}", user if _UNRESERVED(user) else quote(user, safe="")), encoded=True)

    def body(self, user: str) -> bytes | None:
        """Body for the user, None without one."""
        if self._body is None:
            return None
        return json.dumps(_map_texts(self._body, lambda text: text.replace("{user}", user))).encode()

    def read(self, user: str, content: bytes, response: aiohttp.ClientResponse) -> ListAnswer | RequestFailure:
        """Return the values at the places of the list and the scores, of an answer about this user."""
        try:
            answer = json.loads(content.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            return RequestFailure(
                CoverageReason.MALFORMED, f"answered {response.status} with {_guess(content, response)}, not JSON"
            )
        try:
            if self._user is not None and user_key(self._user(answer)) != user:
                return RequestFailure(CoverageReason.WRONG_USER, "answered about another user")
            return ListAnswer(self._items(answer), self._scores(answer) if self._scores else None)
        except (jmespath.exceptions.JMESPathError, RecursionError):
            which = "items or scores expression" if self._scores else "items expression"
            return RequestFailure(CoverageReason.MALFORMED, f"gave an answer to which the {which} cannot be applied")


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Body after decompression, None once it is known to be longer than ``most``: nothing beyond is read or inflated."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        content = await response.content.readany()
        if response.content.at_eof() and len(content) <= most:
            return content
        return None if (response.content_length or 0) > most else await _read_plain(response.content, content, most)
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise zlib.error
    return await _read_inflated(response.content, most)


async def _read_plain(stream: aiohttp.StreamReader, content: bytes, most: int) -> bytes | None:
    parts, size = [content], len(content)
    while size <= most and (content := await stream.readany()):
        parts.append(content)
        size += len(content)
    return b"".join(parts) if size <= most else None


async def _read_inflated(stream: aiohttp.StreamReader, most: int) -> bytes | None:
    inflate, parts, size = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32), [], 0
    while content := await stream.readany():
        for start in range(0, len(content), _CHUNK):
            part = inflate.decompress(content[start : start + _CHUNK], most + 1 - size)
            parts.append(part)
            size += len(part)
            if size > most:
                return None
    if not inflate.eof:
        raise zlib.error
    return b"".join(parts)


def _without_user(text: str, request: PullRequest) -> object:
    """A text of the body with everything filled in but the user."""
    return request.k if text == "{k}" else fill_slot(text, request.slot).replace("{k}", str(request.k))


def _map_texts(body: object, fill: Callable[[str], object]) -> object:
    if isinstance(body, dict):
        return {key: _map_texts(value, fill) for key, value in body.items()}
    if isinstance(body, list):
        return [_map_texts(value, fill) for value in body]
    return fill(body) if isinstance(body, str) else body


def _guess(content: bytes, response: aiohttp.ClientResponse) -> str:
    # The answer is not repeated: it came from outside, and may hold what nobody should log; neither is a type that is none.
    start, kind = content[:100].lstrip().lower(), response.content_type
    told = f"content type {kind}" if mimetypes.guess_extension(kind) else "an unknown content type"
    is_page = start.startswith((b"<!doctype", b"<html", b"<head", b"<body"))
    return f"{'HTML' if is_page else 'text of another kind' if start else 'an empty body'} ({told})"
