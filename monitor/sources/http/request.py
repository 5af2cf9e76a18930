"""Makes requests for one user or for a batch, and reads their answers."""

import json
import mimetypes
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

import aiohttp
from yarl import URL

from monitor.boundary.slot_templates import fill_slot, placeholders
from monitor.measures.reading.ids import user_key
from monitor.measures.reading.lists import parse_cell, parse_json
from monitor.model.rankings import CoverageReason
from monitor.model.runs import PullRequest
from monitor.sources.expressions import Find, NotAppliedError, is_plain, make_finder, shape_of
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.body import body_for_batch, body_for_user, fill_body

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}").fullmatch
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
_SILENT = {
    CoverageReason.UNREACHABLE,
    CoverageReason.TIMEOUT,
    CoverageReason.SERVER_ERROR,
    CoverageReason.RATE_LIMITED,
}
_NOT_IN_PATH = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """The reason why a request gave no list."""

    reason: CoverageReason
    note: str
    is_retried: bool = False  # a retry may succeed after retry_after_s
    is_too_large: bool = False  # a request for fewer users may succeed
    is_of_host: bool = False  # the host accepts no connections
    retry_after_s: float = 0.0

    @property
    def is_silence(self) -> bool:
        """Whether no answer about the users came, because the source was away or failed."""
        return self.reason in _SILENT


@dataclass(frozen=True, slots=True)
class ListAnswer:
    """The values in an answer for one user's list, scores and model version. They are unchecked."""

    items: object
    scores: object = None
    version: object = None


AnswersByUser = Mapping[str, ListAnswer | RequestFailure]
"""The answer or failure of each user of a request."""


class RequestTemplate:
    """Makes the requests of one pull and reads the answers."""

    def __init__(self, options: HttpSourceOptions, request: PullRequest) -> None:
        url = fill_slot(options.address, request.slot, partial(quote, safe=""))
        self._url = URL(url.replace("{k}", str(request.k)), encoded=True)
        self._path = self._url.raw_path
        self._is_batched = options.batch is not None
        self._placeholder = "{users}" if self._is_batched else "{user}"
        self._has_placeholder_beyond_path = self._placeholder in str(
            self._url.with_path("/", keep_query=True)
        )
        self._has_user_in_path = bool({"user", "users"} & placeholders(url.partition("?")[0]))
        self._body = None if options.body is None else fill_body(options.body, request)
        self._has_whole_numbers = ":int}" in json.dumps(options.body)
        self._answers = make_finder(options.answers or "@")
        self._items = make_finder(options.items)
        self._scores = _optional_finder(options.scores)
        self._user = _optional_finder(options.user)
        self._error = _optional_finder(options.error)
        self._version = _optional_finder(options.model_version)
        self._options = options
        self.empty: str | None = None  # the shape of the first answer with an empty list

    def problem(self, user: str) -> str | None:
        """The reason why no request for the user is possible. None if a request is possible."""
        if self._has_user_in_path and user in _NOT_IN_PATH:
            return (
                "was not asked: the user's id is empty, . or .., which would change the path of url"
            )
        if self._has_whole_numbers and not _WHOLE_NUMBER(user):
            return "was not asked: the user's id is not a whole number"
        return None

    def url(self, users: Sequence[str]) -> URL:
        """The URL for these users."""
        keys = ",".join(map(_quote, users))
        if self._has_placeholder_beyond_path:
            return URL(str(self._url).replace(self._placeholder, keys), encoded=True)
        path = self._path.replace(self._placeholder, keys)
        return self._url.with_path(path, encoded=True, keep_query=True)

    def body(self, users: Sequence[str]) -> bytes | None:
        """The body for these users. None if requests have no body."""
        if self._body is None:
            return None
        if self._is_batched:
            body = body_for_batch(self._body, users)
        else:
            body = body_for_user(self._body, users[0])
        return json.dumps(body).encode()

    def read(
        self,
        users: Sequence[str],
        content: bytes,
        response: aiohttp.ClientResponse,
    ) -> AnswersByUser | RequestFailure:
        """Select the list and scores of each user from the answer about these users."""
        try:
            answer = parse_cell(parse_json(content))
        except ValueError:
            note = (
                f"answered {response.status} with {_describe_content(content, response)}, not JSON"
            )
            return RequestFailure(CoverageReason.MALFORMED, note)
        version = response.headers.get(self._options.model_version_header or "")
        if not self._is_batched:
            return {users[0]: self._read_user(users[0], answer, version)}
        try:
            return self._read_batch(users, answer, self._find_version(answer, version))
        except NotAppliedError:
            return _not_applied("answers or error", answer, users)

    def _read_user(self, user: str, answer: object, version: object) -> ListAnswer | RequestFailure:
        """The answer about one user. An error in it is a failure of this user only."""
        try:
            return self._select(user, answer, version)
        except NotAppliedError:
            return _not_applied("items, scores, user or error", answer, [user])
        except Exception as error:  # noqa: BLE001 - the answer is from outside
            return unreadable_answer(error)

    def _select(self, user: str, answer: object, version: object) -> ListAnswer | RequestFailure:
        failure = self._find_error(answer, [user])
        if failure is not None:
            return failure
        if self._user is not None:
            key = user_key(self._user(answer))
            if key is None:
                return self._no_user(answer, user)
            if key != user:
                return RequestFailure(CoverageReason.WRONG_USER, "answered about another user")
        items = self._items(answer)
        if items is None and answer is not None:
            note = (
                f"has nothing at the path that `items` gives ({self._options.items}), in "
                f"{shape_of(answer, [user])}"
            )
            return RequestFailure(CoverageReason.MALFORMED, note)
        if self.empty is None and items == []:
            self.empty = shape_of(answer, [user])
        scores = None if self._scores is None else self._scores(answer)
        return ListAnswer(items, scores, self._find_version(answer, version))

    def _no_user(self, answer: object, user: str) -> RequestFailure:
        note = (
            f"has no user id at the path that `user` gives ({self._options.user}), in "
            f"{shape_of(answer, [user])}"
        )
        return RequestFailure(CoverageReason.MALFORMED, note)

    def _find_version(self, answer: object, default: object) -> object:
        if self._version is not None:
            with suppress(NotAppliedError):
                return self._version(answer) or default
        return default

    def _find_error(self, answer: object, users: Sequence[str]) -> RequestFailure | None:
        error = None if self._error is None else self._error(answer)
        if not error:
            return None
        code = ""
        if isinstance(error, str | int) and error is not True and is_plain(str(error)):
            code = f" {error}"
        if any(user in code for user in users):
            code = ""
        return RequestFailure(
            CoverageReason.HTTP_ERROR, f"answered 200 with an error{code} ({self._options.error})"
        )

    def _read_batch(
        self,
        users: Sequence[str],
        answer: object,
        version: object,
    ) -> AnswersByUser | RequestFailure:
        """Read the answer to a request for several users.

        A user without an answer is malformed if it may belong to an element whose key is null or
        cannot be read. Otherwise the answer left the user out.
        """
        failure = self._find_error(answer, users)
        if failure is not None:
            return failure
        pairs = self._pair(users, answer)
        if isinstance(pairs, RequestFailure):
            return pairs
        counts = Counter(key for key, _ in pairs)
        by_key = dict(pairs)
        by_user = dict[str, ListAnswer | RequestFailure]()
        for user in users:
            if counts[user] == 1:
                by_user[user] = self._read_user(user, by_key[user], version)
            elif counts[user] > 1:
                by_user[user] = _DUPLICATE_USER
            elif None in counts:
                by_user[user] = self._no_user(by_key[None], user)
            elif _NO_KEY in counts:
                by_user[user] = _not_applied("user", answer, [user])
            else:
                by_user[user] = _LEFT_OUT
        return by_user

    def _pair(
        self, users: Sequence[str], answer: object
    ) -> list[tuple[object, object]] | RequestFailure:
        """The key and the answer of each user of a batch."""
        answers = self._answers(answer)
        if isinstance(answers, dict):
            return list(answers.items())
        if not isinstance(answers, list):
            note = "gave an answer that has no array or object with the answers of the users"
            if self._options.answers:
                shape = shape_of(answer, users)
                note += f" at the path that `answers` gives ({self._options.answers}), in {shape}"
            return RequestFailure(CoverageReason.MALFORMED, note)
        if self._user is None:
            if len(answers) == len(users):
                return list(zip(users, answers, strict=True))
            note = (
                f"gave {len(answers):,} answers to a request for {len(users):,} users: set "
                "the option user to the field with the user id"
            )
            return RequestFailure(CoverageReason.MALFORMED, note)
        pairs = list[tuple[object, object]]()
        for element in answers:
            try:
                pairs.append((user_key(self._user(element)), element))
            except NotAppliedError:
                pairs.append((_NO_KEY, element))
        return pairs


def _optional_finder(expression: str | None) -> Find | None:
    return None if expression is None else make_finder(expression)


def _not_applied(which: str, answer: object, users: Sequence[str]) -> RequestFailure:
    note = (
        f"gave an answer to which the {which} expression cannot be applied, "
        f"{shape_of(answer, users)}"
    )
    return RequestFailure(CoverageReason.MALFORMED, note)


def unreadable_answer(error: Exception) -> RequestFailure:
    """The failure for an answer if reading it raised this error."""
    return RequestFailure(
        CoverageReason.MALFORMED, f"gave an answer that cannot be read ({type(error).__name__})"
    )


_NO_KEY = object()
"""The key of an answer that has no readable key."""
_LEFT_OUT = RequestFailure(CoverageReason.MISSING, "omitted users from its answer to a batch")
_DUPLICATE_USER = RequestFailure(
    CoverageReason.DUPLICATE_USER, "has the user twice in its answer to a batch"
)


def _quote(user: str) -> str:
    if _UNRESERVED(user):  # this is faster
        return user
    return quote(user, safe="")


def _describe_content(content: bytes, response: aiohttp.ClientResponse) -> str:
    # The answer and an unknown type are not repeated, because they may contain secrets.
    start = content[:100].lstrip().lower()
    what = "text of another kind" if start else "an empty body"
    if start.startswith((b"<!doctype", b"<html", b"<head", b"<body")):
        what = "HTML"
    if mimetypes.guess_extension(response.content_type):
        return f"{what} (content type {response.content_type})"
    return f"{what} (an unknown content type)"
