"""A request for one user or a batch of them: its address and body, and how its answer is read."""

import json
import mimetypes
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from yarl import URL

from monitor.model.rankings import CoverageReason
from monitor.model.runs import PullRequest
from monitor.reading.ids import user_key
from monitor.slot_templates import fill_slot, placeholders
from monitor.sources.expressions import NotAppliedError, finder, is_plain, shape_of
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.body import body_for_batch, body_for_user, fill_body
from monitor.sources.list_collector import from_json

_CHUNK = 64 * 1024
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}").fullmatch
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_SILENT = {
    CoverageReason(reason) for reason in ("unreachable", "timeout", "server_error", "rate_limited")
}
_NOT_IN_PATH = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """Why a request gave no list."""

    reason: CoverageReason
    note: str
    is_retried: bool = False  # another attempt may do better, not before retry_after_s
    is_too_large: bool = False  # one for fewer users may do better
    is_of_host: bool = False  # nobody can connect to its host
    retry_after_s: float = 0.0

    @property
    def is_silence(self) -> bool:
        """Whether the source was away, refused or failed, and so gave no answer about users."""
        return self.reason in _SILENT


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """What stands where the list and its scores should be."""

    items: object
    scores: object = None
    version: object = None


AnswersByUser = Mapping[str, ListAnswer | RequestFailure]
"""Of those who were asked for together."""


class RequestTemplate:
    """Everything about a pull's requests that is the same for every user, worked out once."""

    def __init__(self, options: HttpSourceOptions, request: PullRequest) -> None:
        url = fill_slot(options.address, request.slot, lambda text: quote(text, safe=""))
        self._url = URL(url.replace("{k}", str(request.k)), encoded=True)
        self._place = "{user}" if options.batch is None else "{users}"
        self._has_place_beside_path = self._place in str(self._url.with_path("/", keep_query=True))
        self._has_user_in_path = bool({"user", "users"} & placeholders(url.partition("?")[0]))
        self._body = None if options.body is None else fill_body(options.body, request)
        self._has_whole_numbers = ":int}" in json.dumps(options.body)
        self._is_batched = options.batch is not None
        self._answers, self._items = finder(options.answers or "@"), finder(options.items)
        self._scores = finder(options.scores) if options.scores else None
        self._user = finder(options.user) if options.user else None
        self._error = finder(options.error) if options.error else None
        self._version = finder(options.model_version) if options.model_version else None
        self._options = options
        self.method = options.method
        self.empty: str | None = None  # how the first answer with an empty list looks

    def problem(self, user: str) -> str | None:
        """Why the user cannot be asked for, None who can."""
        if self._has_user_in_path and user in _NOT_IN_PATH:
            return "was not asked: the user's key cannot stand in a path"
        if self._has_whole_numbers and not _WHOLE_NUMBER(user):
            return "was not asked: the user's key is no whole number"
        return None

    def url(self, users: Sequence[str]) -> URL:
        """Address for the users."""
        keys = ",".join(map(_quoted, users))
        if self._has_place_beside_path:
            return URL(str(self._url).replace(self._place, keys), encoded=True)
        return self._url.with_path(
            self._url.raw_path.replace(self._place, keys), encoded=True, keep_query=True
        )

    def body(self, users: Sequence[str]) -> bytes | None:
        """Body for the users, None without one."""
        if self._body is None:
            return None
        body = (
            body_for_batch(self._body, users)
            if self._is_batched
            else body_for_user(self._body, users[0])
        )
        return json.dumps(body).encode()

    def read(
        self, users: Sequence[str], content: bytes, response: aiohttp.ClientResponse
    ) -> AnswersByUser | RequestFailure:
        """Return the values at the places of the lists and the scores, of an answer about these users."""
        try:
            answer = from_json(content)
        except ValueError:
            return RequestFailure(
                CoverageReason.MALFORMED,
                f"answered {response.status} with {_guess(content, response)}, not JSON",
            )
        usual = response.headers.get(self._options.model_version_header or "")
        try:
            if self._is_batched:
                return self._read_batch(users, answer, self._find_version(answer, usual))
        except NotAppliedError:
            return _not_applied("answers or error", answer, users)
        return {users[0]: self._read_user(users[0], answer, usual)}

    def _read_user(self, user: str, answer: object, usual: object) -> ListAnswer | RequestFailure:
        """What the answer says of one user. Whatever is odd about it concerns this user alone."""
        try:
            return self._read_one(user, answer, usual)
        except NotAppliedError:
            return _not_applied("items, scores, user or error", answer, [user])
        except Exception as error:  # noqa: BLE001 - the answer came from outside
            return unreadable(error)

    def _read_one(self, user: str, answer: object, usual: object) -> ListAnswer | RequestFailure:
        if failure := self._told_error(answer, [user]):
            return failure
        if self._user is not None and user_key(self._user(answer)) != user:
            return RequestFailure(CoverageReason.WRONG_USER, "answered about another user")
        items = self._items(answer)
        if items is None and answer is not None:
            note = (
                f"has nothing where items says ({self._options.items}), in "
                f"{shape_of(answer, [user])}"
            )
            return RequestFailure(CoverageReason.MALFORMED, note)
        if self.empty is None and items == []:
            self.empty = shape_of(answer, [user])
        return ListAnswer(
            items, self._scores(answer) if self._scores else None, self._find_version(answer, usual)
        )

    def _find_version(self, answer: object, usual: object) -> object:
        with suppress(NotAppliedError):
            return (self._version and self._version(answer)) or usual
        return usual

    def _told_error(self, answer: object, users: Sequence[str]) -> RequestFailure | None:
        if self._error is None or not (told := self._error(answer)):
            return None
        code = (
            f" {told}"
            if isinstance(told, str | int) and told is not True and is_plain(str(told))
            else ""
        )
        if any(user in code for user in users):
            code = ""
        return RequestFailure(
            CoverageReason.HTTP_ERROR,
            f"answered 200 and tells of an error{code} ({self._options.error})",
        )

    def _read_batch(
        self, users: Sequence[str], answer: object, usual: object
    ) -> AnswersByUser | RequestFailure:
        if failure := self._told_error(answer, users):
            return failure
        found, keys = self._answers(answer), list[object]()
        if isinstance(found, dict):
            keys, found = list(found), list(found.values())
        elif not isinstance(found, list):
            where = (
                f" where answers says ({self._options.answers}), in {shape_of(answer, users)}"
                if self._options.answers
                else ""
            )
            note = f"gave an answer without an array or object of answers by user{where}"
            return RequestFailure(CoverageReason.MALFORMED, note)
        elif self._user is not None:
            keys = [self._key_of(each) for each in found]
        elif len(found) == len(users):
            keys = list(users)
        else:
            note = (
                f"gave {len(found):,} answers where {len(users):,} users were asked for: set "
                "user to match them by key"
            )
            return RequestFailure(CoverageReason.MALFORMED, note)
        times, answers = Counter(keys), dict(zip(keys, found, strict=True))
        read = dict[str, ListAnswer | RequestFailure]()
        for user in users:
            if times[user] > 1:
                read[user] = _TWICE
            elif times[user] == 0:
                read[user] = _not_applied("user", answer, [user]) if _NO_KEY in times else _LEFT_OUT
            else:
                read[user] = self._read_user(user, answers[user], usual)
        return read

    def _key_of(self, answer: object) -> object:
        try:
            return user_key(self._user(answer)) if self._user else None
        except NotAppliedError:
            return _NO_KEY


def _not_applied(which: str, answer: object, users: Sequence[str]) -> RequestFailure:
    note = (
        f"gave an answer to which the {which} expression cannot be applied, "
        f"{shape_of(answer, users)}"
    )
    return RequestFailure(CoverageReason.MALFORMED, note)


def unreadable(error: Exception) -> RequestFailure:
    """The failure for an answer that raised this error while it was read."""
    return RequestFailure(
        CoverageReason.MALFORMED, f"gave an answer that cannot be read ({type(error).__name__})"
    )


_NO_KEY = object()
"""Stands for the user of an answer from which the user cannot be read."""
_LEFT_OUT = RequestFailure(CoverageReason.MISSING, "left the user out of its answer to a batch")
_TWICE = RequestFailure(
    CoverageReason.DUPLICATE_USER, "has the user twice in its answer to a batch"
)


async def read_body(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Body after decompression, None once it is known to be longer than ``most``: nothing beyond is read or inflated."""
    encoding = response.headers.get("Content-Encoding", "identity").lower()
    if encoding == "identity":
        content = await response.content.readany()
        if response.content.at_eof() and len(content) <= most:
            return content
        return (
            None
            if (response.content_length or 0) > most
            else await _read_plain(response.content, content, most)
        )
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


def _quoted(user: str) -> str:
    return user if _UNRESERVED(user) else quote(user, safe="")


def _guess(content: bytes, response: aiohttp.ClientResponse) -> str:
    # The answer is not repeated: it came from outside, and may hold what nobody should log; neither
    # is a type that is none.
    start, kind = content[:100].lstrip().lower(), response.content_type
    told = f"content type {kind}" if mimetypes.guess_extension(kind) else "an unknown content type"
    is_page = start.startswith((b"<!doctype", b"<html", b"<head", b"<body"))
    return f"{'HTML' if is_page else 'text of another kind' if start else 'an empty body'} ({told})"
