"""Lists from a recommender over HTTP, one user or a batch of them a request: the kind and its options."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from monitor.options import NOT_IN_HASH, ConfigPath, Duration, Options
from monitor.slot_templates import check_placeholders, placeholders
from monitor.sources.expressions import Expression
from monitor.sources.http.body import body_for_batch
from monitor.sources.kinds import Reader, SourceKind

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _check_url(url: SecretStr) -> SecretStr:
    # Messages do not repeat the address, which may hold a password.
    text = check_placeholders(url.get_secret_value(), "user", "users", "k")
    if not text.isascii() or re.search(r"[\s\x00-\x1f\x7f]", re.sub(r"\{[^{}]*\}", "", text)):
        msg = "has blanks or characters beyond ASCII: write them percent-encoded"
        raise ValueError(msg)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        msg = "is no URL: expected http://host:port/path"
        raise ValueError(msg) from None
    if parts.scheme not in ("http", "https") or not host:
        msg = "must start with http:// or https:// and name a host"
        raise ValueError(msg)
    if "{" in parts.netloc:
        msg = "may have placeholders after the host only"
        raise ValueError(msg)
    return url


def _check_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or re.search(r"[\r\n\0]", value.get_secret_value()):
            msg = "a header's name is letters, digits and hyphens, and its value has no line break"
            raise ValueError(msg)
    return headers


def _check_token(token: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[\x21-\x7e]+", token.get_secret_value()):
        msg = "must be printable ASCII without blanks"
        raise ValueError(msg)
    return token


class HttpSourceOptions(Options):
    """A recommender that answers one user's list a request, or those of a batch, as JSON."""

    url: Annotated[SecretStr, AfterValidator(_check_url)] = Field(
        description="Address; `{user}`, `{k}` and `{slot:%Y-%m-%d}` are filled in, percent-encoded; `{users}` is a batch, with "
        "commas between. No redirects.",
    )
    batch: Annotated[int | None, NOT_IN_HASH] = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Most users a request. Where the server finds that too many (413), or its answer is longer than "
        "`max_bytes`, half as many are asked for from then on.",
    )
    answers: Expression | None = Field(
        default=None,
        description="With `batch`: JMESPath to what holds one answer a user, to each of which `items`, `scores` and `user` are "
        "applied: an array, in the order asked where `user` does not say whose each is, or an object by user's key. By default "
        "the whole.",
    )
    items: Expression = Field(default="@", description="JMESPath to the array of item ids in the answer, best first.")
    scores: Expression | None = Field(
        default=None,
        description="JMESPath to the array of the model's own scores, one an item in the items' order; equal ones are ties.",
    )
    user: Expression | None = Field(
        default=None,
        description="JMESPath to the user's key in the answer; an answer that names another user is counted as wrong_user.",
    )
    method: Literal["GET", "POST"] = Field(default="GET", description="How to ask; both must be safe to repeat.")
    body: Any = Field(
        default=None,
        repr=False,  # it may hold a key, and so neither a repr nor a dump shows it
        exclude=True,
        description='JSON to POST; `{user}`, `{k}` and `{slot:...}` in its texts are filled in, `"{k}"` alone as a number. '
        'With `batch`, `"{users}"` alone is the array of their keys, `"{count}"` their number, and an array of one element '
        "that names `{user}` has that element once a user.",
    )
    headers: Annotated[dict[str, SecretStr], AfterValidator(_check_headers)] = Field(
        default_factory=dict, description="Headers to send; `Name_file: path` reads the value from a file."
    )
    token: Annotated[SecretStr, AfterValidator(_check_token)] | None = Field(
        default=None, description="Token for `Authorization: Bearer`."
    )
    ca_file: Annotated[ConfigPath | None, NOT_IN_HASH] = Field(
        default=None, description="PEM file of the authorities to trust instead of the system's, for https."
    )
    concurrency: Annotated[int, NOT_IN_HASH] = Field(default=32, ge=1, le=512, description="Most requests under way at once.")
    timeout: Annotated[Duration, NOT_IN_HASH] = Field(
        default=timedelta(seconds=5), description="Longest time for one request, from connecting to the last byte."
    )
    retries: Annotated[int, NOT_IN_HASH] = Field(
        default=2,
        ge=0,
        le=10,
        description="How often a request is repeated after a failed connection, a timeout, 429 (Retry-After is kept) or 5xx.",
    )
    max_bytes: Annotated[int, NOT_IN_HASH] = Field(
        default=2**20, ge=1024, le=2**30, description="Largest answer, in bytes after decompression; longer ones are cut off."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.body is not None and self.method != "POST":
            msg = "body is sent with method: POST only"
            raise ValueError(msg)
        in_url = placeholders(self.url.get_secret_value())
        asked = in_url | placeholders(json.dumps(self.body, default=str))
        if not asked & {"user", "users"}:
            msg = "url or body must contain {user}: else every user would get the same list"
            raise ValueError(msg)
        if self.batch is None and ("users" in asked or self.answers is not None):
            msg = "{users} and answers go with batch, the most users a request"
            raise ValueError(msg)
        if self.batch is not None and "user" in in_url | placeholders(json.dumps(body_for_batch(self.body, ()), default=str)):
            msg = "batch asks for many users at once: write {users}, or {user} in an array of one element of the body"
            raise ValueError(msg)
        if self.token and "authorization" in map(str.lower, self.headers):
            msg = "give either token or an Authorization header, not both"
            raise ValueError(msg)
        return self


HTTP = SourceKind(
    lists=Reader(
        HttpSourceOptions,
        "monitor.sources.http.source:HttpSource",
        "A recommender asked over HTTP, one user or a batch of them a request.",
    ),
    is_live=lambda _: True,
)
